//! Console output of events.

mod line;
mod options;

use std::{
    fmt,
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use futures_executor as executor;
use loopwright_core::{AgentEvent, EventEnvelope, EventSink};

pub use self::options::ConsoleOptions;
use crate::{
    broadcasting::CAPACITY,
    queue::{DropPriority, Queued, Receiver, Sender, queue},
    worker::Worker,
};

/// Writes a line for each event, such as `[----:3f2a] [STEP] step 1 started: messages 3`.
///
/// Each line names its agent, so that the lines of concurrent agents can be distinguished. The
/// lines are written on a separate thread, so a slow or stopped terminal does not delay a run. If
/// too many lines wait, the oldest are dropped, except those about the start or the end of an
/// execution, and a line reports their number.
pub struct ConsoleObserver {
    options: ConsoleOptions,
    entrance: Sender<Line>,
    worker: Worker,
}

/// A line that waits to be written.
#[derive(Debug)]
struct Line(String, DropPriority);

impl Queued for Line {
    fn worth(&self) -> DropPriority {
        self.1
    }
}

impl ConsoleObserver {
    /// Creates an observer that writes to standard output, in color if it is a terminal and the
    /// options allow it.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn stdout(options: ConsoleOptions) -> io::Result<Self> {
        let use_colors = options.use_colors && io::stdout().is_terminal();
        Self::new(io::stdout(), ConsoleOptions { use_colors, ..options })
    }

    /// Creates it with a writer.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn new(writer: impl Write + Send + 'static, options: ConsoleOptions) -> io::Result<Self> {
        let (entrance, exit) = queue(CAPACITY);
        let worker = Worker::spawn("console", move || {
            // A caller that does not take lines any more is not told.
            executor::block_on(write(writer, exit)).ok();
        })?;
        Ok(Self { options, entrance, worker })
    }

    /// Stops accepting lines, and waits until all lines are written, at most for this duration.
    /// Blocks the thread.
    pub fn finish(&self, at_most: Duration) {
        self.entrance.close();
        self.worker.wait(at_most);
    }
}

impl Drop for ConsoleObserver {
    fn drop(&mut self) {
        self.entrance.close();
    }
}

impl EventSink for ConsoleObserver {
    fn emit(&self, envelope: &EventEnvelope) {
        if let Some(line) = self.options.line(envelope) {
            // Whether it is written is nobody's concern here.
            let _is_taken = self.entrance.push(Line(line, worth(&envelope.event)));
        }
    }
}

impl fmt::Debug for ConsoleObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleObserver").field("options", &self.options).finish_non_exhaustive()
    }
}

fn worth(event: &AgentEvent) -> DropPriority {
    match event {
        AgentEvent::ExecutionStarted(_)
        | AgentEvent::ExecutionCompleted(_)
        | AgentEvent::ExecutionStopped(_)
        | AgentEvent::ExecutionFailed(_) => DropPriority::Kept,
        _ => DropPriority::Event,
    }
}

async fn write(mut writer: impl Write, mut exit: Receiver<Line>) -> io::Result<()> {
    const MAX: usize = 256;
    while let Some(taken) = exit.take(MAX).await {
        if taken.dropped > 0 {
            writeln!(writer, "({} lines were dropped)", taken.dropped)?;
        }
        for Line(line, _) in taken.items {
            writeln!(writer, "{line}")?;
        }
        writer.flush()?;
    }
    Ok(())
}
