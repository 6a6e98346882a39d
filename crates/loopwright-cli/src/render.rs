//! The output of a run, during it and at its end.
//!
//! The run tells a [`UiSender`], which never waits; [`render_loop`] takes from it, on a thread of its own, and lets
//! a [`Renderer`] write. So a slow terminal slows nothing down, and Ctrl-C works even while a reader
//! does not read.

mod calls;
mod changes;
mod compacted;
mod events;
mod frames;
mod json;
mod markdown;
mod plain;
mod progress;
mod quoted;
mod running;
mod source;
mod spinner;
mod stream_json;
mod text;
mod words;

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use loopwright_broadcast::ConsoleOptions;
use loopwright_capabilities::bash::OutputWatch;
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_core::{
    AgentEvent, AgentState, BoxError, EventEnvelope, EventSink, Flow, Hook, HookCx, HookPoint,
    HookPoints, ToolDecision, ToolOutcome,
    messages::{InferenceResponse, ToolCall},
};
use loopwright_permissions::Mode;

use self::changes::FileDiffTracker;
use self::frames::Frames;
use crate::loaded::LoadedParts;
use crate::report::Report;
use crate::verification::Verification;

pub(crate) use self::calls::failure;
pub(crate) use self::changes::{content_diff, file_diff, planned_change};
pub(crate) use self::compacted::{NOT_COMPACTED, compacted};
pub(crate) use self::plain::{is_plain, set_plain};
pub(crate) use self::quoted::quoted;
pub(crate) use self::words::{
    WIDTH, count, duration, fence, json as json_line, number, sanitize_terminal, single_line,
    steers_terminal, summary, truncate, wrap,
};
pub use self::{
    changes::FileDiff,
    events::Events,
    json::Json,
    progress::{Progress, Verbosity},
    running::RunningOutput,
    source::Source,
    stream_json::StreamJson,
    text::{Scope, Text},
};

/// Something to show.
#[derive(Clone, Debug)]
pub enum UiEvent {
    /// A run begins.
    Began(Beginning),
    /// Something happened to an agent.
    Event(Source, AgentEvent),
    /// Something happened, in a line for people.
    Line(String),
    /// A model has answered: what fragments did not say is said by this.
    Answered(Answer),
    /// A tool has changed a file.
    Changed(Change),
    /// A command begins to run.
    Running(Running),
    /// Ctrl-C or Esc was pressed, and the run is coming to its end.
    Interrupted,
    /// The user types this for the agent.
    Typing(String),
    /// The user sent this to the agent while it works.
    Sent(String),
    /// The user typed this command while the agent works. It runs when the turn has ended.
    Queued(String),
    /// A command that the user typed while the agent works returns this.
    Told(String),
    /// The permission mode changed.
    ModeChanged(ModeChange),
    /// The run has answered, and this command verifies its work.
    Verifying(String),
    /// The command has ended.
    Verified(Verification),
    /// The run has ended.
    Over(Box<Report>),
}

/// What is known before a run.
#[derive(Clone, Debug, Default)]
pub struct Beginning {
    /// The model as it is typed, if one was found.
    pub model: Option<String>,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// The working directory.
    pub workdir: String,
    /// The session's name. `None` means that nothing is kept.
    pub session_id: Option<String>,
    /// Whether there is a limit of money.
    pub has_cost_limit: bool,
    /// The permission mode in force. `None` means that the run could not begin.
    pub permission_mode: Option<Mode>,
    /// What was found and loaded.
    pub loaded: LoadedParts,
}

/// A change of the permission mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeChange {
    /// The mode before.
    pub before: Mode,
    /// The mode in force from now on.
    pub now: Mode,
}

/// An answer as a whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The agent whose model answered.
    pub source: Source,
    /// The step that it belongs to.
    pub step: u32,
    /// Whether it is of an answer beside the conversation, such as a summary: nothing of it is shown.
    pub aside: bool,
    /// The words.
    pub text: String,
    /// The calls, by their positions.
    pub calls: Vec<ToolCall>,
    /// Whether it is known what it cost.
    pub is_priced: bool,
}

