//! The Restate service: one invocation of `turn` is one job.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use loopwright_core::RunEnv;
use loopwright_sessions::{JobId, JobStatus, SessionId};
use loopwright_worker::{JobDeliveries, JobDelivery};
use restate_sdk::{
    context::RequestTarget,
    endpoint::ContextInternal,
    prelude::*,
    service::{Service, macro_support::service_definition},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::service::RestateService;

/// The handler.
pub(crate) const HANDLER: &str = "turn";

/// The status of an invocation that was cancelled.
const CANCELLED: u16 = 409;
/// The status of an invocation whose job failed.
const FAILED: u16 = 500;
/// The status of an invocation without a job.
const UNKNOWN: u16 = 404;

/// Restate asks an invocation to suspend after this time without news. A delay does; a run continues and reports its end.
const INACTIVE: Duration = Duration::from_secs(5);
/// The longest time of one attempt. A run has its own limits.
const LONGEST: Duration = Duration::from_hours(24 * 7);
/// The delay before Restate delivers an invocation again that no worker accepted. It doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The longest delay before Restate tries another worker.
const MAX_RETRY: Duration = Duration::from_secs(5);
/// Restate tries to find a worker for as long as none accepts an invocation, instead of 70 times.
const UNBOUNDED: u64 = 1_000_000_000;
/// How long Restate knows what it delivered. After that time, a worker finds that the job has ended.
const REMEMBERED: Duration = Duration::from_hours(24);

/// The input of an invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The job. Its record has the task.
    pub(crate) job: JobId,
}

impl Turn {
    pub(crate) fn to_json(&self) -> String {
        json!({ "job": self.job }).to_string()
    }
}

/// What is recorded in the journal of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// The job has ended, or waits for a decision without a deadline.
    Ended(JobStatus),
    /// The job waits for a decision until this time has passed.
    Waits { claim: u64, millis: u64 },
    /// The next attempt is due after this time.
    Later { millis: u64 },
    /// The job does not exist.
    Unknown,
}

/// Runs jobs that were delivered.
#[async_trait]
pub(crate) trait DeliverTurn: Send + Sync + 'static {
    async fn deliver(&self, session: &SessionId, job: &JobId) -> JobDelivery;

    async fn cancel(&self, session: &SessionId, job: &JobId) -> Result<JobDelivery, HandlerError>;
}

#[async_trait]
impl DeliverTurn for JobDeliveries {
    async fn deliver(&self, session: &SessionId, job: &JobId) -> JobDelivery {
        self.deliver(session, job).await
    }

    async fn cancel(&self, session: &SessionId, job: &JobId) -> Result<JobDelivery, HandlerError> {
        Ok(self.cancel(session, job).await?)
    }
}

/// No worker here runs the job now.
#[derive(Debug, thiserror::Error)]
#[error("this worker cannot run job {0} now; the job will be delivered again")]
struct Elsewhere(JobId);

/// The service of a worker. It is put together from the traits of the SDK, because its attribute fixes the name.
#[derive(Clone)]
pub(crate) struct Turns {
    pub(crate) deliveries: Arc<dyn DeliverTurn>,
    pub(crate) service: RestateService,
    pub(crate) env: RunEnv,
}

impl Turns {
    /// Returns the service with its name and its bounds.
    ///
    /// # Errors
    ///
    /// Returns an error if the SDK does not know this form of a service.
    pub(crate) fn into_service(self) -> Result<ServiceDefinition, serde_json::Error> {
        let payload = json!({ "contentType": "application/json", "required": true });
        let manifest = json!({
            "name": self.service.as_str(),
            "ty": "VIRTUAL_OBJECT",
            "documentation": "Loopwright sessions; the key is the session ID.",
            "handlers": [{
                "name": HANDLER,
                "ty": "EXCLUSIVE",
                "documentation": "Runs a job of the session. The job record is in the session store.",
                "input": payload,
            }],
            "inactivityTimeout": millis(INACTIVE),
            "abortTimeout": millis(LONGEST),
            "idempotencyRetention": millis(REMEMBERED),
            "journalRetention": millis(REMEMBERED),
            "retryPolicyInitialInterval": millis(FIRST_RETRY),
            "retryPolicyExponentiationFactor": 2.0,
            "retryPolicyMaxInterval": millis(MAX_RETRY),
            "retryPolicyMaxAttempts": UNBOUNDED,
            "retryPolicyOnMaxAttempts": "PAUSE",
        });
        Ok(service_definition(self, serde_json::from_value(manifest)?))
    }

