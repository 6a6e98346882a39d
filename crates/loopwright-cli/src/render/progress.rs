//! What standard error shows: a line for each call, something that turns while one is long, a summary.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use loopwright_core::{
    AgentEvent, ToolOutcome,
    kinds::{ToolCallCompleted, ToolCallStarted},
    messages::Usage,
};

use super::words::{WIDTH, count, cut, duration, harmless, line, number, summary, wrap};
use super::{Answer, Change, Note, Output, columns, is_dumb};
use crate::exit::ExitCode;
use crate::report::Report;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// How long something may take before something turns.
const PATIENCE: Duration = Duration::from_millis(300);

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// What went wrong, and nothing else.
    Errors,
    /// A line for each call, and a summary.
    Calls,
    /// The beginning of what each call returned, too.
    Results,
}

/// Shows on standard error how a run goes on. What cannot be written there is let go.
pub struct Progress {
    output: Output,
    details: Details,
    motion: Motion,
    /// Is there while it is seen.
    spinner: Option<ProgressBar>,
    /// What is being waited for, by what began first.
    pending: BTreeMap<Option<u16>, Pending>,
    /// The arguments of the calls of the step.
    calls: BTreeMap<u16, String>,
    /// Calls that are over and wait for their turn, which is the order of the calls.
    settled: BTreeMap<u16, ToolCallCompleted>,
    turn: u16,
    /// What the calls of the step changed.
    changes: Vec<Change>,
    /// How wide lines may be.
    width: usize,
    is_at_block: bool,
    has_cost_limit: bool,
}

/// Whether something may turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Motion {
    Still,
    Turning,
}

struct Pending {
    label: String,
    since: Instant,
}

impl Progress {
    /// Shows it on the standard error of this process: coloured if it is a terminal and nobody
    /// objects, and in motion if it is one.
    pub fn stderr(details: Details) -> Self {
        let moves = details != Details::Errors && io::stderr().is_terminal() && !is_dumb();
        Self {
            motion: if moves { Motion::Turning } else { Motion::Still },
            width: if io::stderr().is_terminal() { columns() } else { WIDTH },
            ..Self::to(Box::new(AutoStream::auto(io::stderr())), details)
        }
    }

    /// Shows it elsewhere, without motion.
    pub(super) fn to(output: Output, details: Details) -> Self {
        Self {
            output,
            details,
            motion: Motion::Still,
            spinner: None,
            pending: BTreeMap::new(),
            calls: BTreeMap::new(),
            settled: BTreeMap::new(),
            turn: 0,
            changes: Vec::new(),
            width: WIDTH,
            is_at_block: false,
            has_cost_limit: false,
        }
    }

    /// Takes a note of anything but words.
    pub(super) fn take(&mut self, note: &Note) {
        match note {
            Note::Began(beginning) => self.has_cost_limit = beginning.has_cost_limit,
            Note::Event(AgentEvent::InferenceRequestStarted(_)) => {
                self.wait(None, "waiting for the model".to_owned());
            }
            Note::Event(AgentEvent::StreamDelta(_)) => self.came(None),
            Note::Event(AgentEvent::ToolCallStarted(started)) => self.started(started),
            Note::Event(AgentEvent::ToolCallCompleted(completed)) => self.completed(completed),
            Note::Changed(change) => self.changes.push(change.clone()),
            Note::Event(_) | Note::Line(_) => (),
            Note::Answered(answer) => self.answered(answer),
            Note::Interrupted if self.details == Details::Errors => (),
            Note::Interrupted => {
                self.say(&format!(
                    "{FAINT}interrupted; press Ctrl-C again to exit at once{FAINT:#}"
                ));
            }
            Note::Over(report) => {
                self.over(report);
                self.sum_up(report);
            }
        }
    }

    /// Turns, if something has taken long.
    pub(super) fn tick(&mut self) {
        let Some(first) = self.pending.values().min_by_key(|it| it.since) else { return };
        let elapsed = first.since.elapsed();
        if self.motion == Motion::Still || elapsed < PATIENCE {
            return;
        }
        let others = match self.pending.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        let seconds = match elapsed.as_secs() {
            0 => String::new(),
            seconds => format!(" · {seconds} s"),
        };
        let label = cut(&first.label, self.width.saturating_sub(30));
        let spinner = self.spinner.get_or_insert_with(spinner);
        spinner.set_message(format!("{label}{others}{seconds}"));
        spinner.tick();
    }

    /// Leaves a free line between calls and what follows them.
    pub(super) fn leave_block(&mut self) {
        if std::mem::take(&mut self.is_at_block) {
            self.say("");
        }
    }

    fn wait(&mut self, what: Option<u16>, label: String) {
        self.pending.insert(what, Pending { label, since: Instant::now() });
    }

