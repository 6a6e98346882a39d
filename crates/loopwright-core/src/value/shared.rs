//! Access to shared values.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value. A value that a panic poisoned is used unchanged.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
