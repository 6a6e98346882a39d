//! One JSON object at the end.

use std::fmt;
use std::io::{self, Write as _};

use super::words::json;
use super::{Output, Progress, Renderer, UiEvent};

/// Writes the report to standard output, and everything else to standard error.
pub struct Json {
    output: Output,
    progress: Progress,
}

impl Json {
    /// Writes to the standard output of this process.
    pub fn stdout(progress: Progress) -> Self {
        Self::to(Box::new(io::stdout()), progress)
    }

    pub(super) fn to(output: Output, progress: Progress) -> Self {
        Self { output, progress }
    }
}

impl Renderer for Json {
    fn take(&mut self, note: &UiEvent) -> io::Result<()> {
        // The report tells what the run took.
        let UiEvent::Over(report) = note else {
            self.progress.take(note);
            return Ok(());
        };
        self.progress.over(report);
        writeln!(self.output, "{}", json(report)?)?;
        self.output.flush()
    }

    fn tick(&mut self) {
        self.progress.tick();
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Json").field("progress", &self.progress).finish_non_exhaustive()
    }
}
