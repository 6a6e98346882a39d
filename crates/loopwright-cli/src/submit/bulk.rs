//! `submit --bulk`: many jobs from lines of JSON.

use std::path::Path;

use loopwright_core::{Timestamp, messages::Message};
use loopwright_sessions::{Job, JobId, JobLabels, Scheduler, SessionId, SessionStatus};
use serde::Deserialize;

use super::{check_same, job_session, tell_submitted};
use crate::args::jobs::SubmitArgs;
use crate::conversation::Conversation;
use crate::exit::ExitCode;
use crate::loops::maintenance_runtime;
use crate::session::{SessionsError, now};

/// The number of jobs that are pushed together.
const AT_ONCE: usize = 256;

/// A line of the file.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobLine {
    prompt: String,
    /// `None` creates a session.
    session: Option<SessionId>,
    id: Option<JobId>,
    needs: Option<JobLabels>,
    priority: Option<i32>,
    start_at: Option<Timestamp>,
}

impl JobLine {
    /// Creates the job of a session. The options of the command apply to what the line does not set.
    fn job(&self, session: SessionId, args: &SubmitArgs) -> Job {
        let job = args.placed(Job::send_message(session, Message::user(&*self.prompt)), now());
        Job {
            id: self.id.clone().unwrap_or(job.id),
            needs: self.needs.clone().unwrap_or(job.needs),
            priority: self.priority.unwrap_or(job.priority),
            start_at: self.start_at.or(job.start_at),
            ..job
        }
    }
}

/// Pushes the jobs of a file. If a line is invalid, pushes none.
pub(super) async fn submit(
    args: &SubmitArgs,
    file: &Path,
    scheduler: &dyn Scheduler,
    conversation: &Conversation,
    is_json: bool,
) -> Result<ExitCode, SessionsError> {
    let lines = read(file).await?;
    let mut exit_code = ExitCode::Done;
    for lines in lines.chunks(AT_ONCE) {
        let mut jobs = Vec::with_capacity(lines.len());
        for line in lines {
            let session = session(line, scheduler, conversation).await?;
            jobs.push(line.job(session, args));
        }
        let are_new = scheduler.push_all(&jobs, now()).await?;
        for ((job, line), is_new) in jobs.iter().zip(lines).zip(are_new) {
            let record = super::found(scheduler, job).await?;
            if !is_new {
                check_same(&record, line.session.as_ref(), Some(&line.prompt))?;
            }
            exit_code = tell_submitted(&record, is_json);
        }
    }
    Ok(exit_code)
}

/// Returns the session of a line, which is created if the line names none.
async fn session(
    line: &JobLine,
    scheduler: &dyn Scheduler,
    conversation: &Conversation,
) -> Result<SessionId, SessionsError> {
    let store = &conversation.store;
    if let Some(session) = &line.session {
        let header = store.header(session).await?;
        return match header.map(|it| it.status) {
            Some(SessionStatus::Active) => Ok(session.clone()),
            Some(status) => Err(SessionsError::NotActive { id: session.clone(), status }),
            None => Err(loopwright_sessions::StoreError::NotFound(session.clone()).into()),
        };
    }
    let make = |session: &SessionId| conversation.session(session, None);
    let Some(id) = &line.id else {
        let session = SessionId::generate();
        maintenance_runtime(store).create(make(&session)).await?;
        return Ok(session);
    };
    match scheduler.job(id).await? {
        Some(record) => Ok(record.job.session),
        None => Ok(job_session::open(store, scheduler, id, make).await?),
    }
}

async fn read(file: &Path) -> Result<Vec<JobLine>, SessionsError> {
    let is_input = file == Path::new("-");
    let path = file.to_owned();
    let text = tokio::task::spawn_blocking(move || {
        if is_input {
            std::io::read_to_string(std::io::stdin())
        } else {
            std::fs::read_to_string(path)
        }
    });
    let text = text.await.map_err(std::io::Error::other).and_then(|it| it);
    let name = file.display();
    let text =
        text.map_err(|error| SessionsError::Usage(format!("cannot read `{name}`: {error}")))?;
    parse(&text)
        .map_err(|error| SessionsError::Usage(format!("`{name}`, {error}; no job was submitted")))
}

/// Parses lines; empty ones are skipped.
fn parse(text: &str) -> Result<Vec<JobLine>, String> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let parse = |(line, number): (&str, usize)| {
        let line: JobLine =
            serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        if line.prompt.trim().is_empty() {
            return Err(format!("line {number}: the prompt is empty"));
        }
        Ok(line)
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_job_and_an_invalid_line_is_named() {
        let lines =
            parse("{\"prompt\":\"a\"}\n\n{\"prompt\":\"b\",\"needs\":[\"gpu\"],\"priority\":-2}\n")
                .unwrap();
        let [first, second] = &lines[..] else { panic!("{lines:?}") };
        let expect = (None, Some("gpu".parse().unwrap()), Some(-2));
        assert_eq!((first.priority, second.needs.clone(), second.priority), expect);
        let refused = parse("{\"prompt\":\"a\"}\n{\"promt\":\"b\"}").unwrap_err();
        assert!(refused.starts_with("line 2: unknown field `promt`"), "{refused}");
        assert_eq!(parse("{\"prompt\":\" \"}").unwrap_err(), "line 1: the prompt is empty");
    }
}
