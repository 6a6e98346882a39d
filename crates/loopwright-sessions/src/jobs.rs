//! Jobs: work on sessions for any free worker.

use std::{fmt, sync::Arc};

use loopwright_core::{Timestamp, messages::Message};
use serde::{Deserialize, Serialize};

use crate::{
    id::{JobId, SessionId},
    labels::JobLabels,
};

/// A job for a session. The session defines the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The ID.
    pub id: JobId,
    /// The session.
    pub session: SessionId,
    /// The task.
    pub task: JobTask,
    /// The labels that a worker needs to run it.
    #[serde(default, skip_serializing_if = "JobLabels::is_empty")]
    pub needs: JobLabels,
    /// The priority; 0 by default. Jobs with a higher one start first.
    #[serde(default)]
    pub priority: i32,
    /// The earliest start. `None` starts as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
}

impl Job {
    /// Creates a job that sends a message to a session's agent.
    pub fn send_message(session: SessionId, message: impl Into<Message>) -> Self {
        Self::new(session, JobTask::SendMessage(message.into()))
    }

    /// Creates a job that resumes a session.
    pub fn resume(session: SessionId) -> Self {
        Self::new(session, JobTask::Resume)
    }

    fn new(session: SessionId, task: JobTask) -> Self {
        let (id, needs) = (JobId::generate(), JobLabels::default());
        Self { id, session, task, needs, priority: 0, start_at: None }
    }

    /// Sets the ID.
    #[must_use]
    pub fn with_id(self, id: JobId) -> Self {
        Self { id, ..self }
    }

    /// Sets the labels that a worker needs to run it.
    #[must_use]
    pub fn with_needs(self, needs: JobLabels) -> Self {
        Self { needs, ..self }
    }

    /// Sets the priority. Jobs with a higher one start first.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// Sets the earliest start. Until then, later jobs of its session do not wait for it.
    #[must_use]
    pub fn with_start_at(self, at: Timestamp) -> Self {
        Self { start_at: Some(at), ..self }
    }
}

/// The task of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobTask {
    /// Sends this message to the agent and runs it.
    SendMessage(Message),
    /// Resumes an execution that was interrupted, stopped or failed.
    Resume,
}

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// The job waits for a worker.
    Queued,
    /// A worker is processing it.
    Running,
    /// The agent answered.
    Completed,
    /// The session waits for a decision; the job has ended.
    NeedsInput,
    /// A limit or a user stopped the agent.
    Stopped,
    /// The job was refused or abandoned.
    Failed,
}

impl JobStatus {
    /// All statuses.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Running,
        Self::Completed,
        Self::NeedsInput,
        Self::Stopped,
        Self::Failed,
    ];

    /// Returns the name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::NeedsInput => "needs_input",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// Parses the name of a status.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Returns `true` if the job has ended.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub job: Job,
    /// The status.
    pub status: JobStatus,
    /// The number of claims.
    pub claims: u64,
    /// The number of failed attempts with a retry.
    pub attempts: u32,
    /// The number of holders that exited before the job ended.
    pub crashes: u32,
    /// The time from which the job can run.
    pub ready_at: Timestamp,
    /// The holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Arc<str>>,
    /// The reason for the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The time at which the job was pushed.
    pub created_at: Timestamp,
    /// The time of the last change of status.
    pub updated_at: Timestamp,
}

/// A claimed job.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedJob {
    /// The job.
    pub job: Job,
    /// The number of the claim among all claims on the job. A later one ends an earlier one.
    pub claim: u64,
    /// The number of failed attempts with a retry.
    pub attempts: u32,
    /// The number of holders that exited before the job ended.
    pub crashes: u32,
}

/// The outcome of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The agent answered.
    Done,
    /// The session waits for a decision about this.
    NeedsInput(Arc<str>),
    /// The agent was stopped, for this reason.
    Stopped(Arc<str>),
    /// It was refused or abandoned, for this reason.
    Failed(Arc<str>),
    /// It failed and is tried again.
    Retry {
        /// The time of the next attempt.
        at: Timestamp,
        /// The reason for the failure.
        reason: Arc<str>,
    },
    /// It was not changed, so that another worker can resume it.
    Released,
}

impl JobOutcome {
    /// Returns the status after this outcome.
    pub fn status(&self) -> JobStatus {
        match self {
            Self::Done => JobStatus::Completed,
            Self::NeedsInput(_) => JobStatus::NeedsInput,
            Self::Stopped(_) => JobStatus::Stopped,
            Self::Failed(_) => JobStatus::Failed,
            Self::Retry { .. } | Self::Released => JobStatus::Queued,
        }
    }

    /// Returns the reason; `None` without one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::NeedsInput(reason)
            | Self::Stopped(reason)
            | Self::Failed(reason)
            | Self::Retry { reason, .. } => Some(reason),
            Self::Done | Self::Released => None,
        }
    }
}

/// A query for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs of this session.
    pub session: Option<SessionId>,
    /// Only jobs that were added before this one; none if it does not exist.
    pub before: Option<JobId>,
    /// The maximum number of results.
    pub limit: usize,
}

impl JobQuery {
    /// Creates a query for the newest jobs, up to a limit.
    pub fn last(limit: usize) -> Self {
        Self { status: None, session: None, before: None, limit }
    }
}
