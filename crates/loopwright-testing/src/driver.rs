//! Drivers without a provider.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{AgentState, ChatModel, Driver, StepError, StepResponse, ThinkCx};

use crate::scenario::ScenarioStep;

/// A driver that responds from a script, without a model.
///
/// The next step is a function of the state, [`AgentState::total_steps`]. So agents can share the
/// driver, and the script continues over executions. At its end, the last step repeats. An empty
/// script responds with `ok`.
#[derive(Clone, Debug, Default)]
pub struct FakeDriver(Arc<[ScenarioStep]>);

impl FakeDriver {
    /// Creates a driver with a script.
    pub fn steps(steps: impl IntoIterator<Item = ScenarioStep>) -> Self {
        Self(steps.into_iter().collect())
    }

    /// Creates a driver with a script of final answers.
    pub fn responses<T: Into<Arc<str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::steps(texts.into_iter().map(ScenarioStep::final_answer))
    }

    fn step(&self, index: u64) -> ScenarioStep {
        let step = usize::try_from(index).ok().and_then(|index| self.0.get(index));
        step.or(self.0.last()).cloned().unwrap_or_else(|| ScenarioStep::final_answer("ok"))
    }
}

#[async_trait]
impl Driver for FakeDriver {
    async fn think(
        &self,
        state: &AgentState,
        _cx: &ThinkCx<'_>,
    ) -> Result<StepResponse, StepError> {
        self.step(state.total_steps()).to_thought()
    }

    fn name(&self) -> &'static str {
        "fake"
    }
}

/// The smallest driver that calls a model, with the request of the loop and the state only.
#[derive(Clone)]
pub struct ModelDriver(Arc<dyn ChatModel>);

impl ModelDriver {
    /// Creates a driver with a model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self(Arc::new(model))
    }
}

#[async_trait]
impl Driver for ModelDriver {
    async fn think(
        &self,
        _state: &AgentState,
        cx: &ThinkCx<'_>,
    ) -> Result<StepResponse, StepError> {
        let request = cx.request().await?;
        Ok(StepResponse::from_response(cx.infer(&*self.0, request).await?))
    }

    fn name(&self) -> &'static str {
        "model"
    }
}

impl std::fmt::Debug for ModelDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModelDriver")
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::AgentState;

    use super::*;
    use crate::{block_on, test_loop};

    #[track_caller]
    fn check(driver: FakeDriver, expect: &[&str]) {
        let agent = test_loop(driver);
        let mut state = AgentState::new();
        for text in expect {
            state = block_on(agent.execute(state.with_user_message("go on")));
            assert_eq!(state.text(), *text);
        }
    }

    #[test]
    fn the_script_goes_on_over_executions_and_repeats_its_last_step() {
        check(FakeDriver::responses(["one", "two"]), &["one", "two", "two"]);
        let tool = ScenarioStep::tool("looking");
        let steps = [tool.clone(), "one".into(), tool, "two".into()];
        check(FakeDriver::steps(steps), &["one", "two", "two"]);
    }

    #[test]
    fn an_empty_script_answers_ok() {
        check(FakeDriver::default(), &["ok", "ok"]);
    }
}
