//! `sessions export` and `sessions import`: a session as lines of JSON.
//!
//! The first line says what the session is, each of the others is a change. So a file is whole by
//! itself, even if the session is a fork. The sessions of sub-agents that are at work follow in the same form.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loopwright_agent::AgentDefinition;
use loopwright_core::{AgentState, Budget, Change, ChangeRecord, Edit};
use loopwright_sessions::{
    LoadedSession, NewSession, SessionError, SessionHeader, SessionStatus, SessionStore,
    StoreError, mark_subagent_lost, open_calls, open_subagents, stored::FORMAT_VERSION,
};
use loopwright_templates::privileged_settings;
use serde::{Deserialize, Serialize};

use crate::args::sessions::{ExportArgs, FetchArgs, ImportArgs};
use crate::chosen_rules;
use crate::config::{STEPS, TIME, TOKENS};
use crate::console;
use crate::exit::ExitCode;
use crate::render::json_line;
use crate::session::{SessionsError, find, now, short};
use crate::session_budget;
use crate::snapshots::SessionSnapshots;

/// The most bytes of a line.
const LINE: u64 = 1 << 30;

/// The first line of a session.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: Kind,
    format: u32,
    /// How many sessions of sub-agents follow; in the first line of a file only. A file that does not say so may lack
    /// some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subagents: Option<u32>,
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

/// Writes the last snapshot of a session's directory to a folder.
pub(super) async fn fetch(
    store: &dyn SessionStore,
    args: &FetchArgs,
    cwd: &Path,
) -> Result<ExitCode, SessionsError> {
    let header = find(store, &args.id.id).await?;
    let to = cwd.join(&args.to);
    let is_taken = match fs::read_dir(&to) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if is_taken {
        let text = format!("{} is not an empty folder; name another one", args.to.display());
        return Err(SessionsError::Usage(text));
    }
    if !SessionSnapshots::download(&args.snapshots, store, &header.id, &to).await? {
        let text = format!(
            "session {} has no snapshots; submit it with `--session-dirs` and `--snapshots`",
            short(&header.id)
        );
        return Err(SessionsError::Usage(text));
    }
    console::tell(&format!(
        "wrote the directory of session {} to {}",
        short(&header.id),
        args.to.display()
    ));
    Ok(ExitCode::Done)
}

