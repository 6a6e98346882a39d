//! The session of a job that names none.

use std::sync::Arc;

use loopwright_sessions::{
    AgentSession, JobId, JobQuery, Scheduler, SessionError, SessionHeader, SessionId, SessionStore,
    StoreError,
};

use crate::loops::maintenance_runtime;

/// Creates the session of a job with a chosen ID, and returns its name. If an earlier attempt ended after it created
/// the session and before it pushed the job, takes that session.
///
/// The names are derived from the ID of the job. The first one counts that no other session has: IDs of jobs are free
/// again when jobs are deleted, those of sessions are not.
///
/// # Errors
///
/// Returns an error if the store fails.
pub(super) async fn open(
    store: &Arc<dyn SessionStore>,
    queue: &dyn Scheduler,
    job: &JobId,
    make: impl Fn(&SessionId) -> AgentSession,
) -> Result<SessionId, SessionError> {
    let mut attempt = 0_u64;
    loop {
        let id = SessionId::derived_tagged(None, &format!("job {job} {attempt}"));
        let Some(header) = store.header(&id).await? else {
            match maintenance_runtime(store).create(make(&id)).await {
                Ok(_) => return Ok(id),
                // Another process created it at the same time.
                Err(SessionError::Store(StoreError::Exists(_))) => continue,
                Err(error) => return Err(error),
            }
        };
        if is_left_over(store, queue, &header, &make(&id)).await? {
            return Ok(id);
        }
        // Another process may have pushed the job in the meantime.
        if let Some(record) = queue.job(job).await? {
            return Ok(record.job.session);
        }
        attempt += 1;
    }
}

/// Returns `true` if a session is as it was created, is equal to a new one and has no jobs.
async fn is_left_over(
    store: &Arc<dyn SessionStore>,
    queue: &dyn Scheduler,
    header: &SessionHeader,
    new: &AgentSession,
) -> Result<bool, SessionError> {
    let is_untouched = header.version == 1 && header.status == new.status();
    if !is_untouched || header.workdir != new.header().workdir {
        return Ok(false);
    }
    let query = JobQuery { session: Some(header.id.clone()), ..JobQuery::last(1) };
    if !queue.records(&query).await?.is_empty() {
        return Ok(false);
    }
    let found = maintenance_runtime(store).session(&header.id).await?;
    let (left, wanted) = (found.state(), new.state());
    // What else a state holds is empty at version 1, or a time.
    let is_same_state = left.context() == wanted.context() && left.budget() == wanted.budget();
    Ok(is_same_state && found.definition() == new.definition())
}

#[cfg(test)]
mod tests {
    use loopwright_agent::AgentDefinition;
    use loopwright_core::{AgentState, messages::Message};
    use loopwright_sessions::{Job, SessionFactory, SessionRepository};
    use tempfile::TempDir;

    use super::*;
    use crate::session::now;

    struct Place {
        store: Arc<dyn SessionStore>,
        job: JobId,
        _folder: TempDir,
    }

    impl Place {
        async fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let url = format!("sqlite:{}", folder.path().join("sessions.db").display());
            let store = loopwright_store_sql::open(&url).await.unwrap();
            Self { store, job: JobId::new("nightly").unwrap(), _folder: folder }
        }

        async fn open(&self, instructions: &str) -> SessionId {
            let make = |id: &SessionId| {
                let definition = AgentDefinition::new("main", "Works.", instructions);
                let factory = SessionFactory::new();
                factory
                    .create_from(definition, AgentState::new(), id.clone(), now())
                    .with_workdir("/project")
            };
            open(&self.store, self.store.jobs().unwrap(), &self.job, make).await.unwrap()
        }

        async fn push(&self, session: &SessionId, id: &str) {
            let job = Job::send_message(session.clone(), Message::user("Hello."));
            let job = job.with_id(JobId::new(id).unwrap());
            assert!(self.store.jobs().unwrap().push(&job, now()).await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_repeated_attempt_takes_the_session_that_the_first_one_created() {
        let place = Place::new().await;
        let first = place.open("Be brief.").await;
        assert_eq!(place.open("Be brief.").await, first);
    }

    #[tokio::test]
    async fn a_session_of_other_instructions_is_not_taken() {
        let place = Place::new().await;
        let first = place.open("Be brief.").await;
        let second = place.open("Be polite.").await;
        assert_ne!(second, first);
        assert_eq!(place.open("Be polite.").await, second);
    }

    #[tokio::test]
    async fn a_session_with_a_job_is_not_taken() {
        let place = Place::new().await;
        let first = place.open("Be brief.").await;
        place.push(&first, "another").await;
        assert_ne!(place.open("Be brief.").await, first);
    }

    #[tokio::test]
    async fn a_session_that_was_written_or_deleted_is_not_taken() {
        let place = Place::new().await;
        let first = place.open("Be brief.").await;
        let runtime = maintenance_runtime(&place.store);
        let session = runtime.session(&first).await.unwrap();
        let state = session.state().clone().with_message(Message::user("Hello."));
        SessionRepository::new(Arc::clone(&place.store))
            .save(session.with_state(state))
            .await
            .unwrap();
        let second = place.open("Be brief.").await;
        place.store.delete(&second, now()).await.unwrap();
        let third = place.open("Be brief.").await;
        assert!(first != second && second != third && third != first);
    }
}
