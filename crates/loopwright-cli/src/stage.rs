//! One run, from its first sign of life to its exit status.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::time::Instant;

use futures::future::{Either, select};
use loopwright_core::{AgentLoop, AgentState, RunOptions, Sinks};

use crate::agent::Setup;
use crate::config::OutputFormat;
use crate::console;
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::render::{
    Beginning, Details, Feed, Json, Note, Progress, Renderer, Scope, StreamJson, Text, play,
};
use crate::report::Report;
use crate::signals::{Brake, Signals};

/// How runs are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What standard output carries.
    pub format: OutputFormat,
    /// Which of a model's words are shown.
    pub scope: Scope,
    /// What standard error shows.
    pub details: Details,
}

/// What is left when a run is over.
#[derive(Clone, Debug)]
pub struct Performed {
    /// The state.
    pub state: AgentState,
    /// The exit status that the run deserves.
    pub exit_code: ExitCode,
}

impl Stage {
    /// Shows much, or only what was asked for.
    pub fn new(format: OutputFormat, is_quiet: bool) -> Self {
        if is_quiet {
            Self { format, scope: Scope::Answer, details: Details::Errors }
        } else {
            Self { format, scope: Scope::All, details: Details::Calls }
        }
    }

    /// Runs an agent and shows how it goes. Needs a tokio runtime.
    pub async fn perform(self, setup: &Setup, state: AgentState) -> Performed {
        let (feed, notes) = Feed::new();
        let agent = match setup.build(feed.clone()) {
            Ok(agent) => agent,
            Err(error) => {
                let exit_code = self.refuse(&error, ExitCode::Internal, "other");
                return Performed { state, exit_code };
            }
        };
        feed.tell(Note::Began(beginning(setup, &agent, &state)));
        let mut sinks = Sinks::default();
        sinks.wiretap(feed.clone());
        let run = agent.start(state, RunOptions { sinks, ..RunOptions::default() });
        let brake = Brake::new(run.handle());
        let (renderer, hang_up) = (self.renderer(), brake.clone());
        let shown = tokio::task::spawn_blocking(move || {
            play(renderer, &notes, || hang_up.pull(Interruption::HangUp))
        });
        let work = async {
            let began = Instant::now();
            let state = run.finish().await;
            let report = Report::of(&state, brake.why(), began.elapsed());
            let report = report.expecting(&setup.model());
            let exit_code = report.exit_code;
            feed.tell(Note::Over(Box::new(report)));
            let shown = shown.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            Performed { state, exit_code: of_writing(shown).unwrap_or(exit_code) }
        };
        match Signals::new() {
            Ok(signals) => match select(pin!(work), pin!(signals.watch(&brake, &feed))).await {
                Either::Left((performed, _)) => performed,
                Either::Right((never, _)) => match never {},
            },
            Err(error) => {
                console::warn(&format!("Ctrl-C ends the program at once: {error}"));
                work.await
            }
        }
    }

    /// Reports a run that cannot begin, to whoever reads standard output too.
    pub fn refuse(
        self,
        error: &dyn Error,
        exit_code: ExitCode,
        stop_reason: &'static str,
    ) -> ExitCode {
        console::fail(error, exit_code);
        if self.format == OutputFormat::Text {
            return exit_code;
        }
        let report = Report::refused(exit_code, stop_reason, chain(error));
        let mut renderer = Self { details: Details::Errors, ..self }.renderer();
        let notes = [Note::Began(Beginning::default()), Note::Over(Box::new(report))];
        let shown = notes.iter().try_for_each(|note| renderer.take(note));
        of_writing(shown).unwrap_or(exit_code)
    }

    fn renderer(self) -> Box<dyn Renderer> {
        let progress = Progress::stderr(self.details);
        match self.format {
            OutputFormat::Text => Box::new(Text::stdout(progress, self.scope)),
            OutputFormat::Json => Box::new(Json::stdout(progress)),
            OutputFormat::StreamJson => Box::new(StreamJson::stdout(self.scope)),
        }
    }
}

fn beginning(setup: &Setup, agent: &AgentLoop, state: &AgentState) -> Beginning {
    Beginning {
        model: Some(setup.model()),
        tools: agent.tools().names().iter().map(ToString::to_string).collect(),
        workdir: setup.workdir.path().display().to_string(),
        has_cost_limit: state.budget().cost.is_some(),
    }
}

/// Returns the exit status of an answer that could not be written. A reader that hung up has read
/// enough.
fn of_writing(shown: io::Result<()>) -> Option<ExitCode> {
    let error = shown.err().filter(|it| it.kind() != io::ErrorKind::BrokenPipe)?;
    console::tell("cannot write to standard output");
    Some(console::fail(&error, ExitCode::Internal))
}

fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
