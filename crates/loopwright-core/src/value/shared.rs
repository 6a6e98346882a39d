//! Access to what is shared.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value. One that a panic left behind is used as it is.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
