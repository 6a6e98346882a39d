//! What many facts need.

use std::sync::{Arc, Mutex, MutexGuard};

use loopwright_core::{
    AgentLoop, AgentState, Hook, HookStack, Interceptor, Priority, RunOptions, ToolOutcome,
};
use loopwright_testing::{FakeDriver, MemoryJournal, ScenarioStep, block_on, test_loop, validate};
pub(crate) use loopwright_testing::{execute, test_options as options, turn_texts as said};

/// An agent that follows a script.
pub(crate) fn agent(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentLoop {
    test_loop(FakeDriver::steps(steps))
}

/// A state in which the user has said something.
pub(crate) fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

pub(crate) fn journaled(journal: &MemoryJournal) -> RunOptions {
    RunOptions { journal: Some(Arc::new(journal.clone())), ..options() }
}

/// Runs to the end with a journal.
#[track_caller]
pub(crate) fn execute_with(
    agent: &AgentLoop,
    state: AgentState,
    journal: &MemoryJournal,
) -> AgentState {
    block_on(agent.start(state, journaled(journal)).finish())
}

pub(crate) fn hooked(agent: &AgentLoop, hook: impl Hook + 'static) -> AgentLoop {
    agent.with_interceptor(Interceptor::from_hook(Arc::new(hook)))
}

/// Several hooks, in the order given.
pub(crate) fn hooks(hooks: impl IntoIterator<Item = Arc<dyn Hook>>) -> Interceptor {
    let mut stack = HookStack::default();
    for hook in hooks {
        stack.add_shared(Priority::default(), hook);
    }
    stack.into_interceptor()
}

/// What the model was told about the calls of all exchanges, in order.
pub(crate) fn told(state: &AgentState) -> Vec<String> {
    state.tool_calls().map(|(_, result)| result.to_text()).collect()
}

/// What became of the calls of a step.
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
pub(crate) fn outcomes(state: &AgentState, step: usize) -> Vec<ToolOutcome> {
    let step = state.step_at(step).unwrap();
    step.tool_executions().map(|(_, outcome)| outcome.clone()).collect()
}

/// The state that a journal tells of, from its beginning.
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
pub(crate) fn replay(journal: &MemoryJournal) -> AgentState {
    AgentState::new().replay(journal.changes()).unwrap()
}

/// The conversation is one that a provider accepts.
#[track_caller]
pub(crate) fn is_valid(state: &AgentState) {
    assert_eq!(validate(state.transcript()), Ok(()));
}

/// What threads share, where none of them panics.
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap()
}
