//! `sessions export` and `sessions import`: a session as lines of JSON.
//!
//! The first line says what the session is, each of the others is a change. So a file is whole by
//! itself, also if the session is a fork.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loopwright_agent::AgentDefinition;
use loopwright_core::{AgentState, Budget, Change, ChangeRecord, Edit};
use loopwright_sessions::{
    LoadedSession, NewSession, SessionHeader, SessionStatus, SessionStore, StoreError,
    stored::FORMAT_VERSION,
};
use loopwright_templates::privileged_settings;
use serde::{Deserialize, Serialize};

use crate::args::sessions::{ExportArgs, ImportArgs};
use crate::config::{STEPS, TIME, TOKENS};
use crate::console;
use crate::exit::ExitCode;
use crate::render::json_line;
use crate::session::{SessionsError, find, now, short};
use crate::session_budget;

/// The most bytes of a line.
const LINE: u64 = 1 << 30;

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: Kind,
    format: u32,
    header: SessionHeader,
    definition: AgentDefinition,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Session,
}

/// What is known before the rest of the first line makes sense.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Writes a session to a file.
pub(super) async fn export(
    store: &dyn SessionStore,
    args: &ExportArgs,
) -> Result<ExitCode, SessionsError> {
    let header = find(store, &args.id.id).await?;
    let loaded = store.load(&header.id).await?;
    let loaded = loaded.ok_or_else(|| StoreError::NotFound(header.id.clone()))?;
    let Some(path) = args.file.as_deref().filter(|it| *it != Path::new("-")) else {
        let mut bytes = Vec::new();
        write(&mut bytes, loaded).map_err(|source| unusable(Path::new("-"), "written", source))?;
        return Ok(console::print(&bytes));
    };
    if fs::symlink_metadata(path).is_ok() {
        return Err(unusable(path, "made", io::ErrorKind::AlreadyExists.into()));
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    // A process that was killed left it.
    fs::remove_file(&partial).ok();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
    let file = file.map_err(|source| unusable(path, "made", source))?;
    let mut buffered = BufWriter::new(&file);
    let written = write(&mut buffered, loaded).and_then(|()| buffered.flush());
    drop(buffered);
    written.and_then(|()| file.sync_all()).and_then(|()| publish(&partial, path)).map_err(
        |source| {
            // Half a session is of no use.
            fs::remove_file(&partial).ok();
            unusable(path, "written", source)
        },
    )?;
    Ok(ExitCode::Done)
}

/// Gives a file that is whole its name, which no file may have, and makes it survive a loss of power.
fn publish(partial: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(partial, path) {
        Ok(()) => fs::remove_file(partial)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        // Some disks know no links.
        Err(_) => fs::rename(partial, path)?,
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write(to: &mut impl Write, loaded: LoadedSession) -> io::Result<()> {
    let LoadedSession { header, definition, changes } = loaded;
    let header = SessionHeader { from: None, branch: 0, ..header };
    let head = Head { kind: Kind::Session, format: FORMAT_VERSION, header, definition };
    writeln!(to, "{}", json_line(&head)?)?;
    changes.iter().try_for_each(|it| writeln!(to, "{}", json_line(it)?))
}

/// Takes in a session that was exported, and prints its name. It works in this directory from now on:
/// where it worked elsewhere is for the caller that takes it in to say.
pub(super) async fn import(
    store: &dyn SessionStore,
    args: &ImportArgs,
    workdir: &Path,
) -> Result<ExitCode, SessionsError> {
    let path = &args.file;
    let (head, mut changes, state) = if path == Path::new("-") {
        read(path, io::stdin().lock())?
    } else {
        let file = fs::File::open(path).map_err(|source| unusable(path, "read", source))?;
        read(path, BufReader::new(file))?
    };
    changes.extend(limited(&state));
    let status = match head.header.status {
        SessionStatus::Deleted | SessionStatus::Active if state.is_interrupted() => {
            SessionStatus::Suspended
        }
        SessionStatus::Deleted => SessionStatus::Active,
        status => status,
    };
    let header = SessionHeader {
        id: args.id.clone().unwrap_or(head.header.id),
        status,
        version: 0,
        length: 0,
        branch: 0,
        from: None,
        workdir: Some(workdir.to_string_lossy().into()),
        updated_at: now(),
        ..head.header
    };
    let new = NewSession { header: &header, definition: &head.definition, changes: &changes };
    let created = store.create(new).await?;
    if created.status == SessionStatus::Suspended {
        let id = short(&created.id);
        console::tell(&format!(
            "its run was interrupted, and resuming it makes the calls that the file requests; look \
             at them with `loopwright sessions show {id}`, then allow it with `loopwright sessions \
             resume {id}`"
        ));
    }
    Ok(console::print(format!("{}\n", created.id).as_bytes()))
}

/// Reads a session, and returns what its changes come to.
fn read(
    path: &Path,
    mut lines: impl BufRead,
) -> Result<(Head, Vec<ChangeRecord>, AgentState), SessionsError> {
    let mut line = String::new();
    let mut number = 0_u64;
    let mut next = |line: &mut String| {
        line.clear();
        number += 1;
        let read = lines.by_ref().take(LINE).read_line(line);
        let read = read.map_err(|source| unusable(path, "read", source))?;
        if read as u64 == LINE {
            let text = format!("line {number} of {} is longer than {LINE} bytes", path.display());
            return Err(SessionsError::Usage(text));
        }
        Ok::<_, SessionsError>((read > 0).then_some(number))
    };
    let wrong = |number: u64, error: &dyn std::fmt::Display| {
        let path = path.display();
        SessionsError::Usage(format!(
            "line {number} of {path} is not part of an exported session: {error}"
        ))
    };
    next(&mut line)?;
    let Format { format } = serde_json::from_str(&line).map_err(|error| wrong(1, &error))?;
    if format == 0 || format > FORMAT_VERSION {
        let text = format!(
            "{} has format {format}, but this program supports formats up to {FORMAT_VERSION}; update the program",
            path.display()
        );
        return Err(SessionsError::Usage(text));
    }
    let head: Head = serde_json::from_str(&line).map_err(|error| wrong(1, &error))?;
    let refused = |line: u64, keys: Vec<String>| match keys.into_iter().next() {
        Some(key) => Err(SessionsError::Privileged { path: path.to_path_buf(), line, key }),
        None => Ok(()),
    };
    refused(1, privileged_settings(&head.definition))?;
    let mut changes = Vec::new();
    while let Some(number) = next(&mut line)? {
        let change: ChangeRecord =
            serde_json::from_str(&line).map_err(|error| wrong(number, &error))?;
        if let Change::StateEdited { edit: Edit::Llm(Some(llm)), .. } = &change.change {
            refused(number, llm.options.privileged())?;
        }
        changes.push(change);
    }
    if changes.len() as u64 != head.header.length {
        let (has, path) = (changes.len(), path.display());
        let text = format!(
            "{path} is incomplete: it has {has} of {} changes; export the session again",
            head.header.length
        );
        return Err(SessionsError::Usage(text));
    }
    let state = AgentState::new().replay(changes.iter().cloned()).map_err(|error| {
        SessionsError::Usage(format!("the changes in {} are inconsistent: {error}", path.display()))
    })?;
    Ok((head, changes, state))
}

/// Returns the changes that take from a session the limits that its author typed where they are wider than
/// those of a run without any: they are not set by the user who imports it.
fn limited(state: &AgentState) -> Vec<ChangeRecord> {
    let own = *state.budget();
    let budget = Budget {
        steps: Some(own.steps.unwrap_or(u32::MAX).min(STEPS.get())),
        tokens: Some(own.tokens.unwrap_or(u64::MAX).min(TOKENS.get())),
        time: Some(own.time.unwrap_or(Duration::MAX).min(TIME)),
        ..own
    };
    let budget = (budget != own).then_some(Edit::Budget(budget));
    let typed = session_budget::forget(state);
    let edits = budget.into_iter().chain(typed);
    edits
        .map(|edit| ChangeRecord {
            at: now(),
            change: Change::StateEdited { by: "import".into(), edit },
        })
        .collect()
}

fn unusable(path: &Path, doing: &'static str, source: io::Error) -> SessionsError {
    SessionsError::File { path: path.to_path_buf(), doing, source }
}

#[cfg(test)]
mod tests;
