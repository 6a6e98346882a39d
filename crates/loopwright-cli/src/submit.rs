//! `loopwright submit`.

mod bulk;
mod job_session;

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use loopwright_core::messages::Message;
use loopwright_sandbox::BroadFolder;
use loopwright_sessions::{
    AgentSession, Job, JobRecord, JobStatus, JobTask, Scheduler, SessionId, SessionRepository,
    SessionStatus, StoreError,
};
use serde_json::json;

use crate::args::jobs::SubmitArgs;
use crate::args::{Cli, LimitArgs, OnAskArg, PermissionArgs};
use crate::config::OutputFormat;
use crate::console;
use crate::conversation::Conversation;
use crate::exit::ExitCode;
use crate::jobs::scheduler;
use crate::loops::maintenance_runtime;
use crate::prompt::PromptSource;
use crate::report::{Report, SCHEMA_VERSION};
use crate::run::with_runtime;
use crate::session::{SessionsError, now};
use crate::snapshots::SessionSnapshots;
use crate::startup::{StartError, Startup};

/// How often a job that is followed is looked at.
const LOOKS: Duration = Duration::from_millis(200);

/// How long a job waits for a worker before the user is told.
const UNCLAIMED: Duration = Duration::from_secs(3);

/// Leaves something for a worker to do.
pub fn submit(cli: &Cli, args: &SubmitArgs) -> ExitCode {
    let mut opening = match Startup::begin(cli, &args.agent, &args.session_args()) {
        Ok(opening) => opening,
        Err(exit_code) => return exit_code,
    };
    with_runtime(async {
        let done = Box::pin(perform(cli, args, &mut opening)).await;
        done.unwrap_or_else(|refusal| refusal.tell(opening.stage))
    })
}

async fn perform(
    cli: &Cli,
    args: &SubmitArgs,
    opening: &mut Startup,
) -> Result<ExitCode, StartError> {
    check_kept(args)?;
    let prompt = match args.bulk {
        Some(_) => None,
        None => args.prompt().map(PromptSource::read_stdin).transpose()?,
    };
    let mut conversation =
        opening.conversation(cli, &args.agent, &args.session_args(), "run").await?;
    let store = std::sync::Arc::clone(&conversation.store);
    let queue = scheduler(&*store)?;
    let is_json = opening.stage.format != OutputFormat::Text;
    if let Some(file) = &args.bulk {
        return Ok(bulk::submit(args, file, queue, &conversation, is_json).await?);
    }
    let record = if let Some(record) = pushed(args, queue).await? {
        check_same(&record, conversation.session.as_ref(), prompt.as_deref())?;
        record
    } else {
        let home = opening.sources.home.as_deref();
        push(args, queue, &mut conversation, prompt.as_deref(), home).await?
    };
    if !args.follow {
        return Ok(tell_submitted(&record, is_json));
    }
    let began = Instant::now();
    let record = followed(queue, &record).await?;
    tell_end(&conversation, &record, began.elapsed(), is_json).await
}

/// Prints the job and its session.
fn tell_submitted(record: &JobRecord, is_json: bool) -> ExitCode {
    let Job { id, session, .. } = &record.job;
    if is_json {
        return console::print_json(&json!({
            "schema_version": SCHEMA_VERSION, "type": "submitted",
            "job": id, "session_id": session, "status": record.status,
        }));
    }
    console::print(format!("{id} {session}\n").as_bytes())
}

