//! Detection of git repositories, and of their files that make git run programs or read other
//! files.

use std::ffi::OsStr;
use std::path::Path;

use super::config;
use super::{EntryKind, FolderView, Reason};

const LINK: Reason = Reason::new("points git to another repository");
const RUNS: Reason = Reason::new("makes git run a program");
const FINDS: Reason = Reason::new("makes git read files from other locations");
const SETTINGS: Reason = Reason::new(
    "would change git settings that run programs or name paths (changes to other \
        settings are allowed)",
);
const WHOLE: Reason =
    Reason::new("would turn a folder that contains git settings or hooks into a repository");
const OWN: Reason = Reason::new("is the repository itself");

/// What makes a folder a repository.
const MAKES: [&str; 4] = ["head", "objects", "refs", "commondir"];

/// The files with the settings of a repository.
const SETTINGS_FILES: [&str; 2] = ["config", "config.worktree"];

/// The parts of a repository that only a repository elsewhere or a program fills, besides its settings.
const OBEYED_PARTS: [&str; 8] = [
    "hooks",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "remotes",
    "branches",
    "commondir",
    "gitdir",
];

/// Files in a folder `info` of a repository that git obeys.
const OBEYED_INFO: [&str; 3] = ["attributes", "alternates", "http-alternates"];

/// Returns `true` if git obeys an entry of this name in a repository, with all that is in it.
pub(crate) fn is_obeyed_part(name: &OsStr) -> bool {
    let name = name.to_ascii_lowercase();
    is_settings(&name) || OBEYED_PARTS.iter().any(|it| name == *it)
}

/// Returns `true` if git obeys a file at this path, if its folder is part of a repository.
pub(crate) fn is_obeyed_info(path: &Path) -> bool {
    let is_named = |name: &OsStr| OBEYED_INFO.iter().any(|it| name.eq_ignore_ascii_case(it));
    let parent = path.parent().and_then(Path::file_name);
    parent.is_some_and(|it| it.eq_ignore_ascii_case("info"))
        && path.file_name().is_some_and(is_named)
}

/// Returns `true` if the entries of a folder make it a repository.
pub(crate) fn is_made_by(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

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
    // The nearest repository, if the path is data in it.
    let mut inner: Option<&Path> = None;
    for at in path.ancestors().skip(1).filter(|at| is_repository(at, after)) {
        let below = path.strip_prefix(at).unwrap_or(path);
        if inner.is_some_and(|inner| is_in_place(inner, at)) {
            continue;
        }
        if let Some(reason) = judge_part(path, below, what, after) {
            return Some(reason);
        }
        if inner.is_none() && was_repository(at, after) && is_data(below) {
            inner = Some(at);
        }
    }
    let parent = path.parent()?;
    let makes_one =
        makes_repository(&name) && after.before(path).is_none() && is_repository(parent, after);
    (makes_one && has_settings(parent, after)).then_some(WHOLE)
}

/// Judges the removal of a path that exists: settings and hooks of a repository stay, and so does that of the folder.
pub(super) fn judge_removal(path: &Path, folder: &dyn FolderView) -> Option<Reason> {
    if is_named_git(path) && path.parent().is_some_and(|parent| parent == Path::new("")) {
        return Some(OWN);
    }
    let repository = path.ancestors().skip(1).find(|at| is_named_git(at))?;
    let below = path.strip_prefix(repository).ok()?;
    let first = below.components().next()?.as_os_str().to_ascii_lowercase();
    let is_kept = match first.to_str() {
        Some("config" | "config.worktree" | "hooks") => true,
        Some("modules" | "worktrees") => is_part_of_inner(path, repository, folder),
        _ => false,
    };
    (is_kept && !is_sample(path)).then_some(SETTINGS)
}

/// The parts of the folder of a submodule or a worktree that git obeys and that stay.
const KEPT: [&str; 5] = ["config", "config.worktree", "hooks", "commondir", "gitdir"];

/// Returns `true` if a path is among what git obeys in the folder of a submodule or a worktree. The name of a submodule may
/// have parts that are also names in a repository, so only the content of the folders says where it starts.
fn is_part_of_inner(path: &Path, repository: &Path, folder: &dyn FolderView) -> bool {
    let around = path.ancestors().skip(1).take_while(|at| *at != repository);
    let inner: Vec<&Path> = around.filter(|at| was_repository(at, folder)).collect();
    let below = |at: &Path| lowercase_parts(path.strip_prefix(at).unwrap_or(path));
    let is_kept = |part: &String| KEPT.contains(&part.as_str());
    if inner.is_empty() {
        return below(repository).iter().skip(2).any(is_kept);
    }
    inner.iter().any(|at| below(at).first().is_some_and(is_kept))
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
    is_made_by(|name| after.what(&folder.join(name)).is_some())
}

/// Returns `true` if a folder was a repository before.
fn was_repository(folder: &Path, after: &dyn FolderView) -> bool {
    is_made_by(|name| after.before(&folder.join(name)).is_some())
}

/// Returns `true` if a repository is where another one has those of its submodules, and the folders of its worktrees.
fn is_in_place(inner: &Path, repository: &Path) -> bool {
    let Ok(below) = inner.strip_prefix(repository) else { return false };
    let parts = lowercase_parts(below);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    matches!(
        parts.as_slice(),
        ["modules", _, ..] | ["worktrees", _] | ["worktrees", _, "modules", _, ..]
    )
}

/// Returns `true` if what is at a path in the folder of a submodule or a worktree is data: history, branches, the index, and
/// what git keeps about a commit or merge that is not complete.
fn is_data(below: &Path) -> bool {
    let parts = lowercase_parts(below);
    let parts: Vec<&str> = parts.iter().map(|it| it.strip_suffix(".lock").unwrap_or(it)).collect();
    match parts.as_slice() {
        ["objects" | "refs" | "logs" | "reftable", ..]
        | ["info", "refs"]
        | [
            "head" | "index" | "packed-refs" | "shallow" | "merge_mode" | "merge_rr" | "auto_merge",
        ] => true,
        [name] => {
            let (starts, ends) = (["sharedindex."], ["_head", "_msg", "_editmsg"]);
            starts.iter().any(|it| name.starts_with(it)) || ends.iter().any(|it| name.ends_with(it))
        }
        _ => false,
    }
}

fn lowercase_parts(path: &Path) -> Vec<String> {
    path.components().map(|it| it.as_os_str().to_string_lossy().to_lowercase()).collect()
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
    let parts = lowercase_parts(below);
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