/// A command that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// The agent that called the tool.
    pub source: Source,
    /// The arguments of the call.
    pub arguments: Arc<str>,
    /// What it has printed so far.
    pub output: RunningOutput,
}

/// The files that a call has changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// The agent that called the tool.
    pub source: Source,
    /// The arguments of the call.
    pub arguments: Arc<str>,
    /// What changed, by path.
    pub files: Vec<(String, FileDiff)>,
}

/// Writes notes down as they come.
pub trait Renderer: Send {
    /// Takes a note.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output does not take what is written; nothing more will be asked of it then.
    fn take(&mut self, note: &UiEvent) -> io::Result<()>;

    /// Called again and again while there is nothing to take.
    fn tick(&mut self) {}

    /// Returns `true` if fragments of text that come faster than a person sees them may be joined.
    fn is_paced(&self) -> bool {
        false
    }
}

/// Where a run tells what happens. Cheap to clone, and it never waits.
#[derive(Clone, Debug)]
pub struct UiSender {
    notes: Sender<UiEvent>,
    /// The line format of events, if they are shown as lines.
    lines: Option<ConsoleOptions>,
    /// The earlier content of files, if changes are shown.
    watch: Option<Arc<FileDiffTracker>>,
}

impl UiSender {
    /// Makes a feed, and the end that [`render_loop`] takes from.
    pub fn new() -> (Self, Receiver<UiEvent>) {
        let (sender, receiver) = mpsc::channel();
        (Self { notes: sender, lines: None, watch: None }, receiver)
    }

    /// Tells events in lines for people, and in no other way.
    #[must_use]
    pub fn in_lines(self) -> Self {
        // Colours are for the terminal that the lines come to, if it is one.
        Self { lines: Some(ConsoleOptions::default()), ..self }
    }

    /// Tells what tools change of the files in a directory.
    #[must_use]
    pub fn watching(self, directory: impl Into<WorkspaceRoot>) -> Self {
        Self { watch: Some(Arc::new(FileDiffTracker::new(directory))), ..self }
    }

    /// Returns what watches the output of commands, to show the last lines while they run.
    pub(crate) fn output_watch(&self) -> OutputWatch {
        let notes = self.clone();
        OutputWatch::new(move |cx| {
            let output = RunningOutput::default();
            let (source, arguments) =
                (Source::of_events(cx.events), Arc::clone(&cx.call.arguments));
            notes.tell(UiEvent::Running(Running { source, arguments, output: output.clone() }));
            Box::new(move |bytes: &[u8]| output.push(bytes))
        })
    }

    /// Tells something.
    pub fn tell(&self, note: UiEvent) {
        // Without listeners, the failure does not matter.
        self.notes.send(note).ok();
    }
}

impl EventSink for UiSender {
    fn emit(&self, envelope: &EventEnvelope) {
        match self.lines {
            Some(options) => {
                if let Some(line) = options.line(envelope) {
                    self.tell(UiEvent::Line(line));
                }
            }
            None => self.tell(UiEvent::Event(Source::of(envelope), envelope.event.clone())),
        }
    }
}

/// Hears the answers as a whole: events only carry the fragments that a provider sends. And looks at files
/// before and after tools change them.
#[async_trait]
impl Hook for UiSender {
    fn name(&self) -> Cow<'static, str> {
        "render".into()
    }

    fn points(&self) -> HookPoints {
        match self.watch {
            Some(_) => HookPoints::from_points([
                HookPoint::AfterInference,
                HookPoint::BeforeTool,
                HookPoint::AfterTool,
            ]),
            None => HookPoint::AfterInference.into(),
        }
    }

    async fn after_inference(
        &self,
        response: &mut InferenceResponse,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.tell(UiEvent::Answered(Answer {
            source: Source::of_events(cx.events),
            step: state.step_count() + 1,
            aside: cx.aside,
            text: response.message.text(),
            calls: response.message.tool_calls().cloned().collect(),
            is_priced: response.cost.is_some(),
        }));
        Ok(Flow::Continue)
    }

    async fn before_tool(
        &self,
        call: &ToolCall,
        _state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        if let Some(watch) = &self.watch {
            watch.begin(call, cx.agent().tools());
        }
        Ok(ToolDecision::Run)
    }

    async fn after_tool(
        &self,
        call: &ToolCall,
        outcome: &mut ToolOutcome,
        _state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let files = self.watch.as_ref().map(|watch| watch.end(call, outcome)).unwrap_or_default();
        if !files.is_empty() {
            let source = Source::of_events(cx.events);
            let arguments = Arc::clone(&call.arguments);
            self.tell(UiEvent::Changed(Change { source, arguments, files }));
        }
        Ok(Flow::Continue)
    }
}

