//! `bash_start`, `bash_read` and `bash_stop`.

use std::time::Duration;

use loopwright_core::{BoxError, FilesChanged, Tool, ToolCx, ToolOutput};
use loopwright_sandbox::{Command, Output};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::background::TaskNumber;
use crate::bash::background::shells::{Said, Shells};
use crate::bash::denial_notes;
use crate::bash::directory::Wrapped;
use crate::bash::needs::{self, NetworkUsed};
use crate::bash::tool::reduced_time_note;
use crate::bash::{Bash, BashArgs, BashError};

/// The longest wait for something new, in seconds.
const MAX_SECONDS: i64 = 60;

const START: &str = "Starts a command in the background, such as a server, and returns its \
    number for `bash_read` and `bash_stop`.";

/// Who reaches a server, if each command has a network of its own.
const PORTS: &str = " Other commands cannot connect to its ports.";

/// How long a command runs that ends with its run.
const OF_RUN: &str = "The command is stopped when your run ends.";

/// How long one runs that outlives it.
const LASTING: &str = "The command keeps running after your answer, and is stopped when the user ends the conversation.";

/// Starts a background command.
#[derive(Clone, Debug)]
pub struct BashStart {
    bash: Bash,
    shells: Shells,
    description: String,
}

/// Reads the output of a background command.
#[derive(Clone, Debug)]
pub struct BashRead {
    shells: Shells,
}

/// Stops a background command.
#[derive(Clone, Debug)]
pub struct BashStop {
    shells: Shells,
}

/// The arguments of the tool `bash_read`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashReadArgs {
    /// The number of the command, as returned by `bash_start`.
    pub id: TaskNumber,
    /// Seconds to wait for new output, at most 60; 1 by default.
    #[serde(default)]
    pub wait_seconds: Option<i64>,
}

/// The arguments of the tool `bash_stop`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashStopArgs {
    /// The number of the command, as returned by `bash_start`.
    pub id: TaskNumber,
}

/// Makes the three tools that share commands in the background.
pub(in crate::bash) fn tools(bash: &Bash) -> (BashStart, BashRead, BashStop) {
    let (shells, ends) = match &bash.lasting {
        Some(lasting) => (lasting.shells.clone(), LASTING),
        None => (Shells::listed_in(bash.tasks.clone()), OF_RUN),
    };
    let ports = if bash.has_own_loopback() { PORTS } else { "" };
    let description = format!("{START} {ends} {}{ports}", bash.sandbox_described());
    (
        BashStart { bash: bash.clone(), shells: shells.clone(), description },
        BashRead { shells: shells.clone() },
        BashStop { shells },
    )
}

fn answer(id: &str, said: &Said) -> ToolOutput {
    let mut blocks = Vec::new();
    if said.lost > 0 {
        blocks.push(format!("[{} earlier bytes were not kept]", said.lost));
    }
    let text = String::from_utf8_lossy(&said.bytes);
    if !text.trim().is_empty() {
        blocks.push(text.trim_end().to_owned());
    }
    blocks.extend(said.notes.iter().map(|note| format!("[{note}]")));
    blocks.push(match said.outcome {
        Some(outcome) => format!("[command {id} {outcome}]"),
        None => format!("[command {id} is still running]"),
    });
    let output = ToolOutput::text(blocks.join("\n\n"));
    if said.notes.is_empty() {
        return output;
    }
    ToolOutput { value: Some(json!({ "notes": said.notes }).into()), ..output }
}

impl Tool for BashStart {
    type Args = BashArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "bash_start"
    }

    fn description(&self) -> &str {
        &self.description
    }

    async fn call(&self, args: BashArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let (run, scope) = self.shells.scope(cx);
        let note = self.bash.judge(&args.command)?;
        let policy = self.bash.rules_of_background(&args)?;
        let reduced = reduced_time_note(&args, &policy).map(|it| format!("[{it}]"));
        self.shells.check(&run)?;
        let directory = self.bash.directory(cx.state);
        let line = match &directory {
            Some(it) => Wrapped::entering(&args.command, it),
            None => args.command.clone(),
        };
        let spawned = self.bash.sandbox.spawn(&Command::shell(line), &policy).await;
        let child = spawned.map_err(BashError::from)?;
        let (events, needs) = (cx.events.clone(), self.bash.needs.clone());
        let on_end = move |output: &Output| {
            if !output.network.is_empty() {
                events.emit(|| NetworkUsed { hosts: output.network.clone() });
            }
            let notes = output.notes.iter().cloned().chain(denial_notes(output, &policy));
            notes.chain(needs::notes(output, &policy, &needs)).collect()
        };
        let id = self.shells.keep(&run, &args.command, child, &scope, on_end)?;
        let started = format!("Command {id} is running; read its output with bash_read.");
        let notes = note.into_iter().chain(reduced);
        let started = notes.fold(started, |text, note| format!("{text}\n\n{note}"));
        // It changes files while it runs, which may be after this call.
        Ok(ToolOutput::text(started).with_changed_files(FilesChanged::Unknown))
    }
}

impl Tool for BashRead {
    type Args = BashReadArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "bash_read"
    }

    fn description(&self) -> &'static str {
        "Returns the output of a background command since the last read, and whether the command \
            is still running."
    }

    async fn call(&self, args: BashReadArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let seconds = args.wait_seconds.unwrap_or(1).clamp(0, MAX_SECONDS);
        let wait = Duration::from_secs(seconds.unsigned_abs());
        let said = self.shells.read(&self.shells.scope(cx).0, &args.id.0, wait).await?;
        Ok(answer(&args.id.0, &said))
    }
}

impl Tool for BashStop {
    type Args = BashStopArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "bash_stop"
    }

    fn description(&self) -> &'static str {
        "Stops a background command and all processes that it started, and returns its last \
            output."
    }

    async fn call(&self, args: BashStopArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let said = self.shells.stop(&self.shells.scope(cx).0, &args.id.0).await?;
        Ok(answer(&args.id.0, &said))
    }
}

#[cfg(test)]
mod tests;
