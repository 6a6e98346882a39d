//! Jobs: what is to be done with sessions by whichever worker is free.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_core::{Timestamp, messages::Message};
use serde::{Deserialize, Serialize};

use crate::{
    id::{JobId, SessionId},
    store::StoreError,
};

/// A queue of jobs beside the sessions that they are about.
///
/// A job is delivered at least once: a caller that claims it and dies leaves it to another one. Jobs of one
/// session are delivered one after the other, in the order in which they were pushed; one that waits to
/// be tried again keeps the later ones waiting. A queue that many machines use measures by a clock of its own when
/// claims end and jobs are ready. What was acknowledged survives a crash of the machine.
/// [`conformance::JOB_CASES`](crate::conformance::JOB_CASES) says all this in tests.
#[async_trait]
pub trait JobQueue: Send + Sync {
    /// Adds a job, and tells whether it is new: one whose name is there already stays as it was.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if there is no such session.
    async fn push(&self, job: &Job, now: Timestamp) -> Result<bool, StoreError>;

    /// Takes the oldest job that may be done now, until some moment; `None` if there is none.
    ///
    /// A job whose holder did not [`renew`](JobQueue::renew) it in time may be done now.
    async fn claim(
        &self,
        owner: &str,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Option<ClaimedJob>, StoreError>;

    /// Keeps all jobs of a holder for longer, and returns how many there are.
    async fn renew(&self, owner: &str, now: Timestamp, lasts: Duration) -> Result<u64, StoreError>;

    /// Returns `true` if no other process has claimed a job since, and nobody ended it.
    async fn holds(&self, claimed: &ClaimedJob) -> Result<bool, StoreError>;

    /// Says how it went; tells whether the job was still held, for nothing is changed otherwise.
    async fn settle(
        &self,
        claimed: &ClaimedJob,
        outcome: &JobOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Ends the jobs of a session that wait for a decision, because it was made and the session went on. Returns how
    /// many there were.
    async fn answered(
        &self,
        session: &SessionId,
        outcome: &JobOutcome,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Returns who holds jobs.
    async fn holders(&self) -> Result<Vec<Arc<str>>, StoreError>;

    /// Lets others claim what a holder has, because it is gone. Returns how many jobs there were.
    async fn release_all(&self, owner: &str, now: Timestamp) -> Result<u64, StoreError>;

    /// Returns what is known of a job; `None` if there is none.
    async fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError>;

    /// Returns what is known of at most so many jobs, those pushed last first.
    async fn records(&self, query: &JobQuery) -> Result<Vec<JobRecord>, StoreError>;

    /// Returns how many jobs there are of a status.
    async fn count(&self, status: JobStatus) -> Result<u64, StoreError>;

    /// Forgets jobs that are over and last changed their status before some moment, and returns how many.
    /// Their names are free again.
    async fn delete_finished(&self, before: Timestamp) -> Result<u64, StoreError>;
}

/// What is to be done with a session. The session itself says which agent does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// The session.
    pub session: SessionId,
    /// What to do.
    pub task: JobTask,
}

impl Job {
    /// Says something to a session's agent.
    pub fn send_message(session: SessionId, message: impl Into<Message>) -> Self {
        Self { id: JobId::generate(), session, task: JobTask::SendMessage(message.into()) }
    }

    /// Continues with a session.
    pub fn resume(session: SessionId) -> Self {
        Self { id: JobId::generate(), session, task: JobTask::Resume }
    }

    /// Names it.
    #[must_use]
    pub fn with_id(self, id: JobId) -> Self {
        Self { id, ..self }
    }
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobTask {
    /// It says this to the agent, and lets it answer.
    SendMessage(Message),
    /// It lets the agent resume what was interrupted, stopped or failed.
    Resume,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It waits for a worker.
    Queued,
    /// A worker is processing it.
    Running,
    /// The agent answered.
    Completed,
    /// The session waits for a decision; the job has ended.
    NeedsInput,
    /// A limit or somebody stopped the agent.
    Stopped,
    /// It was refused, or given up.
    Failed,
}

impl JobStatus {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Running,
        Self::Completed,
        Self::NeedsInput,
        Self::Stopped,
        Self::Failed,
    ];

    /// Returns the status as it is written.
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

    /// Finds a status by its word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Returns `true` if nothing more is going to happen.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub job: Job,
    /// Where it stands.
    pub status: JobStatus,
    /// How often somebody claimed it.
    pub claims: u64,
    /// How often it failed and was to be tried again.
    pub attempts: u32,
    /// How often a caller that had it was gone before it was done.
    pub crashes: u32,
    /// When it may be done.
    pub ready_at: Timestamp,
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Arc<str>>,
    /// Why it stands where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// When it last changed its status.
    pub updated_at: Timestamp,
}

/// A job that a caller is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedJob {
    /// The job.
    pub job: Job,
    /// Which of all claims on it this is. A later one ends an earlier one.
    pub claim: u64,
    /// How often it failed and was to be tried again.
    pub attempts: u32,
    /// How often a caller that had it was gone before it was done.
    pub crashes: u32,
}

/// How it went with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The agent answered.
    Done,
    /// The session waits for a decision about this.
    NeedsInput(Arc<str>),
    /// The agent was stopped, for this reason.
    Stopped(Arc<str>),
    /// It was refused or given up, for this reason.
    Failed(Arc<str>),
    /// It failed and is to be tried again.
    Retry {
        /// When.
        at: Timestamp,
        /// Why it failed.
        reason: Arc<str>,
    },
    /// It was not changed, for another process to resume.
    Released,
}

impl JobOutcome {
    /// Returns where the job stands then.
    pub fn status(&self) -> JobStatus {
        match self {
            Self::Done => JobStatus::Completed,
            Self::NeedsInput(_) => JobStatus::NeedsInput,
            Self::Stopped(_) => JobStatus::Stopped,
            Self::Failed(_) => JobStatus::Failed,
            Self::Retry { .. } | Self::Released => JobStatus::Queued,
        }
    }

    /// Returns the reason, if there is one.
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

/// Which jobs are listed, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    /// Those with this status only.
    pub status: Option<JobStatus>,
    /// Those of this session only.
    pub session: Option<SessionId>,
    /// The most that are returned.
    pub limit: usize,
}

impl JobQuery {
    /// Asks for the last so many jobs.
    pub fn last(limit: usize) -> Self {
        Self { status: None, session: None, limit }
    }
}
