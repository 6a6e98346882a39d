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
    let Ok(runtime) = Handle::try_current() else { return work(&stop) };
    let _dropped = stop.clone().drop_guard();
    match runtime.spawn_blocking(move || work(&stop)).await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(FileError::Cancelled),
        },
    }
}

/// Ends the work if no process waits for it any more.
pub(super) fn check(stop: &CancellationToken) -> Result<(), FileError> {
    if stop.is_cancelled() { Err(FileError::Cancelled) } else { Ok(()) }
}
