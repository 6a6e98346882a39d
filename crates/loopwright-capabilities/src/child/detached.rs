//! Sub-agents that run apart from the call that started them.

use std::sync::Arc;
use std::time::Duration;

use loopwright_broadcast::text::shorten;
use loopwright_core::{AgentState, EventBus, Run, RunEnv, RunOptions, events::SubagentCompleted};
use tokio_util::sync::CancellationToken;

use super::run::TOLD;
use super::{ChildAgent, ChildError, ChildOutcome, IsolatedPlace};

/// A sub-agent that has begun and does not need its call any more.
pub(crate) struct DetachedChild {
    name: Arc<str>,
    run: Run,
    events: EventBus,
    env: RunEnv,
    started: Duration,
    place: Option<Box<dyn IsolatedPlace>>,
}

impl ChildAgent<'_> {
    /// Begins a run that ends when `stop` fires, and that no journal keeps: it ends with this process. It cannot wait for
    /// decisions.
    ///
    /// # Errors
    ///
    /// Returns an error if the sub-agent exceeds the maximum depth, or cannot be built.
    pub(crate) fn detach(
        self,
        prompt: &str,
        stop: CancellationToken,
        begin: impl FnOnce(AgentState) -> AgentState + Send,
    ) -> Result<DetachedChild, ChildError> {
        let agent = self.built()?;
        let state = self.first_state(begin);
        let cx = self.cx;
        let options = RunOptions { cancel: stop, ..self.options(None) };
        cx.emit_subagent_started(
            &self.name,
            shorten(prompt, TOLD, TOLD),
            self.depth(),
            self.max_depth,
        );
        let (events, env) = (cx.events.clone(), cx.env.clone());
        let started = env.clock.monotonic();
        let run = agent.start(state, options);
        Ok(DetachedChild { name: self.name, run, events, env, started, place: None })
    }
}

impl DetachedChild {
    /// Sets the place that it leaves at its end.
    pub(super) fn in_place(self, place: Option<Box<dyn IsolatedPlace>>) -> Self {
        Self { place, ..self }
    }

    /// Leaves its place without running.
    pub(crate) async fn abandon(self) {
        if let Some(place) = self.place {
            // Nothing was done there.
            let _nothing = place.leave().await;
        }
    }

    /// Runs to the end, and shows each step.
    pub(crate) async fn finish(mut self, mut step: impl FnMut(&AgentState)) -> ChildOutcome {
        while let Some(state) = self.run.next().await {
            step(state);
        }
        let state = self.run.state().clone();
        let duration = self.env.clock.monotonic().saturating_sub(self.started);
        self.events.emit(|| SubagentCompleted::from_state(&self.name, &state, duration));
        let left = match self.place {
            Some(place) => place.leave().await,
            None => None,
        };
        ChildOutcome { name: self.name, state, pause: None, left }
    }
}
