//! One run, from its first sign of life to its exit status.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use futures::future::{Either, select};
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_core::{AgentLoop, AgentState, EventSinks, RunOptions};
use loopwright_permissions::Mode;

use crate::agent::Setup;
use crate::answer_checks::{AnswerChecks, EndedRun};
use crate::config::OutputFormat;
use crate::console;
use crate::ending::{Interruption, RunEnding};
use crate::exit::ExitCode;
use crate::permissions::mode_in_words;
use crate::render::{
    Beginning, Events, Json, Progress, Renderer, Scope, StreamJson, Text, UiEvent, UiSender,
    Verbosity, render_loop,
};
use crate::report::Report;
use crate::signals::{CancelSwitch, Signals};

pub use crate::console::chain;

/// How runs are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunDisplay {
    /// What standard output carries.
    pub format: OutputFormat,
    /// Which of a model's words are shown.
    pub scope: Scope,
    /// What standard error shows.
    pub details: Verbosity,
}

/// What is left when a run has ended.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The state.
    pub state: AgentState,
    /// The exit status that the run deserves.
    pub exit_code: ExitCode,
}

impl RunDisplay {
    /// Shows much, or only what was asked for.
    pub fn new(format: OutputFormat, is_quiet: bool) -> Self {
        if is_quiet {
            Self { format, scope: Scope::Answer, details: Verbosity::Errors }
        } else {
            Self { format, scope: Scope::All, details: Verbosity::Calls }
        }
    }

    /// Shows of answers that have to match a schema only the one that does.
    #[must_use]
    pub fn of_checked(self, checks: &AnswerChecks) -> Self {
        match self.format {
            OutputFormat::Text if checks.schema.is_some() => Self { scope: Scope::Answer, ..self },
            _ => self,
        }
    }

    /// Says which permission mode is in force as a run for people begins, unless it is the default. A run that shows only its
    /// answer says so in mode `unconfined` alone.
    pub(crate) fn tell_mode(self, mode: Mode) {
        let is_told = match mode {
            Mode::Unconfined => true,
            Mode::Auto => false,
            _ => self.details != Verbosity::Errors,
        };
        if is_told && self.format.is_for_people() {
            console::tell(&mode_in_words(mode));
        }
    }

    /// Runs an agent without storing its state, and shows its progress. Needs a tokio runtime.
    pub async fn perform(self, setup: &Setup, state: AgentState) -> RunResult {
        let scene = LiveRun::new(self.format, setup.workdir.clone());
        let agent = match setup.build(scene.feed.clone()) {
            Ok(agent) => agent,
            Err(error) => {
                let exit_code = self.refuse(&error, ExitCode::Internal, "other");
                return RunResult { state, exit_code };
            }
        };
        scene.feed.tell(UiEvent::Began(beginning(setup, &agent, &state)));
        let mut sinks = EventSinks::default();
        sinks.wiretap(scene.feed.clone());
        let cancel = scene.brake.token().clone();
        let (feed, brake) = (scene.feed.clone(), scene.brake.clone());
        let mut signals = Signals::new().ok();
        let work = Box::pin(async {
            let began = Instant::now();
            let options = RunOptions { sinks, cancel, ..RunOptions::default() };
            let state = agent.start(state, options).finish().await;
            let report = Report::of(None, &state, brake.reason(), began.elapsed());
            let report = report.under(setup.mode());
            let report = report.expecting(&setup.model());
            let run = EndedRun { setup, state: &state, session: None };
            let report = setup.checks.complete(report, run, &feed, brake.token()).await;
            (state, report)
        });
        let (state, exit_code) = self.watch(signals.as_mut(), scene, work).await;
        RunResult { state, exit_code }
    }

