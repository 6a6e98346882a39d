//! Schedules: jobs at set times.

use std::sync::Arc;

use loopwright_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    id::{InvalidJobId, JobId, SessionId},
    jobs::{Job, JobTask},
    labels::JobLabels,
};

/// A schedule: a job for each of its times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The name. IDs of its jobs begin with it.
    pub name: JobId,
    /// The times in UTC, as a cron pattern.
    pub cron: Arc<str>,
    /// The session.
    pub session: SessionId,
    /// Where its jobs run.
    pub runs_in: ScheduleSession,
    /// The task of its jobs.
    pub task: JobTask,
    /// The labels that a worker needs to run them.
    #[serde(default, skip_serializing_if = "JobLabels::is_empty")]
    pub needs: JobLabels,
    /// Their priority.
    #[serde(default)]
    pub priority: i32,
    /// The next time.
    pub next_at: Timestamp,
}

/// The session of a job of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleSession {
    /// The session of the schedule, which has the messages of all its jobs.
    Same,
    /// A new fork of the session of the schedule for each job.
    Fork,
}

impl Schedule {
    /// Returns the job of its next time, in a session.
    ///
    /// # Errors
    ///
    /// Returns an error if the name of the schedule is too long.
    pub fn next_job(&self, session: SessionId) -> Result<Job, InvalidJobId> {
        let time = self.next_at.to_string();
        let time: String = time.chars().filter(char::is_ascii_alphanumeric).collect();
        let id = JobId::new(format!("{}-{time}", self.name))?;
        let job = match &self.task {
            JobTask::SendMessage(message) => Job::send_message(session, message.clone()),
            JobTask::Resume => Job::resume(session),
        };
        Ok(job.with_id(id).with_needs(self.needs.clone()).with_priority(self.priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_schedule_are_named_after_it_and_their_time() {
        let session = SessionId::new("a").unwrap();
        let schedule = Schedule {
            name: JobId::new("nightly").unwrap(),
            cron: "0 7 * * *".into(),
            session: session.clone(),
            runs_in: ScheduleSession::Same,
            task: JobTask::Resume,
            needs: "gpu".parse().unwrap(),
            priority: 3,
            next_at: Timestamp::from_millis(1_800_000_000_000),
        };
        let job = schedule.next_job(session.clone()).unwrap();
        assert_eq!(job.id.as_str(), "nightly-20270115T080000000Z");
        let expect =
            Job::resume(session.clone()).with_needs("gpu".parse().unwrap()).with_priority(3);
        assert_eq!(job, expect.with_id(job.id.clone()));
        let long = Schedule { name: JobId::new("x".repeat(120)).unwrap(), ..schedule };
        assert!(long.next_job(session).is_err());
    }
}