/// How often something moves while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// Shows notes until the run has ended. If standard output is gone, `hang_up` is called once.
///
/// # Errors
///
/// What standard output said when it went.
pub fn render_loop(
    mut renderer: Box<dyn Renderer>,
    notes: &Receiver<UiEvent>,
    hang_up: impl Fn(),
) -> io::Result<()> {
    let mut frames = Frames::new(renderer.is_paced());
    let (mut gone, mut held, mut is_over) = (None, Held::default(), false);
    while !is_over {
        let now = Instant::now();
        let shown: Vec<UiEvent> = match notes.recv_timeout(frames.rest(now).unwrap_or(TICK)) {
            Ok(note) => {
                is_over = matches!(note, UiEvent::Over(_));
                frames.pass(note, Instant::now()).collect()
            }
            Err(RecvTimeoutError::Timeout) => {
                let due = frames.take(Instant::now());
                if due.is_none() {
                    renderer.tick();
                }
                due.into_iter().collect()
            }
            Err(RecvTimeoutError::Disconnected) => {
                is_over = true;
                frames.take(now).into_iter().collect()
            }
        };
        for note in shown {
            for note in held.pass(note) {
                if gone.is_none()
                    && let Err(error) = renderer.take(&note)
                {
                    gone = Some(error);
                    hang_up();
                }
            }
        }
    }
    gone.map_or(Ok(()), Err)
}

/// Holds the newest answer of each agent back until it is durable: a hook gets it before, and a store that fails
/// then takes it back. The fragments of an answer are shown as they come.
#[derive(Default)]
struct Held(Vec<(Source, UiEvent)>);

impl Held {
    /// Returns what is shown now that a note comes, in order.
    fn pass(&mut self, note: UiEvent) -> impl Iterator<Item = UiEvent> {
        let mut shown = match &note {
            // An answer that was asked for again is followed by another one.
            UiEvent::Answered(answer) if !answer.aside => {
                let earlier = self.take(&answer.source);
                self.0.push((answer.source.clone(), note.clone()));
                return earlier.into_iter();
            }
            // The journal failed: what it did not take did not happen.
            UiEvent::Over(report) if report.stop_reason == "journal" => Vec::new(),
            UiEvent::Over(_) | UiEvent::Line(_) => self.0.drain(..).map(|(_, note)| note).collect(),
            UiEvent::Event(source, event) if is_told_once_durable(event) => self.take(source),
            _ => Vec::new(),
        };
        shown.push(note);
        shown.into_iter()
    }

    fn take(&mut self, source: &Source) -> Vec<UiEvent> {
        self.0.extract_if(.., |it| it.0 == *source).map(|(_, note)| note).collect()
    }
}

/// Returns `true` if an event after an answer is shown only when the answer is durable.
fn is_told_once_durable(event: &AgentEvent) -> bool {
    !matches!(
        event,
        AgentEvent::StreamDelta(_)
            | AgentEvent::InferenceRequestStarted(_)
            | AgentEvent::InferenceResponseReceived(_)
            | AgentEvent::PromptCacheBroken(_)
            | AgentEvent::ExecutionFailed(_)
    )
}

/// Counts the columns of the terminal; as many as most have, if it does not say.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size().map_or(words::WIDTH, |(width, _)| width.0.into())
}

/// Counts the rows of the terminal; as many as most have, if it does not say.
fn rows() -> usize {
    terminal_size::terminal_size().map_or(24, |(_, height)| height.0.into())
}

/// Something to write to, whatever it is.
type Output = Box<dyn Write + Send>;

#[cfg(test)]
mod tests;