/// Writes a session to a file.
pub(super) async fn export(
    store: &dyn SessionStore,
    args: &ExportArgs,
) -> Result<ExitCode, SessionsError> {
    let header = find(store, &args.id.id).await?;
    let loaded = store.load(&header.id).await?;
    let loaded = loaded.ok_or_else(|| StoreError::NotFound(header.id.clone()))?;
    let replayed = AgentState::new().replay(loaded.changes.iter().cloned());
    let state =
        replayed.map_err(|source| SessionError::Replay { id: header.id.clone(), source })?;
    let subagents = open_subagents(store, &loaded.header, &state).await?;
    let Some(path) = args.file.as_deref().filter(|it| *it != Path::new("-")) else {
        let mut bytes = Vec::new();
        write_all(&mut bytes, loaded, subagents)
            .map_err(|source| unusable(Path::new("-"), "written", source))?;
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
    let written = write_all(&mut buffered, loaded, subagents).and_then(|()| buffered.flush());
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

fn write_all(
    to: &mut impl Write,
    loaded: LoadedSession,
    subagents: Vec<LoadedSession>,
) -> io::Result<()> {
    write(to, loaded, u32::try_from(subagents.len()).ok())?;
    subagents.into_iter().try_for_each(|it| write(to, it, None))
}

fn write(to: &mut impl Write, loaded: LoadedSession, subagents: Option<u32>) -> io::Result<()> {
    let LoadedSession { header, definition, changes } = loaded;
    let header = SessionHeader { from: None, branch: 0, ..header };
    let head = Head { kind: Kind::Session, format: FORMAT_VERSION, subagents, header, definition };
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
    let Imported { session, subagents } = if path == Path::new("-") {
        Reader::new(path, io::stdin().lock()).read()?
    } else {
        let file = fs::File::open(path).map_err(|source| unusable(path, "read", source))?;
        Reader::new(path, BufReader::new(file)).read()?
    };
    let id = args.id.clone().unwrap_or_else(|| session.head.header.id.clone());
    if store.header(&id).await?.is_some() {
        return Err(StoreError::Exists(id).into());
    }
    let workdir = Some(workdir.to_string_lossy().into());
    let header = SessionHeader { id, workdir, ..session.imported() };
    let open = open_calls(&session.state);
    // The sub-agents are there before the session is: one without them would begin their work anew.
    match subagents {
        Some(subagents) => import_subagents(store, &session, &header, subagents).await?,
        None => {
            for call in open {
                mark_subagent_lost(store, &header, &call, now()).await?;
            }
        }
    }
    let changes = session.changes();
    let new =
        NewSession { header: &header, definition: &session.head.definition, changes: &changes };
    let created = store.create(new).await?;
    if created.status == SessionStatus::Suspended {
        let id = short(&created.id);
        console::tell(&format!(
            "the run of the session was interrupted, and resuming it would run the calls that the file \
                contains; review them with `loopwright sessions show {id}`, then allow them with \
                `loopwright sessions resume {id}`"
        ));
    }
    Ok(console::print(format!("{}\n", created.id).as_bytes()))
}

/// Takes in the sessions of sub-agents, under the names that they have below the session that is taken in.
async fn import_subagents(
    store: &dyn SessionStore,
    session: &Part,
    header: &SessionHeader,
    subagents: Vec<Part>,
) -> Result<(), SessionsError> {
    let mut known = BTreeMap::from([(session.head.header.id.clone(), header.clone())]);
    for part in subagents {
        let own = &part.head.header;
        let parent = own.parent.as_ref().and_then(|it| known.get(it));
        let (Some(parent), Some(call)) = (parent, &own.call) else { continue };
        if own.status == SessionStatus::Deleted {
            mark_subagent_lost(store, parent, call, now()).await?;
            continue;
        }
        let header = parent.subagent(call, part.imported());
        let (definition, changes) = (&part.head.definition, part.changes());
        store.create(NewSession { header: &header, definition, changes: &changes }).await?;
        known.insert(own.id.clone(), header);
    }
    Ok(())
}

/// What a file holds.
struct Imported {
    session: Part,
    /// The sessions of sub-agents that are at work. `None` means that the file does not say that it
    /// has them.
    subagents: Option<Vec<Part>>,
}

/// One session of a file.
struct Part {
    head: Head,
    changes: Vec<ChangeRecord>,
    /// What the changes come to.
    state: AgentState,
}

impl Part {
    /// Describes the session as it is taken in.
    fn imported(&self) -> SessionHeader {
        let header = &self.head.header;
        let status = match header.status {
            SessionStatus::Deleted | SessionStatus::Active if self.state.is_interrupted() => {
                SessionStatus::Suspended
            }
            SessionStatus::Deleted => SessionStatus::Active,
            status => status,
        };
        SessionHeader {
            status,
            version: 0,
            length: 0,
            branch: 0,
            from: None,
            updated_at: now(),
            ..header.clone()
        }
    }

    /// Returns the changes with which it is taken in.
    fn changes(&self) -> Vec<ChangeRecord> {
        self.changes.iter().cloned().chain(limited(&self.state)).collect()
    }
}

/// Reads an exported file, line by line.
struct Reader<'a, R> {
    path: &'a Path,
    lines: R,
    line: String,
    number: u64,
}

impl<'a, R: BufRead> Reader<'a, R> {
    fn new(path: &'a Path, lines: R) -> Self {
        Self { path, lines, line: String::new(), number: 0 }
    }

    fn read(mut self) -> Result<Imported, SessionsError> {
        let session = self.part()?;
        let mut subagents = Vec::new();
        for _ in 0..session.head.subagents.unwrap_or_default() {
            subagents.push(self.part()?);
        }
        if self.next()? {
            return Err(self.wrong(&"the file has more changes than the session"));
        }
        let subagents = session.head.subagents.map(|_| subagents);
        Ok(Imported { session, subagents })
    }

    /// Reads one session.
    fn part(&mut self) -> Result<Part, SessionsError> {
        let head = self.head()?;
        self.refuse(privileged_settings(&head.definition))?;
        let mut changes = Vec::new();
        for has in 0..head.header.length {
            if !self.next()? {
                return Err(self.incomplete(has, head.header.length));
            }
            let change: ChangeRecord =
                serde_json::from_str(&self.line).map_err(|error| self.wrong(&error))?;
            if let Change::StateEdited { edit: Edit::Llm(Some(llm)), .. } = &change.change {
                self.refuse(llm.options.privileged())?;
            }
            changes.push(change);
        }
        let state = AgentState::new().replay(changes.iter().cloned()).map_err(|error| {
            let path = self.path.display();
            SessionsError::Usage(format!("the changes in {path} are inconsistent: {error}"))
        })?;
        Ok(Part { head, changes, state })
    }

    /// Refuses a line that sets what only the user's own agents may set.
    fn refuse(&self, keys: Vec<String>) -> Result<(), SessionsError> {
        let (path, line) = (self.path.to_path_buf(), self.number);
        let refused =
            keys.into_iter().next().map(|key| SessionsError::Privileged { path, line, key });
        refused.map_or(Ok(()), Err)
    }

    fn head(&mut self) -> Result<Head, SessionsError> {
        if !self.next()? && self.number > 1 {
            let text = format!(
                "{} is incomplete: it lacks the session of a sub-agent; export the session again",
                self.path.display()
            );
            return Err(SessionsError::Usage(text));
        }
        let Format { format } =
            serde_json::from_str(&self.line).map_err(|error| self.wrong(&error))?;
        if format == 0 || format > FORMAT_VERSION {
            let text = format!(
                "{} has format {format}, but this program supports formats up to {FORMAT_VERSION}; update the program",
                self.path.display()
            );
            return Err(SessionsError::Usage(text));
        }
        serde_json::from_str(&self.line).map_err(|error| self.wrong(&error))
    }

    /// Reads the next line; `false` if there is none.
    fn next(&mut self) -> Result<bool, SessionsError> {
        self.line.clear();
        self.number += 1;
        let read = self.lines.by_ref().take(LINE).read_line(&mut self.line);
        let read = read.map_err(|source| unusable(self.path, "read", source))?;
        if read as u64 == LINE {
            let (number, path) = (self.number, self.path.display());
            let text = format!("line {number} of {path} is longer than {LINE} bytes");
            return Err(SessionsError::Usage(text));
        }
        Ok(read > 0)
    }

    fn wrong(&self, error: &dyn std::fmt::Display) -> SessionsError {
        let (number, path) = (self.number, self.path.display());
        SessionsError::Usage(format!(
            "line {number} of {path} is not part of an exported session: {error}"
        ))
    }

    fn incomplete(&self, has: u64, of: u64) -> SessionsError {
        let path = self.path.display();
        SessionsError::Usage(format!(
            "{path} is incomplete: it has {has} of {of} changes; export the session again"
        ))
    }
}

/// Returns the changes that take from a session the limits that its author typed where they are wider than
/// those of a run without any, and the permission rules that its author chose: they are not set by the user who imports it.
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
    let edits = budget.into_iter().chain(typed).chain(chosen_rules::forget(state));
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
