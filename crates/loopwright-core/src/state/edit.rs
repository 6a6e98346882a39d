//! Edits of a state by hooks.

use std::{fmt, ops::Deref, sync::Arc};

use loopwright_messages::{CacheBreak, Message, SectionName, Transcript};
use serde::Serialize;
use serde_json::Value;

use crate::{
    budget::Budget,
    change::{Change, ChangeRecord, Edit},
    clock::Clock,
    key::{Key, Namespace, StateKey},
    llm::LlmConfig,
    state::AgentState,
    stop::{StopReason, StopSignal},
};

/// A state that a hook can edit. It can be read like any state, and changed only in ways that a
/// journal can store. No method erases or forges an execution.
///
/// The edits of a hook point take effect together, when its last hook has finished.
pub struct StateEdit<'a> {
    state: &'a mut Arc<AgentState>,
    log: &'a mut Vec<ChangeRecord>,
    by: &'a Arc<str>,
    clock: &'a dyn Clock,
}

impl<'a> StateEdit<'a> {
    pub(crate) fn new(
        state: &'a mut Arc<AgentState>,
        log: &'a mut Vec<ChangeRecord>,
        by: &'a Arc<str>,
        clock: &'a dyn Clock,
    ) -> Self {
        Self { state, log, by, clock }
    }

    /// Applies an edit.
    pub fn edit(&mut self, edit: Edit) {
        self.change(Change::StateEdited { by: Arc::clone(self.by), edit });
    }

    /// Appends a message to the conversation.
    pub fn push_message(&mut self, message: Message) {
        self.append(SectionName::MESSAGES, message);
    }

    /// Appends a message to a section.
    pub fn append(&mut self, section: &str, message: Message) {
        self.edit(Edit::Append { section: section.into(), message });
    }

    /// Replaces a section, for instance to compact it. The next request reports the cause of the
    /// cache break.
    pub fn replace(&mut self, section: &str, turns: Transcript, cause: CacheBreak) {
        self.edit(Edit::Replace { section: section.into(), turns, cause });
    }

    /// Moves the oldest turns of a section to the end of another one. The recorded change has a
    /// constant size.
    pub fn move_oldest(&mut self, from: &str, to: &str, turns: usize) {
        self.edit(Edit::Move { from: from.into(), to: to.into(), turns });
    }

    /// Sets a metadata value, which models and users can see.
    pub fn set_metadata(&mut self, key: impl Into<Arc<str>>, value: Value) {
        let slot = StateKey { space: Namespace::Metadata, key: key.into() };
        self.edit(Edit::Set(slot, Some(value)));
    }

    /// Stores a capability's own value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be written as JSON.
    ///
    /// ```
    /// use loopwright_core::{AgentState, CallableHook, Flow, HookStack, Key};
    /// use loopwright_testing::{FakeDriver, block_on, test_loop};
    ///
    /// const VISITS: Key<u32> = Key::session("visits", "count");
    ///
    /// let mut hooks = HookStack::default();
    /// hooks.add(CallableHook::new("visits").before_execution(|state, _| {
    ///     let visits = state.get(&VISITS).unwrap_or_default();
    ///     state.set(&VISITS, &(visits + 1))?;
    ///     Ok(Flow::Continue)
    /// }));
    /// let agent = test_loop(FakeDriver::responses(["Hello."])).with_interceptor(hooks.into_interceptor());
    /// let state = block_on(agent.execute(AgentState::new().with_user_message("Hello.")));
    /// assert_eq!(state.get(&VISITS), Some(1));
    /// ```
    pub fn set<T: Serialize>(&mut self, key: &Key<T>, value: &T) -> Result<(), serde_json::Error> {
        self.edit(Edit::Set(key.slot(), Some(serde_json::to_value(value)?)));
        Ok(())
    }

    /// Removes a capability's own value.
    pub fn remove<T>(&mut self, key: &Key<T>) {
        self.edit(Edit::Set(key.slot(), None));
    }

    /// Replaces the session's system prompt.
    pub fn set_system_prompt(&mut self, prompt: impl Into<Arc<str>>) {
        self.edit(Edit::SystemPrompt(Some(prompt.into())));
    }

    /// Selects another model.
    pub fn set_llm(&mut self, llm: LlmConfig) {
        self.edit(Edit::Llm(Some(Arc::new(llm))));
    }

    /// Replaces the budget.
    pub fn set_budget(&mut self, budget: Budget) {
        self.edit(Edit::Budget(budget));
    }

    /// Raises a signal to stop.
    pub fn signal(&mut self, signal: StopSignal) {
        self.change(Change::StopRaised(signal));
    }

    /// Withdraws the signals of a soft reason; hard ones stay.
    pub fn withdraw(&mut self, reason: StopReason) {
        self.change(Change::StopWithdrawn(reason));
    }

    /// Requests another step, despite soft reasons to end.
    pub fn request_continuation(&mut self) {
        self.change(Change::ContinuationRequested { by: Arc::clone(self.by) });
    }

    fn change(&mut self, change: Change) {
        let stamped = ChangeRecord { at: self.clock.now(), change };
        // Outside an execution there is nothing to signal or continue.
        if Arc::make_mut(self.state).apply(&stamped).is_ok() {
            self.log.push(stamped);
        }
    }
}

impl fmt::Debug for StateEdit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateEdit").field("by", self.by).finish_non_exhaustive()
    }
}

impl Deref for StateEdit<'_> {
    type Target = AgentState;

    fn deref(&self) -> &AgentState {
        self.state
    }
}
