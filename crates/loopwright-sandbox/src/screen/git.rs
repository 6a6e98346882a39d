//! Detection of git repositories, and of their files that make git run programs or read other
//! files.

use std::ffi::OsStr;
use std::path::Path;

use super::config;
use super::{EntryKind, FolderView, Reason};

const LINK: Reason = Reason::new("points git to a repository elsewhere");
const RUNS: Reason = Reason::new("makes git run a program");
const FINDS: Reason = Reason::new("makes git read files from elsewhere");
const SETTINGS: Reason = Reason::new(
    "would change git settings that run programs or name paths (other settings may \
        be changed)",
);
const WHOLE: Reason =
    Reason::new("would turn a folder that contains git settings or hooks into a repository");
const OWN: Reason = Reason::new("is the repository itself");

/// What makes a folder a repository.
const MAKES: [&str; 4] = ["head", "objects", "refs", "commondir"];

/// The files with the settings of a repository.
const SETTINGS_FILES: [&str; 2] = ["config", "config.worktree"];

/// Returns `true` if a file of this name, in lower case, has the settings of a repository.
pub(super) fn is_settings(name: &OsStr) -> bool {
    SETTINGS_FILES.iter().any(|it| name == *it)
}

/// Returns `true` if a file or folder of this name makes the folder around it a repository.
pub(crate) fn makes_repository(name: &OsStr) -> bool {
    MAKES.iter().any(|makes| name.eq_ignore_ascii_case(makes))
}

/// Judges a path that will exist. `None` means that git does nothing with it but read data.
pub(super) fn judge(path: &Path, what: EntryKind, after: &dyn FolderView) -> Option<Reason> {
    let name = path.file_name()?.to_ascii_lowercase();
    if name == ".git" && what != EntryKind::Folder {
        return Some(LINK);
    }
    let mut folder = path.parent();
    while let Some(at) = folder {
        if is_repository(at, after)
            && let Ok(below) = path.strip_prefix(at)
            && let Some(reason) = judge_part(path, below, what, after)
        {
            return Some(reason);
        }
        folder = at.parent();
    }
    let parent = path.parent()?;
    let makes_one =
        makes_repository(&name) && after.before(path).is_none() && is_repository(parent, after);
    (makes_one && has_settings(parent, after)).then_some(WHOLE)
}

/// Judges the removal of a path that exists: settings and hooks of a repository stay, and so does that of the folder.
pub(super) fn judge_removal(path: &Path) -> Option<Reason> {
    if is_named_git(path) && path.parent().is_some_and(|parent| parent == Path::new("")) {
        return Some(OWN);
    }
    let repository = path.ancestors().skip(1).find(|at| is_named_git(at))?;
    let below = path.strip_prefix(repository).ok()?;
    let first = below.components().next()?.as_os_str().to_ascii_lowercase();
    let is_kept = matches!(first.to_str(), Some("config" | "config.worktree" | "hooks"));
    (is_kept && !is_sample(path)).then_some(SETTINGS)
}

fn is_named_git(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

/// Returns `true` if git would take a folder for a repository once changes are made: one of the name, or one that holds
/// what makes one.
fn is_repository(folder: &Path, after: &dyn FolderView) -> bool {
    if is_named_git(folder) {
        return true;
    }
    let has = |name: &str| {
        let exact = folder.join(name);
        after.what(&exact).is_some()
    };
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

/// Judges a part of a repository.
fn judge_part(
    path: &Path,
    below: &Path,
    what: EntryKind,
    after: &dyn FolderView,
) -> Option<Reason> {
    if what == EntryKind::Link {
        return Some(FINDS);
    }
    let parts: Vec<String> =
        below.components().map(|it| it.as_os_str().to_string_lossy().to_lowercase()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["config" | "config.worktree"] => settings(path, after),
        ["hooks"] if what != EntryKind::Folder => Some(RUNS),
        ["hooks", _, ..] if !is_sample(path) => Some(RUNS),
        ["rebase-merge" | "rebase-apply" | "sequencer", ..] | ["info", "attributes"] => Some(RUNS),
        ["commondir" | "gitdir"]
        | ["modules" | "worktrees" | "remotes" | "branches", _, ..]
        | ["objects", "info", "alternates" | "http-alternates"] => Some(FINDS),
        [first, ..] if first.starts_with("fsmonitor--daemon") => Some(RUNS),
        _ => None,
    }
}

/// Settings that are data may change; the others stay as they are.
fn settings(path: &Path, after: &dyn FolderView) -> Option<Reason> {
    let Some(new) = after.content(path).and_then(|it| config::obeyed(&it)) else {
        return Some(SETTINGS);
    };
    let old = after.content_before(path).map_or(Some(Vec::new()), |it| config::obeyed(&it));
    (Some(new) != old).then_some(SETTINGS)
}

fn is_sample(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("sample"))
}

/// Returns `true` if a folder that becomes a repository holds already what git would obey. What is new in it is judged on
/// its own.
fn has_settings(folder: &Path, after: &dyn FolderView) -> bool {
    let stays = |path: &Path| after.before(path).is_some() && after.what(path).is_some();
    let entries = |name: &str| {
        let within = folder.join(name);
        after.names(&within).into_iter().map(move |name| within.join(name)).filter(|it| stays(it))
    };
    let plain = SETTINGS_FILES.map(|name| folder.join(name));
    let obeyed = ["commondir", "gitdir", "rebase-merge", "rebase-apply", "sequencer"];
    let deeper = ["info/attributes", "objects/info/alternates", "objects/info/http-alternates"];
    obeyed.iter().chain(&deeper).any(|name| stays(&folder.join(name)))
        || ["modules", "worktrees", "remotes", "branches"]
            .iter()
            .any(|name| entries(name).count() > 0)
        || entries("hooks").any(|hook| !is_sample(&hook))
        || after.what(&folder.join("hooks")) == Some(EntryKind::Link)
        || plain.iter().any(|path| {
            let obeyed = after.content(path).and_then(|content| config::obeyed(&content));
            stays(path) && obeyed.is_none_or(|it| !it.is_empty())
        })
}