/// Checks that nothing is typed that no worker would see: permissions are those of the worker, and a session keeps its own
/// prompt and limits.
pub(crate) fn check_kept(args: &SubmitArgs) -> Result<(), SessionsError> {
    if args.agent.permissions != PermissionArgs::default()
        || args.agent.on_ask != OnAskArg::default()
        || args.agent.answer_within.is_some()
    {
        return Err(SessionsError::Usage(
            "jobs have the permissions of the worker; pass these options to `loopwright worker`, or store them \
             in the configuration"
                .to_owned(),
        ));
    }
    let Some(session) = args.named() else { return Ok(()) };
    let (limits, system) = (&args.agent.limits, args.agent.system_prompt.as_ref());
    let what = match system {
        Some(_) => "`--system-prompt` is",
        None if *limits != LimitArgs::default() => "limits are",
        None => return Ok(()),
    };
    let text = format!(
        "{what} only for new sessions, and workers use the settings of the session; omit these options, \
            or use `loopwright run --resume {session}`"
    );
    Err(SessionsError::Usage(text))
}

/// Finds what was submitted under that name before.
async fn pushed(
    args: &SubmitArgs,
    queue: &dyn Scheduler,
) -> Result<Option<JobRecord>, SessionsError> {
    match &args.id {
        Some(id) => Ok(queue.job(id).await?),
        None => Ok(None),
    }
}

/// Checks that what was submitted under that name is what is submitted now.
fn check_same(
    record: &JobRecord,
    session: Option<&SessionId>,
    said: Option<&str>,
) -> Result<(), SessionsError> {
    let Job { id, session: before, task, .. } = &record.job;
    let is_same_task = match (task, said) {
        (JobTask::SendMessage(message), Some(said)) => message.text() == said,
        (JobTask::Resume, None) => true,
        _ => false,
    };
    if is_same_task && session.is_none_or(|it| it == before) {
        return Ok(());
    }
    let text =
        format!("job ID `{id}` belongs to another job, in session {before}; choose another ID");
    Err(SessionsError::Usage(text))
}

async fn push(
    args: &SubmitArgs,
    queue: &dyn Scheduler,
    conversation: &mut Conversation,
    said: Option<&str>,
    home: Option<&Path>,
) -> Result<JobRecord, SessionsError> {
    let dirs = session_dirs(args)?;
    let snapshots = SessionSnapshots::open(&args.snapshots, dirs.as_deref())?;
    if snapshots.is_some() {
        refuse_broad(conversation.setup.workdir.path(), home)?;
    }
    let session = match (&conversation.session, &args.id, &snapshots) {
        (Some(_), _, Some(_)) => {
            let text = "`--session-dirs` is only for new sessions; omit it, and a session keeps its directory";
            return Err(SessionsError::Usage(text.to_owned()));
        }
        (Some(session), _, None) => session.clone(),
        (None, Some(id), _) => {
            let make = |session: &SessionId| made(conversation, snapshots.as_ref(), session);
            job_session::open(&conversation.store, queue, id, make).await?
        }
        (None, None, Some(_)) => {
            let id = SessionId::generate();
            let session = made(conversation, snapshots.as_ref(), &id);
            maintenance_runtime(&conversation.store).create(session).await?;
            conversation.session = Some(id.clone());
            id
        }
        (None, None, None) => conversation.begin().await?,
    };
    if let Some(snapshots) = &snapshots
        && let Some(header) = conversation.store.header(&session).await?
    {
        let folder = conversation.setup.workdir.path();
        snapshots.upload(&*conversation.store, &header, folder).await?;
    }
    let status = conversation.store.header(&session).await?.map(|it| it.status);
    if let Some(status) = status.filter(|it| *it != SessionStatus::Active) {
        return Err(SessionsError::NotActive { id: session, status });
    }
    let job = match said {
        Some(said) => Job::send_message(session, Message::user(said)),
        None => Job::resume(session),
    };
    let mut job = args.placed(job, now());
    if let Some(id) = &args.id {
        job = job.with_id(id.clone());
    }
    let is_new = queue.push(&job, now()).await?;
    let record = found(queue, &job).await?;
    if !is_new {
        check_same(&record, None, said)?;
    }
    Ok(record)
}

