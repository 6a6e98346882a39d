//! Progress on standard error: a line for each call, a spinner, and a summary.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use loopwright_capabilities::compaction::ConversationCompacted;
use loopwright_core::{
    AgentEvent, StreamFragment, ToolOutcome,
    events::{ToolCallCompleted, ToolCallStarted},
    messages::Usage,
};
use loopwright_mcp::McpProgress;
use loopwright_permissions::Mode;

use super::calls::{Calls, Shown, failure, last_lines, notes};
use super::compacted::compacted;
use super::running::RunningOutput;
use super::spinner::Spinner;
use super::words::{
    WIDTH, count, duration, end_of, fit, number, sanitize_terminal, single_line, summary, truncate,
    wrap,
};
use super::{Answer, Output, Source, UiEvent, columns, is_plain};
use crate::exit::ExitCode;
use crate::report::Report;
use crate::verification::Verification;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default();
const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// The columns of a spinner that its label and the mode leave to the rest.
const AROUND: usize = 30;

/// The narrowest label beside which the mode is shown.
const NARROWEST: usize = 10;

/// The number of lines that are shown of a command that runs, and of one that failed.
const LAST: usize = 3;

/// What follows a command that waits for the end of the turn.
pub(super) const QUEUED: &str = " · runs after this turn";

/// How long something may take before something turns.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long a model has to think for it to be said.
const LONG_THOUGHT: Duration = Duration::from_secs(1);

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// What went wrong, and nothing else.
    Errors,
    /// A line for each call, and a summary.
    Calls,
    /// The beginning of what each call returned, too.
    Results,
}

/// Shows on standard error how a run continues. What cannot be written there is let go.
pub struct Progress {
    output: Output,
    details: Verbosity,
    motion: Motion,
    spinner: Spinner,
    /// The model and the calls that each agent waits for.
    pending: BTreeMap<(Source, Option<u16>), Pending>,
    /// The calls of each agent.
    calls: BTreeMap<Source, Calls>,
    /// Whether standard output shows the words of the agent as they come.
    shows_words: bool,
    /// How wide lines may be.
    width: usize,
    is_at_block: bool,
    has_cost_limit: bool,
    /// The permission mode in force, once it is known.
    mode: Option<Mode>,
    /// What the user is typing.
    draft: String,
    /// What commands that run have printed.
    printed: BTreeMap<(Source, Arc<str>), RunningOutput>,
    /// What each model thinks.
    thoughts: BTreeMap<Source, Thought>,
}

/// Whether something may turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Motion {
    Still,
    Turning,
}

/// What a model thinks.
#[derive(Debug)]
struct Thought {
    /// The end of it.
    text: String,
    since: Instant,
}

struct Pending {
    label: String,
    /// How far it is.
    reached: String,
    since: Instant,
    /// The arguments of the call, if it is one.
    arguments: Option<Arc<str>>,
}

impl Pending {
    fn new(label: String) -> Self {
        Self { label, reached: String::new(), since: Instant::now(), arguments: None }
    }

    fn to_text(&self) -> String {
        format!("{}{}", self.label, self.reached)
    }
}

impl Progress {
    /// Shows it on the standard error of this process: colored if it is a terminal and colors are
    /// not disabled, and in motion if it is one.
    pub fn stderr(details: Verbosity) -> Self {
        let moves = details != Verbosity::Errors && io::stderr().is_terminal() && !is_plain();
        Self {
            motion: if moves { Motion::Turning } else { Motion::Still },
            width: if io::stderr().is_terminal() { columns() } else { WIDTH },
            ..Self::to(Box::new(AutoStream::auto(io::stderr())), details)
        }
    }

    /// Shows it elsewhere, without motion.
    pub(super) fn to(output: Output, details: Verbosity) -> Self {
        Self {
            output,
            details,
            motion: Motion::Still,
            spinner: Spinner::default(),
            pending: BTreeMap::new(),
            calls: BTreeMap::new(),
            shows_words: false,
            width: WIDTH,
            is_at_block: false,
            has_cost_limit: false,
            mode: None,
            draft: String::new(),
            printed: BTreeMap::new(),
            thoughts: BTreeMap::new(),
        }
    }

