//! The folder in which a session works, recognized when another one may have taken its place.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, CallState, Edit, Flow, Hook, HookCx, HookPoint, HookPoints, Key, RunEnv,
    StateEdit,
};
use loopwright_sessions::AgentSession;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::console;
use crate::named_file::read_text;
use crate::render::sanitize_terminal;
use crate::session::{SessionsError, short};

const FOLDER: Key<SessionFolder> = Key::session("cli", "folder");

/// The maximum size of the configuration of a repository.
const MAX_BYTES: u64 = 1 << 20;

/// A folder: its path, and what is different in another folder at the same path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionFolder {
    path: String,
    inode: u64,
    /// When it was created, in milliseconds since 1970, if the file system tells that. A new folder often gets the number
    /// of a removed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    /// The digest of the URL of the repository's remote `origin`: a fresh clone works on the same project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

/// What stands at the path of a session's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FolderMatch {
    /// The folder, a clone of its repository, or a path that the session was moved to.
    Same,
    /// Another folder. No call of the session is open.
    Replaced,
    /// Another folder than the one in which open calls were requested.
    ReplacedUnderCalls,
}

impl SessionFolder {
    /// Looks at a folder. Returns `None` if that fails.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let created = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Some(Self {
            path: path.to_string_lossy().into_owned(),
            inode: found.ino(),
            created: created.and_then(|it| u64::try_from(it.as_millis()).ok()),
            origin: read_text(&path.join(".git/config"), MAX_BYTES)
                .ok()
                .as_deref()
                .and_then(origin),
        })
    }

    /// Checks that the folder is the one in which the open calls of a session were requested, or that the user named it. Warns
    /// if it is another folder than the one in which the session worked.
    pub(crate) fn check(
        &self,
        session: &AgentSession,
        is_named: bool,
    ) -> Result<(), SessionsError> {
        let found = self.compare(session.state());
        if found == FolderMatch::Same {
            return Ok(());
        }
        let id = session.id().clone();
        if found == FolderMatch::ReplacedUnderCalls && !is_named {
            return Err(SessionsError::ReplacedFolder { id, path: (&self.path).into() });
        }
        console::warn(&format!(
            "{} is not the folder in which session {} worked",
            sanitize_terminal(&self.path),
            short(&id)
        ));
        Ok(())
    }

    /// Compares the folder with the one that a session has on record.
    fn compare(&self, state: &AgentState) -> FolderMatch {
        let Some(kept) = state.get(&FOLDER) else { return FolderMatch::Same };
        let is_clone = kept.origin.is_some() && kept.origin == self.origin;
        // Not all systems tell the time of a folder that they share.
        let is_as_old = kept.created.zip(self.created).is_none_or(|(kept, own)| kept == own);
        let is_it = kept.inode == self.inode && is_as_old;
        if kept.path != self.path || is_it || is_clone {
            return FolderMatch::Same;
        }
        let open = state.execution().and_then(|it| it.open_step());
        let mut calls = open.into_iter().flat_map(loopwright_core::OpenStep::calls);
        if calls.all(|it| matches!(it, CallState::Completed(_))) {
            FolderMatch::Replaced
        } else {
            FolderMatch::ReplacedUnderCalls
        }
    }

    /// Records the folder in a session that has another one on record, or none.
    pub(crate) fn keep(&self, state: AgentState) -> AgentState {
        if state.get(&FOLDER).as_ref() == Some(self) {
            return state;
        }
        match serde_json::to_value(self) {
            Ok(value) => state.edit(Edit::Set(FOLDER.slot(), Some(value))),
            Err(_) => state,
        }
    }
}

/// Records the folder of a session in the runs of a program that does not set up each turn.
pub(crate) struct KeepFolder(Option<SessionFolder>);

