//! An agent, its sessions, and a note of what happens to them.

use std::sync::{Arc, Mutex};

use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{AgentLoop, AgentState};
use loopwright_sessions::{
    AgentSession, MemoryStore, SessionEvent, SessionFactory, SessionId, SessionRuntime,
};
use loopwright_testing::{FakeModel, FrozenClock, ModelDriver, ScenarioStep, test_loop};

/// Makes the same loop of every definition.
pub(crate) struct Same(pub(crate) AgentLoop);

impl LoopFactory for Same {
    fn instantiate(&self, _definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.0.clone())
    }
}

/// What happened, in words.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Says which event it is, and what counts of it.
pub(crate) fn word(event: &SessionEvent) -> String {
    match event {
        SessionEvent::Loaded(at) => format!("loaded {} {}", at.version, at.status),
        SessionEvent::ActionExecuted { action, before, after, .. } => {
            format!("{action} {before} {after}")
        }
        SessionEvent::Saved(at) => format!("saved {} {}", at.version, at.status),
        SessionEvent::LoadFailed { .. } => "load failed".to_owned(),
        SessionEvent::SaveFailed { .. } => "save failed".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn answering<S: Into<ScenarioStep>>(
    answers: impl IntoIterator<Item = S>,
) -> (AgentLoop, FakeModel) {
    let model = FakeModel::script(answers);
    (test_loop(ModelDriver::new(model.clone())), model)
}

pub(crate) fn session(name: &str) -> AgentSession {
    let definition = AgentDefinition::new("helper", "helps", "You help.");
    let now = loopwright_core::Timestamp::from_millis(0);
    SessionFactory::new().create_from(definition, AgentState::new(), id(name), now)
}

/// A runtime over a store, at a clock that stands still, and what is told of its sessions.
pub(crate) fn runtime(store: &MemoryStore, agent: &AgentLoop) -> (SessionRuntime, Notes) {
    let notes = Notes::default();
    let told = notes.clone();
    let runtime = SessionRuntime::new(Arc::new(store.clone()), Same(agent.clone()))
        .with_env(FrozenClock::new().env(0))
        .with_listener(move |event: &SessionEvent| told.note(word(event)));
    (runtime, notes)
}