    /// Knows that standard output shows the words of the agent as they come.
    pub(super) fn beside_words(self) -> Self {
        Self { shows_words: true, ..self }
    }

    /// Takes a note of anything but words.
    pub(super) fn take(&mut self, note: &UiEvent) {
        match note {
            UiEvent::Began(beginning) => {
                self.has_cost_limit = beginning.has_cost_limit;
                self.mode = beginning.permission_mode;
            }
            UiEvent::ModeChanged(change) => self.mode = Some(change.now),
            UiEvent::Event(source, AgentEvent::ExecutionStarted(it)) if source.is_subagent() => {
                self.calls.entry(source.clone()).or_default().name = Some(Arc::clone(&it.name));
            }
            UiEvent::Event(source, AgentEvent::InferenceRequestStarted(_)) => {
                self.thoughts.remove(source);
                self.wait((source.clone(), None), "waiting for the model".to_owned());
            }
            UiEvent::Event(source, AgentEvent::StreamDelta(it)) if !it.aside => {
                self.streams(source, &it.delta);
            }
            UiEvent::Event(source, AgentEvent::ToolCallStarted(it)) => self.started(source, it),
            UiEvent::Event(source, AgentEvent::ToolCallCompleted(it)) => self.completed(source, it),
            UiEvent::Event(source, AgentEvent::Custom(it)) if self.details != Verbosity::Errors => {
                if let Some(it) = it.get::<McpProgress>() {
                    self.advance(source, it);
                } else if let Some(it) = it.get::<ConversationCompacted>() {
                    self.say(&format!("{FAINT}{}{FAINT:#}", compacted(it)));
                }
            }
            UiEvent::Changed(it) => {
                self.calls.entry(it.source.clone()).or_default().changed(it.clone());
            }
            UiEvent::Running(it) => {
                let call = (it.source.clone(), Arc::clone(&it.arguments));
                self.printed.insert(call, it.output.clone());
            }
            UiEvent::Event(..) | UiEvent::Line(_) => (),
            UiEvent::Verifying(command) => {
                let label = format!("verifying: {}", single_line(command, self.width));
                self.wait((Source::default(), None), label);
            }
            UiEvent::Verified(it) => self.verified(it),
            UiEvent::Answered(answer) => self.answered(answer),
            UiEvent::Typing(draft) => self.draft.clone_from(draft),
            UiEvent::Sent(text) => {
                let text = single_line(text, self.width.saturating_sub(4));
                self.say(&format!("{FAINT}› {text}{FAINT:#}"));
            }
            UiEvent::Queued(text) => {
                let text = single_line(text, self.width.saturating_sub(QUEUED.len() + 4));
                self.say(&format!("{FAINT}› {text}{QUEUED}{FAINT:#}"));
            }
            UiEvent::Told(text) => text.lines().for_each(|line| self.say(line)),
            UiEvent::Interrupted if self.details == Verbosity::Errors => (),
            UiEvent::Interrupted => {
                self.say(&format!("{FAINT}interrupted; press Ctrl-C to exit immediately{FAINT:#}"));
            }
            UiEvent::Over(report) => {
                self.over(report);
                self.sum_up(report);
            }
        }
    }