    /// Shows what is told while something is worked on, and stops it when a signal comes. Returns what
    /// was worked out, and the exit status.
    pub async fn watch<T>(
        self,
        signals: Option<&mut Signals>,
        scene: LiveRun,
        work: impl Future<Output = (T, Report)>,
    ) -> (T, ExitCode) {
        let LiveRun { feed, notes, brake } = scene;
        let (renderer, hang_up) = (self.renderer(), brake.clone());
        let shown = tokio::task::spawn_blocking(move || {
            render_loop(renderer, &notes, || hang_up.cancel(Interruption::HangUp))
        });
        let work = async {
            let (worked_out, report) = work.await;
            let (exit_code, stop_reason) = (report.exit_code, report.stop_reason);
            feed.tell(UiEvent::Over(Box::new(report)));
            let shown = shown.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            // What shows the endings of runs has ended with its output.
            if stop_reason == RunEnding::OutputClosed.name() && self.details != Verbosity::Errors {
                console::tell("stopped: standard output was closed");
            }
            (worked_out, of_writing(shown).unwrap_or(exit_code))
        };
        let Some(signals) = signals else {
            console::warn(
                &"Ctrl-C will end the program immediately, because signals cannot be handled",
            );
            return work.await;
        };
        match select(pin!(work), pin!(signals.watch(&brake, &feed))).await {
            Either::Left((done, _)) => done,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Reports a run that cannot begin, to the process that reads standard output too.
    pub fn refuse(
        self,
        error: &dyn Error,
        exit_code: ExitCode,
        stop_reason: &'static str,
    ) -> ExitCode {
        console::fail(error, exit_code);
        if self.format.is_for_people() {
            return exit_code;
        }
        let report = Report::refused(exit_code, stop_reason, chain(error));
        let mut renderer = Self { details: Verbosity::Errors, ..self }.renderer();
        of_writing(renderer.take(&UiEvent::Over(Box::new(report)))).unwrap_or(exit_code)
    }

    /// Shows something that happens between runs, and an error if standard output cannot be written to.
    pub(crate) fn show(self, event: &UiEvent) {
        of_writing(self.renderer().take(event));
    }

    fn renderer(self) -> Box<dyn Renderer> {
        let progress = Progress::stderr(self.details);
        match self.format {
            OutputFormat::Text => Box::new(Text::stdout(progress, self.scope)),
            OutputFormat::Json => Box::new(Json::stdout(progress)),
            OutputFormat::StreamJson => Box::new(StreamJson::stdout(self.scope)),
            OutputFormat::Events => Box::new(Events::stdout(progress, self.scope)),
        }
    }
}

/// What a run tells, and what stops it.
#[derive(Debug)]
pub struct LiveRun {
    /// Where it tells what happens.
    pub feed: UiSender,
    /// What stops it.
    pub brake: CancelSwitch,
    notes: Receiver<UiEvent>,
}

impl LiveRun {
    /// Makes a scene on which nothing has happened, and of which this is shown: what becomes of the files in
    /// a directory, too.
    pub fn new(format: OutputFormat, workdir: impl Into<WorkspaceRoot>) -> Self {
        let (feed, notes) = UiSender::new();
        let feed = feed.watching(workdir);
        let feed = if format == OutputFormat::Events { feed.in_lines() } else { feed };
        Self { feed, brake: CancelSwitch::new(), notes }
    }
}

/// Says what is known before a run.
pub fn beginning(setup: &Setup, agent: &AgentLoop, state: &AgentState) -> Beginning {
    Beginning {
        model: Some(setup.model()),
        tools: agent.tools().names().iter().map(ToString::to_string).collect(),
        workdir: setup.workdir.path().display().to_string(),
        session_id: None,
        has_cost_limit: state.budget().cost.is_some(),
        permission_mode: Some(setup.mode()),
        loaded: setup.loaded.clone(),
    }
}

/// Returns the exit status of an answer that could not be written. A reader that hung up has read
/// enough.
fn of_writing(shown: io::Result<()>) -> Option<ExitCode> {
    let error = shown.err().filter(|it| it.kind() != io::ErrorKind::BrokenPipe)?;
    console::tell("cannot write to standard output");
    Some(console::fail(&error, ExitCode::Internal))
}
