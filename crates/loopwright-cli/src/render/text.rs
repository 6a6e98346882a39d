//! The answer as text, while it is written.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use loopwright_core::{AgentEvent, StreamFragment, events::StreamDelta};

use super::markdown::{Markdown, Preview, Width};
use super::words::sanitize_terminal;
use super::{Answer, Output, Progress, Renderer, UiEvent, columns, is_dumb};

/// Writes words to standard output as they come, and everything else to standard error.
pub struct Text {
    output: Output,
    progress: Progress,
    scope: Scope,
    target: Target,
    /// Whether fragments of the answer under way have been written.
    has_spoken: bool,
    /// What the user sent while an answer is written, shown behind it.
    sent: Vec<UiEvent>,
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
        let preview = if is_dumb() { Preview::Hidden } else { Preview::Shown };
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
            is_mid_line: false,
            sent: Vec::new(),
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
        self.is_mid_line = !text.ends_with('\n');
        match &mut self.target {
            Target::Styled(markdown, room) => {
                markdown.resize(room());
                self.output.write_all(markdown.push(text).as_bytes())?;
            }
            Target::Terminal => self.output.write_all(sanitize_terminal(text).as_bytes())?,
            Target::File => self.output.write_all(text.as_bytes())?,
        }
        self.output.flush()
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
        self.break_line()?;
        for sent in std::mem::take(&mut self.sent) {
            self.progress.take(&sent);
        }
        Ok(())
    }

    fn break_line(&mut self) -> io::Result<()> {
        let is_mid_line = std::mem::take(&mut self.is_mid_line);
        match &mut self.target {
            Target::Styled(markdown, _) => self.output.write_all(markdown.finish().as_bytes())?,
            _ if is_mid_line => self.output.write_all(b"\n")?,
            _ => return Ok(()),
        }
        self.output.flush()
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
            UiEvent::Sent(_) | UiEvent::Told(_) if self.has_spoken => self.sent.push(note.clone()),
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
        self.progress.tick();
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
