//! The answer as text, while it is written.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use loopwright_core::{AgentEvent, StreamFragment, events::StreamDelta};

use super::markdown::{Markdown, Preview, Width};
use super::progress::QUEUED;
use super::words::{end_of, fit, sanitize_terminal, single_line};
use super::{Answer, Output, Progress, Renderer, UiEvent, columns, is_plain, rows};

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// Takes away what stands below and behind the cursor.
const BELOW_ERASED: &str = "\u{1b}[J";

/// The maximum number of lines below an answer that is being written, and at most half of the screen.
const BELOW: usize = 10;

/// Writes words to standard output as they come, and everything else to standard error.
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts about the screen")]
pub struct Text {
    output: Output,
    progress: Progress,
    scope: Scope,
    target: Target,
    /// Whether fragments of the answer under way have been written.
    has_spoken: bool,
    /// Whether the answer under way may still grow where it stands.
    is_writing: bool,
    /// What the user sent while an answer is written. It is shown below it, and then behind it.
    sent: Vec<UiEvent>,
    /// What the user is typing.
    draft: String,
    /// Whether lines stand below the answer.
    has_below: bool,
    is_mid_line: bool,
}

/// Which of a model's words are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All, as they come.
    All,
    /// The final answer, when it is whole.
    Answer,
}

/// What reads the words.
#[derive(Debug)]
pub(super) enum Target {
    /// A terminal that shows Markdown as what it means, and how much room it has at the time.
    Styled(Markdown, fn() -> Width),
    /// A terminal without colours, which must not be steered by them.
    Terminal,
    /// Anything else, which gets them as they are.
    File,
}

impl Target {
    /// Finds out what standard output is, and whether anybody objects to colours.
    fn stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::File;
        }
        if AutoStream::choice(&stdout) == ColorChoice::Never {
            return Self::Terminal;
        }
        let preview = if is_plain() { Preview::Hidden } else { Preview::Shown };
        let room = || Width::of(columns());
        Self::Styled(Markdown::new(room(), preview), room)
    }
}

impl Text {
    /// Writes to the standard output of this process.
    pub fn stdout(progress: Progress, scope: Scope) -> Self {
        Self::to(Box::new(io::stdout()), progress, scope, Target::stdout())
    }

    pub(super) fn to(output: Output, progress: Progress, scope: Scope, target: Target) -> Self {
        let progress = if scope == Scope::All { progress.beside_words() } else { progress };
        Self {
            output,
            progress,
            scope,
            target,
            has_spoken: false,
            is_writing: false,
            sent: Vec::new(),
            draft: String::new(),
            has_below: false,
            is_mid_line: false,
        }
    }

    #[cfg(test)]
    pub(super) fn waits_for(&self) -> Vec<String> {
        self.progress.waits_for()
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        // Space before the first word is the model clearing its throat.
        let text = if self.has_spoken { text } else { text.trim_start() };
        if text.is_empty() {
            return Ok(());
        }
        self.progress.leave_block();
        self.has_spoken = true;
        self.is_writing = true;
        self.is_mid_line = !text.ends_with('\n');
        match &mut self.target {
            Target::Styled(markdown, room) => {
                markdown.resize(room());
                let pushed = markdown.push(text);
                return self.draw(&pushed);
            }
            Target::Terminal => self.output.write_all(sanitize_terminal(text).as_bytes())?,
            Target::File => self.output.write_all(text.as_bytes())?,
        }
        self.output.flush()
    }

    /// Writes a part of the answer, and below it what the user sends and types.
    fn draw(&mut self, pushed: &str) -> io::Result<()> {
        let below = self.below();
        let is_erased = std::mem::replace(&mut self.has_below, !below.is_empty());
        let mut text = if is_erased { BELOW_ERASED.to_owned() } else { String::new() };
        text += pushed;
        for line in &below {
            text.push('\n');
            text.push_str(line);
        }
        if let (Target::Styled(markdown, _), true) = (&self.target, self.has_below) {
            // The cursor goes back to where the answer continues.
            write!(text, "\r\u{1b}[{}A", below.len()).ok();
            if let Some(column @ 1..) = markdown.column() {
                write!(text, "\u{1b}[{column}C").ok();
            }
        }
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }

