//! Commands in a skill's text, which are replaced by their output.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwright_sandbox::{Command, ExitOutcome, OutputLimits, Sandbox, SandboxPolicy};
use tokio_util::sync::CancellationToken;

use crate::skills::substitute::{Values, fill};

/// Runs the commands in skills: an exclamation mark, followed by the command in backticks.
///
/// They run one after the other when the skill is loaded, in a sandbox without network that can
/// write only to its directory. A command never sees the skill's arguments, and its output is not
/// searched for placeholders. A failed command is replaced by an error. Use this only for skills
/// whose authors you would allow to run commands.
#[derive(Clone)]
#[must_use]
pub struct SkillShell {
    sandbox: Arc<dyn Sandbox>,
    policy: SandboxPolicy,
}

/// A part of a skill's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Command(&'a str),
}

impl SkillShell {
    /// Creates a runner for commands in a directory, for at most 10 s each.
    pub fn in_dir(path: impl Into<PathBuf>) -> Self {
        let policy = SandboxPolicy::in_dir(path)
            .with_timeout(Duration::from_secs(10))
            .with_output(OutputLimits::per_stream(32 << 10));
        Self { sandbox: loopwright_sandbox::auto_select(), policy }
    }

    /// Sets the sandbox.
    pub fn with_sandbox(mut self, sandbox: Arc<dyn Sandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Sets the policy of commands.
    pub fn with_policy(mut self, policy: SandboxPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Runs the commands of a text, and fills in the arguments.
    pub async fn expand(
        &self,
        text: &str,
        arguments: Option<&str>,
        cancel: &CancellationToken,
    ) -> String {
        self.fill(text, Values { arguments, directory: None }, cancel).await
    }

    /// Runs the commands of a text, and fills in values.
    pub(super) async fn fill(
        &self,
        text: &str,
        values: Values<'_>,
        cancel: &CancellationToken,
    ) -> String {
        let mut outputs = Vec::new();
        for command in commands(text, values) {
            outputs.push(self.run(&command, cancel).await);
        }
        expanded(text, values, outputs)
    }

    async fn run(&self, command: &str, cancel: &CancellationToken) -> String {
        let line = Command::shell(command);
        match self.sandbox.run(&line, &self.policy, &mut |_, _| {}, cancel).await {
            Ok(output) if output.outcome.is_success() => output.stdout.to_text().trim().to_owned(),
            Ok(output) => failed(command, output.outcome, &output.stderr.to_text()),
            Err(error) => format!("[error: `{command}` was not run: {error}]"),
        }
    }
}

fn failed(command: &str, outcome: ExitOutcome, said: &str) -> String {
    match said.trim() {
        "" => format!("[error: `{command}` {outcome}]"),
        said => format!("[error: `{command}` {outcome}: {said}]"),
    }
}

/// Returns the commands of a text, in order, as they run.
pub(super) fn commands(text: &str, values: Values<'_>) -> Vec<String> {
    let command = |piece| match piece {
        Piece::Command(command) => Some(fill(command, values.for_commands()).0),
        Piece::Text(_) => None,
    };
    pieces(text).into_iter().filter_map(command).collect()
}

/// Fills in values, and the outputs of the commands in their order. Neither is searched for placeholders or commands.
pub(super) fn expanded(
    text: &str,
    values: Values<'_>,
    outputs: impl IntoIterator<Item = String>,
) -> String {
    let (mut all, mut found) = (String::with_capacity(text.len()), false);
    let mut outputs = outputs.into_iter();
    for piece in pieces(text) {
        match piece {
            Piece::Command(_) => all.push_str(&outputs.next().unwrap_or_default()),
            Piece::Text(text) => {
                let (filled, here) = fill(text, values);
                all.push_str(&filled);
                found |= here;
            }
        }
    }
    values.add_unless(found, all)
}

/// Parts a text into commands and what is around them. A command stands in backticks behind an exclamation mark, or is a
/// block of code whose fence ends with one.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((before, command, after)) = block(rest) {
        all.extend(inline(before));
        all.push(Piece::Command(command));
        rest = after;
    }
    all.extend(inline(rest));
    all
}

/// Finds the first block of commands: returns what is before it, its lines, and what follows it.
fn block(text: &str) -> Option<(&str, &str, &str)> {
    const FENCE: &str = "```";
    let mut at = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match start {
            None if line.trim() == "```!" => start = Some((at, end)),
            Some((before, from)) if line.trim() == FENCE => {
                let command = text[from..at].trim();
                let end = if line.ends_with('\n') { end - 1 } else { end };
                return (!command.is_empty()).then(|| (&text[..before], command, &text[end..]));
            }
            _ => {}
        }
        at = end;
    }
    None
}

/// Parts a text without blocks.
fn inline(text: &str) -> Vec<Piece<'_>> {
    let (mut all, mut rest) = (Vec::new(), text);
    let mut from = 0;
    while let Some(at) = rest[from..].find("!`").map(|it| it + from) {
        let after = &rest[at + 2..];
        match after.find('`') {
            Some(end) if !after[..end].trim().is_empty() => {
                if at > 0 {
                    all.push(Piece::Text(&rest[..at]));
                }
                all.push(Piece::Command(&after[..end]));
                (rest, from) = (&after[end + 1..], 0);
            }
            _ => from = at + 2,
        }
    }
    if !rest.is_empty() {
        all.push(Piece::Text(rest));
    }
    all
}

impl fmt::Debug for SkillShell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillShell")
            .field("sandbox", &self.sandbox.name())
            .field("workdir", &self.policy.workdir)
            .finish_non_exhaustive()
    }
}
