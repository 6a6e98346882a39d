//! The hook that calls the critic.

use std::{borrow::Cow, fmt};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, StateEdit, StepError,
    StopReason, StopSignal,
    messages::{Message, ResponseFormat},
};

use crate::{
    critique::{
        evidence,
        policy::{CritiquePolicy, OnCriticFailure},
        prompt,
        verdict::{CRITIC_VERDICT, CriticVerdict, ITERATIONS},
    },
    model_source::ModelSource,
};

const NAME: &str = "self_critique";

/// Judges final answers.
#[derive(Clone)]
pub(super) struct Critic {
    pub(super) critics: ModelSource,
    pub(super) policy: CritiquePolicy,
}

/// What came of asking the critic.
enum Judged {
    CriticVerdict(CriticVerdict),
    /// There is no verdict.
    Failed(BoxError),
    /// The run ends before there is one.
    Stopped(StopSignal),
    Cancelled,
}

impl Critic {
    async fn judge(&self, answer: &str, state: &AgentState, cx: &HookCx<'_>) -> Judged {
        match self.ask(answer, state, cx).await {
            Ok(text) => match CriticVerdict::parse(&text) {
                Ok(verdict) => Judged::CriticVerdict(verdict),
                Err(error) => Judged::Failed(error.into()),
            },
            Err(StepError::Stopped(signal)) => Judged::Stopped(signal),
            Err(StepError::Cancelled) => Judged::Cancelled,
            Err(error) => Judged::Failed(error.into()),
        }
    }

    async fn ask(
        &self,
        answer: &str,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<String, StepError> {
        let task = evidence::task(state);
        let evidence = evidence::evidence(state, &self.policy);
        let task = task.as_deref().unwrap_or(prompt::NO_TASK);
        let question = prompt::question(task, &evidence, answer);
        let (model, mut request) =
            self.critics.request(state, cx.agent(), Some(prompt::CRITIC.into()), question)?;
        request.response_format =
            Some(ResponseFormat::json_schema("verdict", CriticVerdict::schema()));
        Ok(cx.infer(state, &*model, request).await?.message.text())
    }

    fn exhausted(&self, iterations: u32) -> StopSignal {
        let max = self.policy.max_iterations;
        let text = format!("the answer was rejected in {iterations} of {max} reviews");
        StopSignal::new(StopReason::RetryLimitReached, NAME, text)
            .with("iteration", iterations)
            .with("max_iterations", max)
    }

    /// Follows a verdict: what is not accepted goes back, unless it was the last time.
    fn follow(
        &self,
        verdict: &CriticVerdict,
        iteration: u32,
        state: &mut StateEdit<'_>,
    ) -> Result<(), BoxError> {
        state.set(&ITERATIONS, &iteration)?;
        state.set(&CRITIC_VERDICT, verdict)?;
        if verdict.approved {
            return Ok(());
        }
        if iteration >= self.policy.max_iterations {
            state.signal(self.exhausted(iteration));
            return Ok(());
        }
        let max = self.policy.max_iterations;
        state.push_message(Message::user(prompt::feedback(verdict, iteration, max)));
        state.request_continuation();
        Ok(())
    }

    fn without_verdict(
        &self,
        error: BoxError,
        iteration: u32,
        state: &mut StateEdit<'_>,
    ) -> Result<(), BoxError> {
        let approved = match self.policy.on_failure {
            OnCriticFailure::Fail => return Err(error),
            OnCriticFailure::Approve => true,
            OnCriticFailure::Stop => false,
        };
        let summary = format!("the answer could not be reviewed: {error}");
        state.set(&ITERATIONS, &iteration)?;
        state.set(&CRITIC_VERDICT, &CriticVerdict::without_critic(approved, summary.clone()))?;
        if !approved {
            state.signal(StopSignal::new(StopReason::RetryLimitReached, NAME, summary));
        }
        Ok(())
    }
}

#[async_trait]
impl Hook for Critic {
    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::AfterStep.into()
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let Some(answer) = state.final_response().map(Message::text) else {
            return Ok(Flow::Continue);
        };
        // An answer after one that was accepted is to something else that was said meanwhile.
        let was_accepted = state.get(&CRITIC_VERDICT).is_some_and(|it| it.approved);
        let iterations = if was_accepted { 0 } else { state.get(&ITERATIONS).unwrap_or(0) };
        if iterations >= self.policy.max_iterations {
            let summary = "the answer was not reviewed: the review limit was reached".to_owned();
            state.set(&CRITIC_VERDICT, &CriticVerdict::without_critic(false, summary))?;
            state.signal(self.exhausted(iterations));
            return Ok(Flow::Continue);
        }
        // Later hooks see the step whatever becomes of the answer: the run is signalled to stop, and
        // this round continues.
        match self.judge(&answer, state, cx).await {
            Judged::CriticVerdict(verdict) => self.follow(&verdict, iterations + 1, state)?,
            Judged::Failed(error) => self.without_verdict(error, iterations + 1, state)?,
            Judged::Stopped(signal) => state.signal(signal),
            Judged::Cancelled => (),
        }
        Ok(Flow::Continue)
    }
}

impl fmt::Debug for Critic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Critic").field("policy", &self.policy).finish_non_exhaustive()
    }
}
