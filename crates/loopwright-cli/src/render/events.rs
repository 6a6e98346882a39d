//! A line for people for every event, and the answer.

use std::fmt;
use std::io::{self, Write as _};

use anstream::AutoStream;

use super::{Output, Progress, Renderer, Scope, UiEvent, sanitize_terminal};

/// Writes the lines that the console observer makes of events to standard output as they come, and the
/// answer in the end.
pub struct Events {
    output: Output,
    progress: Progress,
    scope: Scope,
}

impl Events {
    /// Writes to the standard output of this process, in color if it is a terminal and colors are
    /// not disabled.
    pub fn stdout(progress: Progress, scope: Scope) -> Self {
        Self::to(Box::new(AutoStream::auto(io::stdout())), progress, scope)
    }

    pub(super) fn to(output: Output, progress: Progress, scope: Scope) -> Self {
        Self { output, progress, scope }
    }
}

impl Renderer for Events {
    fn take(&mut self, note: &UiEvent) -> io::Result<()> {
        match note {
            UiEvent::Line(line) if self.scope == Scope::All => writeln!(self.output, "{line}")?,
            UiEvent::Over(report) if !report.text.trim().is_empty() => {
                writeln!(self.output, "{}", sanitize_terminal(report.text.trim()))?;
            }
            _ => (),
        }
        self.output.flush()?;
        self.progress.take(note);
        Ok(())
    }

    fn tick(&mut self) {
        self.progress.tick();
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("progress", &self.progress).finish_non_exhaustive()
    }
}
