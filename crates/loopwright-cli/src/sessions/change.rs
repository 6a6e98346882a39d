//! Commands that change sessions.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use loopwright_capabilities::files::UndoOutcome;
use loopwright_sessions::{
    FileCall, Lease, LeaseRequest, Owner, ResumeSession, SessionHeader, SessionStore, StoreError,
    SuspendSession, UnknownChanges,
};

use crate::args::session::ForkRef;
use crate::args::sessions::{DeleteArgs, RewindArgs, SessionIdsArgs};
use crate::console;
use crate::exit::ExitCode;
use crate::loops::maintenance_runtime;
use crate::render::{sanitize_terminal, single_line};
use crate::session::{SessionsError, find, is_for_session, now, short};
use crate::tools;

/// How long a session is held for what has ended at once.
const MOMENT: std::time::Duration = std::time::Duration::from_secs(10);

/// How many calls are named whose changes are unknown.
const MAX_UNKNOWN: usize = 10;

/// What is done with each of several sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Stop,
    Cancel,
    Suspend,
    Resume,
}

/// Makes another session that begins like one, and prints its name.
pub(super) async fn fork(
    store: &Arc<dyn SessionStore>,
    from: &ForkRef,
) -> Result<ExitCode, SessionsError> {
    let source = find(&**store, &from.id).await?;
    let fork = maintenance_runtime(store).fork(&source.id, from.step, None).await?;
    Ok(console::print(format!("{}\n", fork.id).as_bytes()))
}

/// Goes back to the end of a step.
pub(super) async fn rewind(
    store: &Arc<dyn SessionStore>,
    args: &RewindArgs,
) -> Result<ExitCode, SessionsError> {
    let header = find(&**store, &args.id.id).await?;
    let runtime = maintenance_runtime(store);
    let (mut unrecorded, mut unknown) = (Vec::new(), Vec::new());
    let session = if args.files {
        unrecorded = runtime.unrecorded_files(&header.id, args.step).await?;
        unknown = runtime.unknown_changes(&header.id, args.step).await?;
        let path = header.workdir.as_deref().map(PathBuf::from).unwrap_or_default();
        let root = tools::workdir(&path).map_err(|source| SessionsError::Workdir {
            id: header.id.clone(),
            path,
            source,
        })?;
        let (session, undone) = runtime.rewind_files(&header.id, args.step, &root).await?;
        tell_undone(&undone);
        if undone.is_empty() {
            console::tell("no file changes to undo");
        }
        session
    } else {
        runtime.rewind(&header.id, args.step).await?
    };
    let steps = session.state().total_steps();
    let id = short(&header.id);
    console::tell(&format!("session {id} rewound to the end of step {steps}"));
    tell_unrecorded(&header, &unrecorded);
    tell_unknown(&unknown);
    Ok(ExitCode::Done)
}

/// Names the commands whose changes of files, if they made some, were not undone.
pub(crate) fn tell_unknown(calls: &[UnknownChanges]) {
    for call in calls.iter().take(MAX_UNKNOWN) {
        let command = call.command.as_deref().map_or_else(
            || format!("`{}`", single_line(&call.tool, 200)),
            |command| format!("`{}` ({})", single_line(command, 200), single_line(&call.tool, 200)),
        );
        console::warn(&format!("file changes that {command} may have made were not undone"));
    }
    if let Some(more) = calls.len().checked_sub(MAX_UNKNOWN).filter(|more| *more > 0) {
        console::warn(&format!("the same applies to {more} more calls"));
    }
}

/// Says what file tools did that could not be undone, and why.
pub(crate) fn tell_unrecorded(header: &SessionHeader, unrecorded: &[FileCall]) {
    if unrecorded.is_empty() {
        return;
    }
    for call in unrecorded {
        console::warn(&format!("{} was not changed", single_line(&call.path, 200)));
    }
    let reason = match header.parent.as_ref().filter(|_| header.call.is_none()) {
        Some(parent) => format!(
            "this session is a fork, and the earlier content of the files belongs to session {}; \
                rewind that session to undo the changes",
            short(parent)
        ),
        None => "this session has no record of the earlier content of these files: it was imported, or it ran \
            without recording file changes"
            .to_owned(),
    };
    console::tell(&reason);
}