    /// Makes an attempt. An error is not recorded: Restate delivers the invocation again.
    async fn attempt(&self, session: &SessionId, job: &JobId) -> Result<Json<Step>, HandlerError> {
        Ok(Json(match self.deliveries.deliver(session, job).await {
            JobDelivery::Ended(status) => Step::Ended(status),
            JobDelivery::NeedsInput { until: None, .. } => Step::Ended(JobStatus::NeedsInput),
            JobDelivery::NeedsInput { claim, until: Some(until) } => {
                Step::Waits { claim, millis: millis(until.since(self.env.clock.now())) }
            }
            JobDelivery::Later(delay) => Step::Later { millis: millis(delay) },
            JobDelivery::Elsewhere => return Err(Elsewhere(job.clone()).into()),
            JobDelivery::Unknown => Step::Unknown,
        }))
    }

    async fn cancel(&self, session: &SessionId, job: &JobId) -> Result<(), HandlerError> {
        match self.deliveries.cancel(session, job).await? {
            JobDelivery::Elsewhere => Err(Elsewhere(job.clone()).into()),
            _ => Ok(()),
        }
    }
}

impl Turns {
    /// Runs a job of the session that is the key of the object.
    async fn turn(
        &self,
        ctx: ObjectContext<'_>,
        Turn { job }: Turn,
    ) -> Result<Json<JobStatus>, HandlerError> {
        let unknown = |text: String| TerminalError::new_with_code(UNKNOWN, text);
        let session = SessionId::new(ctx.key()).map_err(|error| unknown(error.to_string()))?;
        loop {
            let step = ctx.run(|| self.attempt(&session, &job)).name("turn").await;
            let waited = match step {
                Ok(Json(Step::Ended(JobStatus::Failed))) => {
                    let text = format!("job {job} failed; the job record contains the reason");
                    return Err(TerminalError::new_with_code(FAILED, text).into());
                }
                Ok(Json(Step::Ended(status))) => return Ok(Json(status)),
                Ok(Json(Step::Unknown)) => {
                    return Err(unknown(format!("unknown job {job} of session {session}")).into());
                }
                Ok(Json(Step::Waits { claim, millis })) => {
                    let target = RequestTarget::object(self.service.as_str(), ctx.key(), HANDLER);
                    let again = ctx.request::<_, ()>(target, Json(Turn { job: job.clone() }));
                    let again = again.idempotency_key(format!("{job}#{claim} deadline"));
                    drop(again.send_after(Duration::from_millis(millis)));
                    return Ok(Json(JobStatus::NeedsInput));
                }
                Ok(Json(Step::Later { millis })) => ctx.sleep(Duration::from_millis(millis)).await,
                Err(error) => Err(error),
            };
            if let Err(error) = waited {
                if error.code() == CANCELLED {
                    ctx.run(|| self.cancel(&session, &job)).name("cancel").await?;
                }
                return Err(error.into());
            }
        }
    }
}

impl Service for Turns {
    type Future = BoxFuture<'static, Result<(), restate_sdk::endpoint::Error>>;

    fn handle(&self, ctx: ContextInternal) -> Self::Future {
        let turns = self.clone();
        Box::pin(async move {
            if ctx.handler_name() != HANDLER {
                let (service, handler) = (ctx.service_name(), ctx.handler_name());
                return Err(restate_sdk::endpoint::Error::unknown_handler(service, handler));
            }
            let (Json(turn), metadata) = ctx.input::<Json<Turn>>().await;
            let result = turns.turn((&ctx, metadata).into(), turn).await;
            ctx.handle_handler_result(result);
            ctx.end();
            Ok(())
        })
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
