//! Checks of an answer: its schema, a command that verifies the work, and the file that it is written to.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use loopwright_capabilities::structured::{ANSWER, AnswerSchema, TypedOptions};
use loopwright_core::{AgentLoop, AgentState, ExecutionStatus};
use loopwright_sessions::{SessionId, SessionStore};
use tokio_util::sync::CancellationToken;

use crate::agent::Setup;
use crate::console;
use crate::ending::RunEnding;
use crate::exit::ExitCode;
use crate::named_file;
use crate::render::{UiEvent, UiSender, quoted};
use crate::report::Report;
use crate::user_command;
use crate::verification::Verification;

/// What a run checks and keeps of its answer. By default, nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerChecks {
    /// The schema that the answer has to match.
    pub schema: Option<AnswerSchema>,
    /// The command that verifies the work.
    pub verify: Option<String>,
    /// The file that the answer is written to.
    pub output: Option<PathBuf>,
}

/// Why an answer does not count that a process without this schema accepted.
const UNCHECKED: &str =
    "the answer does not match the schema: another process finished the run without this schema";

/// The file for the answer cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the answer to {}; choose a file in an existing directory", path.display())]
pub struct OutputError {
    /// The file.
    path: PathBuf,
    /// Why.
    #[source]
    source: io::Error,
}

impl AnswerChecks {
    /// Looks before a run whether its answer can be written, and changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is a directory, or its directory does not exist.
    pub(crate) fn prepare(&self) -> Result<(), OutputError> {
        let Some(path) = &self.output else { return Ok(()) };
        let failed = |source: io::Error| OutputError { path: path.clone(), source };
        named_file::check_output(path).map_err(failed)?;
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        match directory.map(fs::metadata).transpose().map_err(failed)? {
            Some(found) if !found.is_dir() => Err(failed(io::ErrorKind::NotADirectory.into())),
            _ => Ok(()),
        }
    }

    /// Returns the options that check and write an answer in the same way.
    pub(crate) fn options(&self) -> Vec<String> {
        let schema = self.schema.as_ref().map(|it| ("--schema", it.schema().to_string()));
        let output = self.output.as_ref().map(|it| ("-o", it.to_string_lossy().into_owned()));
        let verify = self.verify.as_ref().map(|it| ("--verify", it.clone()));
        let all = schema.into_iter().chain(output).chain(verify);
        all.map(|(name, value)| format!("{name} {}", quoted(&value))).collect()
    }

    /// Has an agent answer in the form of the schema, if there is one.
    pub(crate) fn apply(&self, agent: AgentLoop) -> AgentLoop {
        match &self.schema {
            Some(schema) => schema.apply(&agent, &TypedOptions::default()),
            None => agent,
        }
    }

    /// Completes the report of a run that has ended: with the answer that matches the schema, and the verdict of the
    /// command. Writes the answer to its file. Only complete answers are verified and written.
    pub(crate) async fn complete(
        &self,
        mut report: Report,
        run: EndedRun<'_>,
        feed: &UiSender,
        cancel: &CancellationToken,
    ) -> Report {
        let is_complete = *run.state.status() == ExecutionStatus::Completed;
        if let Some(schema) = &self.schema {
            // Another process may have finished the run without the schema, or with another one.
            let answer = run.state.get(&ANSWER).filter(|it| schema.matches(it));
            let read = || schema.read(&report.text).filter(|_| is_complete);
            report.structured_output = answer.or_else(read);
            report.text = match &report.structured_output {
                Some(answer) => answer.to_string(),
                None => String::new(),
            };
        }
        // An answer is complete even if calls before it were denied.
        let is_answered = report.exit_code == ExitCode::Done
            || report.stop_reason == RunEnding::AnsweredAfterDenial.name();
        if !is_answered || !is_complete {
            return report;
        }
        if self.schema.is_some() && report.structured_output.is_none() {
            return report.ending(RunEnding::SchemaUnmet, UNCHECKED.to_owned());
        }
        if let Some(path) = &self.output
            && let Err(source) = named_file::write(path, &format!("{}\n", report.text.trim_end()))
        {
            let error = OutputError { path: path.clone(), source };
            report.exit_code = console::fail(&error, ExitCode::Internal);
            report.errors.push(error.to_string());
        }
        let Some(command) = &self.verify else { return report };
        feed.tell(UiEvent::Verifying(command.clone()));
        let verification = verify(&run, command, cancel).await;
        feed.tell(UiEvent::Verified(verification.clone()));
        if !verification.passed && report.exit_code == ExitCode::Done {
            let remark = format!("verification failed: `{command}`");
            report = report.ending(RunEnding::Unverified, remark);
        }
        report.verification = Some(verification);
        report
    }
}

/// A run that has ended.
pub(crate) struct EndedRun<'a> {
    /// What its agent was built from.
    pub(crate) setup: &'a Setup,
    /// Where it came to.
    pub(crate) state: &'a AgentState,
    /// Its session, if one is kept.
    pub(crate) session: Option<(&'a Arc<dyn SessionStore>, &'a SessionId)>,
}

async fn verify(run: &EndedRun<'_>, command: &str, cancel: &CancellationToken) -> Verification {
    let began = Instant::now();
    let done = user_command::run(run.setup, run.session, command, cancel).await;
    let (exit_code, output, notes) = match done {
        Ok(output) => (Some(output.exit_code), output.text, output.notes),
        Err(error) => (None, console::with_causes(&error).join(": "), Vec::new()),
    };
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let passed = exit_code == Some(0);
    let command = command.to_owned();
    Verification { command, passed, exit_code, output, notes, duration_ms }
}