/// Says what became of files whose changes were to be undone, each once.
pub(crate) fn tell_undone(undone: &[(String, UndoOutcome)]) {
    let mut told: Vec<(&str, &UndoOutcome)> = Vec::new();
    for (path, came) in undone {
        match told.iter_mut().find(|(known, _)| known == path) {
            // The earlier changes are undone last.
            Some((_, last)) if **last != UndoOutcome::Conflict => {
                if *came != UndoOutcome::Unchanged {
                    *last = came;
                }
            }
            Some(_) => {}
            None => told.push((path, came)),
        }
    }
    for (path, came) in &told {
        let path = sanitize_terminal(path);
        match came {
            UndoOutcome::Restored => console::tell(&format!("{path} restored")),
            UndoOutcome::Removed => console::tell(&format!("{path} removed")),
            UndoOutcome::Unchanged => {}
            UndoOutcome::Conflict => {
                console::warn(&format!("{path} was not restored: it has changed since"));
            }
            UndoOutcome::OtherFolder => console::warn(&format!(
                "{path} was not restored: another folder is now at the path of the session's folder; move the session's folder back, and \
                    rewind the files again"
            )),
        }
    }
    if !told.is_empty() && told.iter().all(|(_, came)| **came == UndoOutcome::Unchanged) {
        console::tell("the files already have their earlier content");
    }
}

/// Does something with each of several sessions. One that fails does not keep the others from it.
pub(super) async fn each(
    store: &Arc<dyn SessionStore>,
    args: &SessionIdsArgs,
    task: Task,
) -> Result<ExitCode, SessionsError> {
    let mut worst = ExitCode::Done;
    for id in &args.ids {
        if let Err(error) = one(store, id, task).await {
            worst = console::fail(&error, error.exit_code());
        }
    }
    Ok(worst)
}

async fn one(
    store: &Arc<dyn SessionStore>,
    id: &loopwright_sessions::SessionId,
    task: Task,
) -> Result<(), SessionsError> {
    let header = find(&**store, id).await?;
    let (id, runtime) = (&header.id, maintenance_runtime(store));
    let done = match task {
        Task::Suspend => {
            runtime.execute(id, &SuspendSession).await?;
            "is suspended".to_owned()
        }
        Task::Resume => {
            runtime.execute(id, &ResumeSession).await?;
            "accepts messages".to_owned()
        }
        Task::Stop | Task::Cancel => match holder(&**store, &header).await? {
            None => "is not running".to_owned(),
            Some(holder) => {
                let when = if task == Task::Stop {
                    runtime.stop(id).await?;
                    "after the current step"
                } else {
                    runtime.cancel(id).await?;
                    "now"
                };
                format!("will stop {when}; the run belongs to {holder}")
            }
        },
    };
    console::tell(&format!("session {} {done}", short(id)));
    Ok(())
}

/// Returns who runs a session, if anybody does.
pub(super) async fn holder(
    store: &dyn SessionStore,
    header: &SessionHeader,
) -> Result<Option<String>, SessionsError> {
    if owner(store, header).await?.is_none() {
        return Ok(None);
    }
    match hold(store, header).await {
        // It was left meanwhile.
        Ok(lease) => {
            store.release(&lease).await?;
            Ok(None)
        }
        // What is sent to it is read by no run.
        Err(error @ StoreError::Busy { .. }) if is_for_session(&error) => Err(error.into()),
        Err(StoreError::Busy { owner, .. }) => Ok(Some(Owner::describe(&owner))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the owner of a session that a process has, for its own run or for that of the session it works for. Takes nothing.
pub(super) async fn owner(
    store: &dyn SessionStore,
    header: &SessionHeader,
) -> Result<Option<Arc<str>>, StoreError> {
    let owner = store.holder(&header.id, now()).await?;
    Ok(owner.filter(|it| Owner::parse(it).is_none_or(|it| !it.is_gone())))
}

/// Takes a session that no process runs, or whose runner is gone, for a moment.
pub(super) async fn hold(
    store: &dyn SessionStore,
    header: &SessionHeader,
) -> Result<Lease, StoreError> {
    let owner = Owner::this_process().to_string();
    let claim = LeaseRequest { owner: &owner, replaces: None, now: now(), ttl: MOMENT };
    match store.lease(&header.id, claim).await {
        Err(StoreError::Busy { owner: gone, .. })
            if Owner::parse(&gone).is_some_and(|it| it.is_gone()) =>
        {
            store.lease(&header.id, LeaseRequest { replaces: Some(&gone), ..claim }).await
        }
        taken => taken,
    }
}

/// Deletes sessions for good, and asks before if a user is there to answer.
pub(super) async fn delete(
    store: &Arc<dyn SessionStore>,
    args: &DeleteArgs,
) -> Result<ExitCode, SessionsError> {
    let mut headers = Vec::new();
    for id in &args.ids.ids {
        headers.push(find(&**store, id).await?);
    }
    if !args.yes && io::stdin().is_terminal() && !is_agreed(&headers) {
        console::tell("no session deleted");
        return Ok(ExitCode::Done);
    }
    for header in &headers {
        maintenance_runtime(store).delete(&header.id).await?;
        console::tell(&format!("session {} deleted", short(&header.id)));
    }
    Ok(ExitCode::Done)
}

fn is_agreed(headers: &[SessionHeader]) -> bool {
    for header in headers {
        let title = single_line(header.title.as_deref().unwrap_or_default(), 60);
        console::tell(&format!("  {}  {title}", short(&header.id)));
    }
    console::is_agreed("delete permanently?")
}
