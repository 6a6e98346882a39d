//! Calls whose server waits for the user in an open connection, which earlier revisions than 2026-07-28 need.

use std::sync::{Mutex, MutexGuard, PoisonError};

use loopwright_core::IdempotencyKey;
use rmcp::model::ErrorData;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::call::RunningCall;

/// Calls of one server that wait at the same time. The oldest gives way.
const MAX_HELD: usize = 16;

/// A call whose server waits for an answer.
pub(crate) struct HeldCall {
    pub(crate) key: IdempotencyKey,
    pub(crate) running: RunningCall,
    pub(crate) reply: oneshot::Sender<Result<Value, ErrorData>>,
    /// When the server asked.
    pub(crate) asked_at: Instant,
}

/// The calls of a server that wait.
#[derive(Default)]
pub(crate) struct HeldCalls(Mutex<Vec<HeldCall>>);

impl HeldCalls {
    pub(crate) fn keep(&self, call: HeldCall) {
        let mut held = self.lock();
        if held.len() >= MAX_HELD {
            held.remove(0);
        }
        held.push(call);
    }

    /// Returns a call that waits. Dropping it tells the server that it is over.
    pub(crate) fn take(&self, key: &IdempotencyKey) -> Option<HeldCall> {
        let mut held = self.lock();
        let at = held.iter().position(|it| it.key == *key)?;
        Some(held.remove(at))
    }

    /// Ends calls of earlier steps of an execution: the user has decided against them.
    pub(crate) fn end_before(&self, key: &IdempotencyKey) {
        let is_over = |it: &HeldCall| it.key.execution == key.execution && it.key.step < key.step;
        self.lock().retain(|it| !is_over(it));
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<HeldCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
