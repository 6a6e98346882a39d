//! Enforcement of an agent's answer format.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AnyTool, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, Key, StateEdit, StopDecision,
    StopReason, StopSignal, ToolCx, ToolError, ToolHandler, ToolOptions, ToolOutput,
    events::ValidationFailed,
    messages::{Message, ToolSpec},
};
use serde_json::Value;

use crate::structured::extract::correction;
use crate::structured::policy::OutputMode;
use crate::structured::read::json_in;
use crate::structured::shape::{Reading, Shape};

/// The answer of an execution with a required format.
pub const ANSWER: Key<Value> = Key::execution("structured", "answer");

/// The number of rejected answers.
const TRIES: Key<u32> = Key::execution("structured", "tries");

/// The tool that a model answers with in [`OutputMode::Tool`].
pub(super) const ANSWER_TOOL: &str = "final_answer";

pub(super) const NAME: &str = "structured";

/// Looks at answers, and has the model answer again.
#[derive(Clone)]
pub(super) struct AnswerHook {
    pub(super) form: Arc<Form>,
    pub(super) mode: OutputMode,
    pub(super) max_retries: u32,
}

/// What an answer has to be.
pub(super) struct Form {
    pub(super) shape: Shape,
    /// Says what is wrong although the schema is satisfied.
    pub(super) accepts: fn(&Value) -> Result<(), String>,
}

impl Form {
    pub(super) fn read(&self, value: Value) -> Result<Value, Vec<String>> {
        let value = match self.shape.read(value)? {
            Reading::Found(value) => value,
            Reading::Absent(reason) => return Err(vec![reason]),
        };
        (self.accepts)(&value).map_err(|error| vec![error])?;
        Ok(value)
    }
}

impl AnswerHook {
    /// Notes that an answer does not fit. The last time there is no other try.
    fn refuse(
        &self,
        errors: Vec<String>,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        let (step, told) = (state.step_count(), errors.clone());
        cx.events.emit(|| ValidationFailed::new(step, "answer", told));
        state.remove(&ANSWER);
        let tries = state.get(&TRIES).unwrap_or_default() + 1;
        if tries > self.max_retries {
            let text = format!("no valid answer in {tries} attempts: {}", errors.join("; "));
            let signal = StopSignal::new(StopReason::RetryLimitReached, NAME, text)
                .with("attempts", tries)
                .with("errors", errors);
            state.signal(signal);
            return Ok(StopDecision::Stop);
        }
        state.set(&TRIES, &tries)?;
        state.push_message(Message::user(correction(&errors)));
        Ok(StopDecision::Continue)
    }

    /// Returns what is wrong with the calls of the answer's tool in the last step.
    fn refused_calls(state: &StateEdit<'_>) -> Vec<String> {
        let calls = state.last_step().into_iter().flat_map(loopwright_core::Step::tool_executions);
        let failed = calls.filter(|(call, it)| &*call.name == ANSWER_TOOL && it.is_error());
        failed.map(|(_, outcome)| outcome.error_message()).collect()
    }
}

#[async_trait]
impl Hook for AnswerHook {
    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn points(&self) -> HookPoints {
        match self.mode {
            OutputMode::Tool => HookPoint::AfterStep | HookPoint::OnStop,
            _ => HookPoint::OnStop.into(),
        }
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        if state.get(&ANSWER).is_some() {
            let signal = StopSignal::new(StopReason::Completed, NAME, "the answer was given");
            return Ok(Flow::Stop(signal));
        }
        let errors = Self::refused_calls(state);
        if errors.is_empty() {
            return Ok(Flow::Continue);
        }
        // The model has been told by the tool already.
        let tries = state.get(&TRIES).unwrap_or_default() + 1;
        if tries > self.max_retries {
            self.refuse(errors, state, cx)?;
        } else {
            let step = state.step_count();
            cx.events.emit(|| ValidationFailed::new(step, "answer", errors));
            state.set(&TRIES, &tries)?;
        }
        Ok(Flow::Continue)
    }

    async fn on_stop(
        &self,
        signal: Option<&StopSignal>,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        let is_answer = signal.is_none_or(|it| {
            matches!(it.reason, StopReason::Completed | StopReason::FinishReasonReceived)
        });
        if !is_answer {
            return Ok(StopDecision::Stop);
        }
        if self.mode == OutputMode::Tool {
            return match state.get(&ANSWER) {
                Some(_) => Ok(StopDecision::Stop),
                None => self.refuse(vec![format!("answer by calling `{ANSWER_TOOL}`")], state, cx),
            };
        }
        let said = state.current_response().map(Message::text).unwrap_or_default();
        let read = json_in(&said).map_err(|error| vec![error]).and_then(|it| self.form.read(it));
        match read {
            Ok(value) => {
                state.set(&ANSWER, &value)?;
                Ok(StopDecision::Stop)
            }
            Err(errors) => self.refuse(errors, state, cx),
        }
    }
}

/// The tool that a model answers with.
struct AnswerTool(Arc<Form>);

#[async_trait]
impl ToolHandler for AnswerTool {
    async fn call(&self, arguments: Value, _cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let value = self.0.read(arguments);
        let value = value.map_err(|errors| ToolError::InvalidArguments(errors.join("; ")))?;
        let output = ToolOutput::text("The answer was accepted.").with_value(&ANSWER, &value);
        output.map_err(|error| ToolError::Failed(error.into()))
    }
}

pub(super) fn answer_tool(form: &Arc<Form>) -> AnyTool {
    let spec = ToolSpec {
        name: ANSWER_TOOL.into(),
        description: "Gives the final answer and ends the run.".into(),
        parameters: Arc::clone(&form.shape.outer),
    };
    AnyTool::dynamic(spec, ToolOptions::default(), Arc::new(AnswerTool(Arc::clone(form))))
}