impl KeepFolder {
    /// Takes the folder of a session unless it is on record.
    pub(crate) fn new(folder: Option<SessionFolder>, state: &AgentState) -> Self {
        Self(folder.filter(|it| state.get(&FOLDER).as_ref() != Some(it)))
    }
}

#[async_trait]
impl Hook for KeepFolder {
    fn name(&self) -> Cow<'static, str> {
        "session_folder".into()
    }

    fn points(&self) -> HookPoints {
        HookPoints::from_points(self.0.iter().map(|_| HookPoint::BeforeStep))
    }

    fn can_skip(&self, _point: HookPoint, state: &AgentState, _env: &RunEnv) -> bool {
        state.get(&FOLDER) == self.0
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        if let Some(folder) = &self.0
            && state.get(&FOLDER).as_ref() != Some(folder)
        {
            state.set(&FOLDER, folder)?;
        }
        Ok(Flow::Continue)
    }
}

/// Returns the digest of the URL of the remote `origin` in the configuration of a repository.
fn origin(config: &str) -> Option<String> {
    let mut lines = config.lines().map(str::trim).skip_while(|it| *it != "[remote \"origin\"]");
    lines.next()?;
    let url = lines.take_while(|it| !it.starts_with('[')).find_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case("url").then(|| value.trim())
    })?;
    Some(format!("{:x}", Sha256::digest(url)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pipe_in_place_of_the_configuration_of_a_repository_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".git")).unwrap();
        let pipe = folder.path().join(".git/config");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(SessionFolder::of(folder.path()).unwrap().origin, None);
    }

    #[test]
    fn the_remote_origin_is_that_of_its_section() {
        let of = |url: &str| origin(&format!("[remote \"origin\"]\n\turl = {url}\n"));
        let others = "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = b\n";
        let config = format!(
            "{others}[remote \"origin\"]\n\tfetch = x\n\tURL = a\n[branch \"main\"]\n\turl = c\n"
        );
        assert_eq!((origin(&config), of("a") == of("c")), (of("a"), false));
        assert_eq!([origin(others), origin("[remote \"origin\"]\n[x]\nurl = a\n")], [None, None]);
    }

    #[test]
    fn a_folder_is_another_one_if_it_was_made_anew_and_is_no_clone_of_the_same_repository() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("project");
        let remade = |config: Option<&str>| {
            // The first one stays, so that its number is not used again.
            if path.exists() {
                let count = fs::read_dir(home.path()).unwrap().count();
                fs::rename(&path, home.path().join(count.to_string())).unwrap();
            }
            fs::create_dir_all(path.join(".git")).unwrap();
            if let Some(config) = config {
                fs::write(path.join(".git/config"), config).unwrap();
            }
            SessionFolder::of(&path).unwrap()
        };
        let cloned = Some("[remote \"origin\"]\n\turl = https://git.example/a.git\n");
        let forked = Some("[remote \"origin\"]\n\turl = https://git.example/b.git\n");
        let first = remade(None);
        let state = first.keep(AgentState::new());
        assert_eq!(first.compare(&AgentState::new()), FolderMatch::Same);
        assert_eq!(SessionFolder::of(&path).unwrap().compare(&state), FolderMatch::Same);
        assert_eq!(remade(None).compare(&state), FolderMatch::Replaced);
        let made = |created| SessionFolder { created, ..first.clone() };
        let kept = made(Some(1)).keep(AgentState::new());
        let found = [Some(1), Some(2), None].map(|created| made(created).compare(&kept));
        assert_eq!(found, [FolderMatch::Same, FolderMatch::Replaced, FolderMatch::Same]);
        let elsewhere = SessionFolder { path: "/elsewhere".to_owned(), ..remade(None) };
        assert_eq!(elsewhere.compare(&state), FolderMatch::Same);
        let state = remade(cloned).keep(state);
        assert_eq!(remade(cloned).compare(&state), FolderMatch::Same);
        assert_eq!(remade(forked).compare(&state), FolderMatch::Replaced);
    }
}