    /// Turns, if something has taken long.
    pub(super) fn tick(&mut self) {
        let first = self.pending.iter().min_by_key(|(_, it)| it.since);
        let Some(((source, _), first)) = first else { return };
        let elapsed = first.since.elapsed();
        if self.motion == Motion::Still || (elapsed < PATIENCE && self.draft.is_empty()) {
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
        // The terminal may have changed its size.
        self.width = columns();
        let mode = self.mode.map(|mode| format!(" · mode {mode}")).unwrap_or_default();
        let rest = |mode: &str| self.width.saturating_sub(AROUND + mode.len());
        let mode = if rest(&mode) < NARROWEST { String::new() } else { mode };
        let room = rest(&mode);
        let (mut label, mut typed) = (first.to_text(), String::new());
        if self.draft.is_empty() {
            label = fit(&label, room);
        } else {
            // The end of what is typed is seen, where the cursor would be.
            label = fit(&label, room / 2);
            typed = format!(" {BOLD}› {}{BOLD:#}", end_of(&self.draft, room / 2));
        }
        let text = format!("{label}{others}{seconds}{mode}{typed}");
        let call = first.arguments.clone().map(|it| (source.clone(), it));
        let output = call.and_then(|it| self.printed.get(&it));
        let room = self.width.saturating_sub(6);
        let below = output.map(|it| it.last_lines(LAST, room)).unwrap_or_default();
        let frame = self.spinner.next(&text, &below);
        draw(&frame);
    }

    /// Lists what is waited for.
    #[cfg(test)]
    pub(super) fn waits_for(&self) -> Vec<String> {
        self.pending.values().map(Pending::to_text).collect()
    }

    /// Leaves a free line between calls and what follows them.
    pub(super) fn leave_block(&mut self) {
        if std::mem::take(&mut self.is_at_block) {
            self.say("");
        }
    }

    fn wait(&mut self, what: (Source, Option<u16>), label: String) {
        self.pending.insert(what, Pending::new(label));
    }

    /// Shows how far a call of a server is.
    fn advance(&mut self, source: &Source, progress: &McpProgress) {
        let is_it = |(of, call): &(Source, Option<u16>), it: &Pending| {
            of == source && call.is_some() && it.label.contains(&progress.tool)
        };
        let Some((_, pending)) = self.pending.iter_mut().find(|(key, it)| is_it(key, it)) else {
            return;
        };
        let done = match progress.total {
            Some(total) => format!(" · {} of {total}", progress.progress),
            None if progress.progress > 0.0 => format!(" · {}", progress.progress),
            None => String::new(),
        };
        let message = progress.message.as_deref().map(|it| format!(" · {}", single_line(it, 60)));
        pending.reached = done + &message.unwrap_or_default();
    }

    fn came(&mut self, source: &Source, call: Option<u16>) {
        if self.pending.remove(&(source.clone(), call)).is_some() {
            self.clear();
        }
    }

    /// Continues turning while an answer comes of which nothing is shown.
    fn streams(&mut self, source: &Source, delta: &StreamFragment) {
        // Some providers send empty texts with the reasoning.
        let has_text = matches!(delta, StreamFragment::Text(text) if !text.trim().is_empty());
        if has_text || matches!(delta, StreamFragment::ToolCall { .. }) {
            self.thought(source);
        }
        let label = match delta {
            StreamFragment::Text(_) if self.shows_words && !source.is_subagent() => {
                return self.came(source, None);
            }
            StreamFragment::Text(_) => "answering".to_owned(),
            StreamFragment::Reasoning(text) => self.thinking(source, text),
            StreamFragment::ToolCall { name, .. } => format!("preparing {}", single_line(name, 30)),
            _ => return,
        };
        let since = |pending: Option<&Pending>| pending.map_or_else(Instant::now, |it| it.since);
        let key = (source.clone(), None);
        let since = since(self.pending.get(&key));
        self.pending.insert(key, Pending { since, ..Pending::new(label) });
    }

    /// Returns the end of what a model thinks, in one line.
    fn thinking(&mut self, source: &Source, text: &str) -> String {
        let room = self.width.saturating_sub(50);
        let thought = self.thoughts.entry(source.clone());
        let new = || Thought { text: String::new(), since: Instant::now() };
        let thought = &mut thought.or_insert_with(new).text;
        thought.push_str(text);
        let skipped = thought.chars().count().saturating_sub(room);
        if let Some((start, _)) = thought.char_indices().nth(skipped) {
            thought.drain(..start);
        }
        format!("thinking: {}", single_line(thought, room))
    }

    /// Says how long the agent's model has thought, if a person had to wait for it.
    fn thought(&mut self, source: &Source) {
        let Some(thought) = self.thoughts.remove(source) else { return };
        let took = thought.since.elapsed();
        let is_told = self.details != Verbosity::Errors && self.motion == Motion::Turning;
        if is_told && took >= LONG_THOUGHT && !source.is_subagent() {
            self.say(&format!("  {FAINT}thought for {}{FAINT:#}", duration(took)));
        }
    }

    fn clear(&mut self) {
        if let Some(erased) = self.spinner.erase() {
            draw(erased);
        }
    }

    fn say(&mut self, text: &str) {
        self.clear();
        writeln!(self.output, "{text}").and_then(|()| self.output.flush()).ok();
    }

    fn answered(&mut self, answer: &Answer) {
        self.came(&answer.source, None);
        self.thought(&answer.source);
        if !answer.aside {
            let rest = self.calls.entry(answer.source.clone()).or_default().begin();
            self.show_calls(&rest);
        }
        if std::mem::take(&mut self.has_cost_limit) && !answer.is_priced {
            self.say(
                "warning: the prices of this model are unknown, so --max-cost has no effect on it",
            );
        }
    }

    fn started(&mut self, source: &Source, started: &ToolCallStarted) {
        let name = self.calls.get(source).and_then(|it| it.name.clone());
        let name = name.map(|it| format!("{it} › ")).unwrap_or_default();
        let label = format!("{name}{} {}", started.tool, summary(&started.arguments, self.width));
        let arguments = Some(Arc::clone(&started.arguments));
        let pending = Pending { arguments, ..Pending::new(sanitize_terminal(&label)) };
        self.pending.insert((source.clone(), Some(started.call)), pending);
    }

    fn completed(&mut self, source: &Source, completed: &ToolCallCompleted) {
        self.came(source, Some(completed.call));
        self.printed.remove(&(source.clone(), Arc::clone(&completed.arguments)));
        let shown = self.calls.entry(source.clone()).or_default().settle(completed.clone());
        self.show_calls(&shown);
    }

    fn show_calls(&mut self, calls: &[Shown]) {
        for call in calls {
            self.show_call(call);
        }
    }

    fn show_call(&mut self, call: &Shown) {
        if self.details == Verbosity::Errors {
            return;
        }
        let completed = &call.completed;
        let (name, took) = (single_line(&completed.tool, 30), duration(completed.duration));
        let agent = call.name.as_deref().map(|it| format!("{} › ", single_line(it, 30)));
        let agent = agent.unwrap_or_default();
        let failure = failure(&completed.outcome);
        let ended = failure.as_ref().map(|it| format!(" {BAD}· {it}{BAD:#}"));
        let taken = [&agent, &name, &took].map(|it| it.chars().count()).iter().sum::<usize>()
            + failure.as_ref().map_or(0, |it| it.chars().count() + 3);
        let room = self.width.saturating_sub(taken + 8);
        let asked = summary(&call.arguments, room);
        let space = if asked.is_empty() { "" } else { " " };
        let is_good = completed.success && failure.is_none();
        let (style, mark) = if is_good { (GOOD, '✓') } else { (BAD, '✗') };
        self.say(&format!(
            "  {style}{mark}{style:#} {FAINT}{agent}{FAINT:#}{BOLD}{name}{BOLD:#}{space}{asked}{} {FAINT}· {took}{FAINT:#}",
            ended.unwrap_or_default(),
        ));
        if let Some(change) = &call.change {
            for (path, diff) in &change.files {
                if change.files.len() > 1 {
                    self.say(&format!("    {FAINT}{}{FAINT:#}", single_line(path, WIDTH)));
                }
                for text in diff.lines(self.width.saturating_sub(6)) {
                    self.say(&format!("    {text}"));
                }
            }
        }
        for note in notes(&completed.outcome) {
            for text in wrap(note, self.width.saturating_sub(6).min(WIDTH), 3) {
                self.say(&format!("    {NOTE}{text}{NOTE:#}"));
            }
        }
        match &*completed.outcome {
            ToolOutcome::Returned(output) if self.details == Verbosity::Results => {
                self.show_result(&output.to_text());
            }
            ToolOutcome::Returned(_) if is_good => (),
            ToolOutcome::Returned(_) => {
                for text in last_lines(&completed.outcome, LAST) {
                    let text = sanitize_terminal(&text.replace('\t', "  "));
                    let text = truncate(&text, self.width.saturating_sub(6));
                    self.say(&format!("    {FAINT}{text}{FAINT:#}"));
                }
            }
            other => {
                for text in wrap(&other.error_message(), self.width.saturating_sub(6).min(WIDTH), 3)
                {
                    self.say(&format!("    {FAINT}{text}{FAINT:#}"));
                }
            }
        }
        self.is_at_block = true;
    }

    /// Shows the verdict, and of a command that failed the end of what it printed. Of another one, it shows what the sandbox did about
    /// it.
    fn verified(&mut self, verification: &Verification) {
        const SHOWN: usize = 20;
        self.came(&Source::default(), None);
        if self.details == Verbosity::Errors {
            return;
        }
        let (style, mark) = if verification.passed { (GOOD, '✓') } else { (BAD, '✗') };
        let took = duration(Duration::from_millis(verification.duration_ms));
        let command = single_line(&verification.command, self.width.saturating_sub(30));
        self.leave_block();
        self.say(&format!(
            "  {style}{mark}{style:#} {BOLD}verify{BOLD:#} {command} {FAINT}· {took}{FAINT:#}"
        ));
        let lines: Vec<&str> = if verification.passed {
            verification.notes.iter().map(String::as_str).collect()
        } else {
            verification.output.lines().collect()
        };
        for line in &lines[lines.len().saturating_sub(SHOWN)..] {
            let shown = truncate(&sanitize_terminal(line), self.width.saturating_sub(6));
            self.say(&format!("    {FAINT}{shown}{FAINT:#}"));
        }
    }

    /// Shows what is left of steps that did not settle all calls.
    fn show_rest(&mut self) {
        for mut calls in std::mem::take(&mut self.calls).into_values() {
            let rest = calls.rest();
            self.show_calls(&rest);
        }
    }

    fn show_result(&mut self, text: &str) {
        const SHOWN: usize = 8;
        let lines: Vec<&str> = text.lines().collect();
        for shown in lines.iter().take(SHOWN) {
            let shown = truncate(
                &sanitize_terminal(&shown.replace('\t', "  ")),
                self.width.saturating_sub(6),
            );
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
        self.printed.clear();
        self.clear();
        self.show_rest();
        self.is_at_block = false;
        if let Some(remark) = &report.remark {
            let (style, word) = match report.exit_code {
                ExitCode::Internal | ExitCode::NoModel | ExitCode::Provider => (BAD, "error: "),
                _ => (BOLD, ""),
            };
            self.say(&format!("{style}{word}{style:#}{}", sanitize_terminal(remark)));
        }
    }

    /// Says what the run took.
    fn sum_up(&mut self, report: &Report) {
        if self.details != Verbosity::Errors && report.has_run() {
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
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({} cached)", number(cached)),
    };
    format!("{} tokens in{cached}, {} out", number(usage.input), number(usage.output))
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("details", &self.details).finish_non_exhaustive()
    }
}

/// Writes what moves the cursor. It does not pass the filter for colors, which would take that out.
fn draw(frame: &str) {
    let mut stderr = io::stderr().lock();
    stderr.write_all(frame.as_bytes()).and_then(|()| stderr.flush()).ok();
}