    fn came(&mut self, what: Option<u16>) {
        if self.pending.remove(&what).is_some() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    fn say(&mut self, text: &str) {
        self.clear();
        writeln!(self.output, "{text}").and_then(|()| self.output.flush()).ok();
    }

    fn answered(&mut self, answer: &Answer) {
        self.came(None);
        self.show_rest();
        self.changes.clear();
        let calls = (0u16..).zip(&answer.calls);
        self.calls = calls.map(|(index, call)| (index, call.arguments.to_string())).collect();
        if std::mem::take(&mut self.has_cost_limit) && !answer.is_priced {
            self.say(
                "warning: prices are not known for this model, so --max-cost does not bound it",
            );
        }
    }

    fn started(&mut self, started: &ToolCallStarted) {
        let label = format!("{} {}", started.tool, summary(&started.arguments, self.width));
        self.wait(Some(started.call), harmless(&label));
    }

    fn completed(&mut self, completed: &ToolCallCompleted) {
        self.came(Some(completed.call));
        self.settled.insert(completed.call, completed.clone());
        while let Some(next) = self.settled.remove(&self.turn) {
            self.turn += 1;
            self.show_call(&next);
        }
    }

    fn show_call(&mut self, completed: &ToolCallCompleted) {
        if self.details == Details::Errors {
            return;
        }
        let arguments = self.calls.get(&completed.call).cloned().unwrap_or_default();
        let (name, took) = (line(&completed.tool, 30), duration(completed.took));
        let room = self.width.saturating_sub(name.chars().count() + took.chars().count() + 8);
        let asked = summary(&arguments, room);
        let space = if asked.is_empty() { "" } else { " " };
        let (style, mark) = if completed.success { (GOOD, '✓') } else { (BAD, '✗') };
        self.say(&format!(
            "  {style}{mark}{style:#} {BOLD}{name}{BOLD:#}{space}{asked} {FAINT}· {took}{FAINT:#}"
        ));
        let change = self.changes.iter().position(|it| *it.arguments == *arguments);
        if let Some(change) = change.map(|at| self.changes.remove(at)) {
            for text in change.diff.lines(self.width.saturating_sub(6)) {
                self.say(&format!("    {text}"));
            }
        }
        match &*completed.outcome {
            ToolOutcome::Returned(output) if self.details == Details::Results => {
                self.show_result(&output.to_text());
            }
            ToolOutcome::Returned(_) => (),
            other => {
                for text in wrap(&other.error_message(), self.width.saturating_sub(6).min(WIDTH), 3)
                {
                    self.say(&format!("    {FAINT}{text}{FAINT:#}"));
                }
            }
        }
        self.is_at_block = true;
    }

    /// Shows what is left of a step that did not settle all calls.
    fn show_rest(&mut self) {
        for (_, completed) in std::mem::take(&mut self.settled) {
            self.show_call(&completed);
        }
        self.turn = 0;
    }

    fn show_result(&mut self, text: &str) {
        const SHOWN: usize = 8;
        let lines: Vec<&str> = text.lines().collect();
        for shown in lines.iter().take(SHOWN) {
            let shown = cut(&harmless(&shown.replace('\t', "  ")), self.width.saturating_sub(6));
            self.say(&format!("    {FAINT}{shown}{FAINT:#}"));
        }
        if lines.len() > SHOWN {
            let more = count((lines.len() - SHOWN) as u64, "more line");
            self.say(&format!("    {FAINT}… {more}{FAINT:#}"));
        }
    }

    /// Says how the run ended, if there is anything to say about that.
    pub(super) fn over(&mut self, report: &Report) {
        self.pending.clear();
        self.clear();
        self.show_rest();
        self.is_at_block = false;
        if let Some(remark) = &report.remark {
            let (style, word) = match report.exit_code {
                ExitCode::Internal | ExitCode::NoModel | ExitCode::Provider => (BAD, "error: "),
                _ => (BOLD, ""),
            };
            self.say(&format!("{style}{word}{style:#}{}", harmless(remark)));
        }
    }

    /// Says what the run took.
    fn sum_up(&mut self, report: &Report) {
        if self.details != Details::Errors && report.has_run() {
            self.say("");
            self.say(&format!("{FAINT}{}{FAINT:#}", total(report)));
        }
    }
}

fn total(report: &Report) -> String {
    let steps = count(u64::from(report.steps), "step");
    let tokens = Some(report.usage.usage).filter(|it| it.total() > 0).map(tokens);
    let cost = report.cost_usd.map(|cost| format!("${cost:.4}"));
    let took = duration(Duration::from_millis(report.duration_ms));
    [Some(steps), tokens, cost, Some(took)].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Says how much was read, how much of that came from the provider's cache, and how much was written.
fn tokens(usage: Usage) -> String {
    let cached = match usage.cached {
        0 => String::new(),
        cached => format!(" ({} cached)", number(cached)),
    };
    format!("{} tokens in{cached}, {} out", number(usage.input), number(usage.output))
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("  {spinner} {msg}") {
        Ok(style) => spinner.with_style(style),
        Err(_) => spinner,
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("details", &self.details).finish_non_exhaustive()
    }
}