    /// Returns the lines below an answer: what the user sent, the results of commands, and what is being typed.
    fn below(&self) -> Vec<String> {
        let Target::Styled(markdown, room) = &self.target else { return Vec::new() };
        if markdown.column().is_none() || !self.is_writing {
            return Vec::new();
        }
        let width = room().whole();
        let mut lines = Vec::new();
        for sent in &self.sent {
            let text = match sent {
                UiEvent::Sent(text) => format!("› {}", single_line(text, width)),
                UiEvent::Queued(text) => {
                    let room = width.saturating_sub(QUEUED.len());
                    format!("› {}{QUEUED}", single_line(text, room))
                }
                UiEvent::Told(text) => anstream::adapter::strip_str(text).to_string(),
                _ => continue,
            };
            let of_text = text.lines().map(|it| fit(it, width));
            lines.extend(of_text.map(|it| format!("{FAINT}{it}{FAINT:#}")));
        }
        if !self.draft.is_empty() {
            let draft = end_of(&self.draft, width.saturating_sub(2));
            lines.push(format!("{BOLD}› {draft}{BOLD:#}"));
        }
        let most = BELOW.min(rows() / 2);
        lines.drain(..lines.len().saturating_sub(most));
        lines
    }

    /// Takes the lines away that stand below the answer.
    fn erase_below(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_below) {
            self.output.write_all(BELOW_ERASED.as_bytes())?;
        }
        Ok(())
    }

    /// Shows a fragment of the agent's answer. Something turns on a line of its own only.
    fn stream(&mut self, note: &UiEvent, delta: &StreamFragment) -> io::Result<()> {
        let is_terminal = !matches!(self.target, Target::File);
        match delta {
            StreamFragment::Text(text) => {
                self.progress.take(note);
                return self.say(text);
            }
            StreamFragment::Reasoning(_) if self.is_mid_line && is_terminal => return Ok(()),
            StreamFragment::ToolCall { .. } if self.is_mid_line && is_terminal => {
                self.break_line()?;
            }
            _ => {}
        }
        self.progress.take(note);
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.has_spoken = false;
        self.break_line()
    }

    /// Ends the part of the answer that is being written, and shows behind it what was sent meanwhile.
    fn break_line(&mut self) -> io::Result<()> {
        self.is_writing = false;
        self.erase_below()?;
        let is_mid_line = std::mem::take(&mut self.is_mid_line);
        match &mut self.target {
            Target::Styled(markdown, _) => self.output.write_all(markdown.finish().as_bytes())?,
            _ if is_mid_line => self.output.write_all(b"\n")?,
            _ => {}
        }
        self.output.flush()?;
        for sent in std::mem::take(&mut self.sent) {
            self.progress.take(&sent);
        }
        Ok(())
    }
}

impl Renderer for Text {
    fn take(&mut self, note: &UiEvent) -> io::Result<()> {
        let is_wordy = self.scope == Scope::All;
        match note {
            // Sub-agents answer to the agent, and not to the process that reads the answer.
            UiEvent::Event(source, _) | UiEvent::Answered(Answer { source, .. })
                if source.is_subagent() =>
            {
                self.erase_below()?;
                self.progress.take(note);
            }
            UiEvent::Event(_, AgentEvent::StreamDelta(StreamDelta { delta, aside: false, .. })) => {
                if is_wordy {
                    self.stream(note, delta)?;
                } else {
                    self.progress.take(note);
                }
            }
            UiEvent::Event(_, AgentEvent::InferenceRequestStarted(_)) => {
                // An answer that broke off leaves its line open.
                self.end_line()?;
                self.progress.take(note);
            }
            UiEvent::Answered(answer) if answer.aside => self.progress.take(note),
            UiEvent::Answered(answer) => {
                self.progress.take(note);
                if is_wordy && !self.has_spoken {
                    self.say(&answer.text)?;
                }
                self.end_line()?;
            }
            UiEvent::Interrupted => {
                self.end_line()?;
                self.progress.take(note);
            }
            // An answer that is being written is not interrupted by it.
            UiEvent::Sent(_) | UiEvent::Queued(_) | UiEvent::Told(_) if self.is_writing => {
                self.sent.push(note.clone());
                self.draw("")?;
            }
            UiEvent::Typing(draft) => {
                self.draft.clone_from(draft);
                self.progress.take(note);
                if self.is_writing {
                    self.draw("")?;
                }
            }
            UiEvent::Over(report) => {
                match &report.structured_output {
                    Some(answer) if matches!(self.target, Target::Styled(..)) => {
                        let shown = serde_json::to_string_pretty(answer)?;
                        self.say(&format!("```json\n{shown}\n```"))?;
                    }
                    _ if self.scope == Scope::Answer => self.say(&report.text)?,
                    _ => {}
                }
                self.end_line()?;
                self.progress.take(note);
            }
            _ => self.progress.take(note),
        }
        Ok(())
    }

    fn tick(&mut self) {
        // What moves would be drawn over the line under way.
        if !self.is_mid_line || matches!(self.target, Target::File) {
            self.progress.tick();
        }
    }

    fn is_paced(&self) -> bool {
        !matches!(self.target, Target::File)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("scope", &self.scope).finish_non_exhaustive()
    }
}
