//! Ctrl-C and the polite request to end.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::process;
use std::sync::{Arc, OnceLock};

use futures::future::{Either, FutureExt as _, select};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::console;
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::input::{InputEvent, restore_terminal};
use crate::render::{UiEvent, UiSender};

/// Stops a run, and remembers why. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CancelSwitch {
    token: CancellationToken,
    reason: Arc<OnceLock<Interruption>>,
}

impl CancelSwitch {
    /// Creates a switch that is not triggered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns what cancels the run.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Cancels the run; the first reason counts.
    pub fn cancel(&self, reason: Interruption) {
        self.reason.get_or_init(|| reason);
        self.token.cancel();
    }

    /// Returns `true` if the user has stopped the run, so that the next signal ends the process.
    fn is_cancelled_by_user(&self) -> bool {
        matches!(self.reason(), Some(Interruption::Interrupt | Interruption::Terminate))
    }

    /// Returns why the run was cancelled, if it was.
    pub fn reason(&self) -> Option<Interruption> {
        self.reason.get().copied()
    }
}

/// Takes signals from the moment it is made.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal went away; `None` where that is to be ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Takes over from the system, which would end the process at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the system does not allow it.
    pub fn new() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { interrupt, terminate, hang_up })
    }

    /// Cancels the run at the first signal, and ends the process at one that comes after the user has stopped the run, by a
    /// signal or by Esc. Never returns.
    pub async fn watch(&mut self, brake: &CancelSwitch, feed: &UiSender) -> Infallible {
        let mut is_first = true;
        loop {
            let reason = self.next().await;
            if !std::mem::take(&mut is_first) || brake.is_cancelled_by_user() {
                restore_terminal();
                process::exit(i32::from(exit_code(reason).code()));
            }
            brake.cancel(reason);
            if reason == Interruption::Interrupt {
                feed.tell(UiEvent::Interrupted);
            }
        }
    }

    /// Takes a Ctrl-C that has come. Returns `false` if none has.
    pub fn take_interrupt(&mut self) -> bool {
        self.interrupt.recv().now_or_never().flatten().is_some()
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Interruption {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => pending().await,
            }
        };
        let (terminate, hang_up) = (pin!(self.terminate.recv()), pin!(hang_up));
        match select(pin!(self.interrupt.recv()), select(terminate, hang_up)).await {
            Either::Left(_) => Interruption::Interrupt,
            Either::Right(_) => Interruption::Terminate,
        }
    }
}

/// Waits for work of the user. The first signal, if signals are heard, cancels the work, which then ends by itself.
pub async fn until_signal<T>(
    signals: Option<&mut Signals>,
    cancel: &CancellationToken,
    work: impl Future<Output = T> + Unpin,
) -> T {
    let Some(signals) = signals else { return work.await };
    match select(work, pin!(signals.next())).await {
        Either::Left((done, _)) => done,
        Either::Right((_, work)) => {
            cancel.cancel();
            work.await
        }
    }
}

/// Waits for two signals, and returns the second one. At the first one, shows a line and cancels `drain`, so that no new work starts.
/// Never returns if signals cannot be handled.
pub(crate) async fn draining(drain: &CancellationToken, told: &str) -> Interruption {
    let Ok(mut signals) = Signals::new() else { return pending().await };
    signals.next().await;
    console::tell(told);
    drain.cancel();
    signals.next().await
}

/// Returns `true` if this process was begun to live on without its terminal, as by `nohup`.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    // SIGHUP is the first signal.
    ignored.is_some_and(|it| it & 1 != 0)
}

/// Returns the exit status of a process asked to end.
pub fn exit_code(reason: Interruption) -> ExitCode {
    match reason {
        Interruption::Terminate => ExitCode::Terminated,
        _ => ExitCode::Interrupted,
    }
}

/// Returns the exit code of a program whose input ends with an event, and reports an input that failed. `otherwise` is the code
/// for the end of the input.
pub(crate) fn input_exit_code(event: &InputEvent, otherwise: ExitCode) -> ExitCode {
    match event {
        InputEvent::Signal(reason) => exit_code(*reason),
        InputEvent::Broken(error) => console::fail(error, ExitCode::Internal),
        _ => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_after_esc_is_the_second_one_and_a_closed_output_is_none() {
        let is_second = |reason: Option<Interruption>| {
            let switch = CancelSwitch::new();
            if let Some(reason) = reason {
                switch.cancel(reason);
            }
            switch.is_cancelled_by_user()
        };
        let reasons = [
            None,
            Some(Interruption::HangUp),
            Some(Interruption::Interrupt),
            Some(Interruption::Terminate),
        ];
        assert_eq!(reasons.map(is_second), [false, false, true, true]);
    }
}
