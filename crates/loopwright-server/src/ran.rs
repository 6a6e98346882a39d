//! The arguments that calls ran with, where these are not the arguments of the model.

use std::collections::HashMap;

use loopwright_core::{
    ApprovalDecision, Change, ChangeRecord, Edit,
    messages::{ExecutionId, ToolCall},
};
use loopwright_sessions::{AgentSession, SessionError, SessionId, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::server::Server;

/// The arguments that a call runs or ran with instead of those of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RanWith {
    /// The arguments, as JSON text.
    pub arguments: String,
    /// `true` if a user edited them in an approval, `false` if a hook changed them.
    pub is_edited: bool,
}

#[cfg(feature = "page")]
impl RanWith {
    /// Returns what happened to the arguments, as a word.
    pub(crate) fn word(&self) -> &'static str {
        if self.is_edited { "edited" } else { "changed" }
    }

    /// Returns what happened to the arguments, as a sentence.
    pub(crate) fn explanation(&self) -> &'static str {
        if self.is_edited {
            "A user edited these arguments when approving the call."
        } else {
            "A hook changed these arguments."
        }
    }
}

/// The calls of a session that did not run with the arguments of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedArguments(HashMap<(ExecutionId, u32, usize), RanWith>);

impl ChangedArguments {
    /// Finds them in the changes of a session.
    pub(crate) fn of(changes: &[ChangeRecord]) -> Self {
        let mut fold = Fold::default();
        for ChangeRecord { change, .. } in changes {
            fold.take(change);
        }
        fold.found
    }

    /// Loads a session, and finds them in its changes.
    pub(crate) async fn with_session(
        server: &Server,
        id: &SessionId,
    ) -> Result<(AgentSession, Self), SessionError> {
        let loaded = server.store().load(id).await?;
        let loaded = loaded.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let changed = Self::of(&loaded.changes);
        Ok((AgentSession::from_loaded(loaded)?, changed))
    }

    /// Returns the arguments of a call in a step of an execution; `None` if they are those of the model.
    pub(crate) fn of_call(
        &self,
        execution: &ExecutionId,
        step: u32,
        call: usize,
    ) -> Option<&RanWith> {
        self.0.get(&(execution.clone(), step, call))
    }
}

/// The position in the changes.
#[derive(Default)]
struct Fold<'a> {
    found: ChangedArguments,
    execution: Option<&'a ExecutionId>,
    /// The number of steps of the execution that have ended.
    ended: u32,
    /// The calls of the response of the open step.
    calls: Option<Vec<&'a ToolCall>>,
}

impl<'a> Fold<'a> {
    fn take(&mut self, change: &'a Change) {
        match change {
            Change::ExecutionStarted { execution, .. } => {
                (self.execution, self.ended, self.calls) = (Some(execution), 0, None);
            }
            Change::ModelResponded(response) => {
                self.calls = Some(response.message.tool_calls().collect());
            }
            Change::StateEdited {
                edit:
                    Edit::Resolve { call, resolution: ApprovalDecision::ApproveWith { arguments } },
                ..
            } => self.set(*call, arguments.as_str(), true),
            Change::ToolCallStarted { call, arguments, .. } => {
                self.set(*call, arguments.as_str(), false);
            }
            Change::StepCompleted { .. } | Change::StepFailed { .. } => {
                (self.ended, self.calls) = (self.ended + 1, None);
            }
            // An open step with a response is recorded; without one, its number is used again.
            Change::ExecutionEnded(_) => self.ended += u32::from(self.calls.take().is_some()),
            Change::AnswerInterrupted { .. } => self.calls = None,
            _ => {}
        }
    }

    /// Notes the arguments of a call of the open step.
    fn set(&mut self, call: u16, arguments: &str, is_edited: bool) {
        let (Some(execution), Some(calls)) = (self.execution, &self.calls) else { return };
        let at = usize::from(call);
        let Some(written) = calls.get(at) else { return };
        let key = (execution.clone(), self.ended + 1, at);
        if is_same(&written.arguments, arguments) {
            self.found.0.remove(&key);
            return;
        }
        let earlier = self.found.0.get(&key);
        let was_edited = earlier.is_some_and(|it| it.is_edited && it.arguments == arguments);
        let is_edited = is_edited || was_edited;
        self.found.0.insert(key, RanWith { arguments: arguments.to_owned(), is_edited });
    }
}

/// Returns `true` if two texts are the same JSON.
fn is_same(one: &str, other: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    one == other || value(one).is_some_and(|it| Some(it) == value(other))
}
