//! File system calls on blocking threads.

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::files::FileError;

/// Runs work that blocks. Dropping the future, or cancelling the run, tells the work to end.
pub(crate) async fn blocking<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let stop = cancel.child_token();
    let _dropped = stop.clone().drop_guard();
    on_thread(move || work(&stop)).await.unwrap_or(Err(FileError::Cancelled))
}

/// Runs work that blocks, on a thread for such work if there is a runtime. Returns `None` if the runtime ends before the work
/// starts.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let Ok(runtime) = Handle::try_current() else { return Some(work()) };
    match runtime.spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

/// Ends the work if no process waits for it any more.
pub(super) fn check(stop: &CancellationToken) -> Result<(), FileError> {
    if stop.is_cancelled() { Err(FileError::Cancelled) } else { Ok(()) }
}