/// Returns the directory of the sessions' own directories, which need not exist on this machine.
fn session_dirs(args: &SubmitArgs) -> Result<Option<PathBuf>, SessionsError> {
    let Some(dirs) = args.session_dirs.as_deref() else { return Ok(None) };
    if dirs.components().any(|it| it == Component::ParentDir) {
        let text = format!(
            "`--session-dirs {}` contains `..`; pass the path that all machines have",
            dirs.display()
        );
        return Err(SessionsError::Usage(text));
    }
    let dirs =
        std::path::absolute(dirs).map_err(|error| SessionsError::Usage(error.to_string()))?;
    Ok(Some(dirs))
}

/// Refuses to copy a directory that holds more than a project.
fn refuse_broad(folder: &Path, home: Option<&Path>) -> Result<(), SessionsError> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let home = home.and_then(|it| it.canonicalize().ok());
    if BroadFolder::of(&folder, home.as_deref()).is_none() {
        return Ok(());
    }
    let text = format!(
        "`{}` contains more than a project, so it is not copied; choose the directory of a project with `-C`",
        folder.display()
    );
    Err(SessionsError::Usage(text))
}

/// Makes a new session, in its own directory if it is to have a copy of the current one.
fn made(
    conversation: &Conversation,
    snapshots: Option<&SessionSnapshots>,
    id: &SessionId,
) -> AgentSession {
    let session = conversation.session(id, None);
    match snapshots {
        Some(snapshots) => session.with_workdir(snapshots.dir_of(id)),
        None => session,
    }
}

async fn found(queue: &dyn Scheduler, job: &Job) -> Result<JobRecord, SessionsError> {
    let gone = || StoreError::Unavailable(format!("job {} was deleted", job.id).into());
    Ok(queue.job(&job.id).await?.ok_or_else(gone)?)
}

/// Waits until a job has ended.
async fn followed(queue: &dyn Scheduler, record: &JobRecord) -> Result<JobRecord, SessionsError> {
    let mut began = Some(Instant::now());
    loop {
        let record = found(queue, &record.job).await?;
        if record.status.is_over() {
            return Ok(record);
        }
        let is_due = record.job.start_at.is_none_or(|at| at <= now());
        if record.status != JobStatus::Queued || !is_due {
            began = None;
        } else if began.is_some_and(|it| it.elapsed() >= UNCLAIMED) {
            began = None;
            console::tell("no worker has taken the job yet; start one with `loopwright worker`");
        }
        tokio::time::sleep(LOOKS).await;
    }
}

/// Prints the answer, or says why there is none.
async fn tell_end(
    conversation: &Conversation,
    record: &JobRecord,
    took: Duration,
    is_json: bool,
) -> Result<ExitCode, StartError> {
    let session: &SessionId = &record.job.session;
    let repository = SessionRepository::new(std::sync::Arc::clone(&conversation.store));
    let loaded = repository.load(session).await.map_err(SessionsError::from)?;
    let mut report = Report::of(Some(session), loaded.state(), None, took).of_session(session);
    let is_refused = record.status == JobStatus::Failed && report.exit_code == ExitCode::Done;
    if is_refused {
        let reason = record.reason.as_deref().unwrap_or_default().to_owned();
        report = Report::refused(ExitCode::Internal, "session", reason).of_session(session);
    }
    if is_json {
        let text = crate::render::json_line(&report).map_err(StartError::internal)?;
        let _told = console::print(format!("{text}\n").as_bytes());
    } else if !report.text.is_empty() {
        let _told = console::print_text(&format!("{}\n", report.text));
    }
    if record.status != JobStatus::Completed {
        let reason = record.reason.as_deref().unwrap_or("no reason given");
        console::tell(&format!("{}: {}", record.status, crate::render::sanitize_terminal(reason)));
    }
    Ok(report.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_holds_more_than_a_project_is_not_copied() {
        let world = tempfile::tempdir().unwrap();
        let project = world.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let home = Some(world.path());
        assert!(refuse_broad(&project, home).is_ok());
        let refused = [Path::new("/"), world.path()].map(|it| refuse_broad(it, home).is_err());
        assert_eq!(refused, [true, true]);
    }
}
