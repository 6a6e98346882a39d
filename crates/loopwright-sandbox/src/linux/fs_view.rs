//! The part of the file system that a command sees: an allow-list, resolved and checked before
//! anything starts.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::covers::{self, Covers};
use super::layers::Layer;
use crate::broad::BroadFolder;
use crate::home::{cache_place, copied_caches};
use crate::job::{LaunchRequest, Refusal};
use crate::policy::{Backend, BroadPaths, SandboxPolicy, Withheld, WorkdirAccess};
use crate::withheld::{SYSTEM, is_system_path};

/// The parts of `/etc` that programs need. Commands do not see the rest.
const ETC: [&str; 41] = [
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "nsswitch.conf",
    "hosts",
    "host.conf",
    "resolv.conf",
    "localtime",
    "timezone",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "ca-certificates.conf",
    "pki/tls/certs",
    "pki/ca-trust",
    "crypto-policies",
    "alternatives",
    "os-release",
    "debian_version",
    "profile",
    "profile.d",
    "bash.bashrc",
    "inputrc",
    "mime.types",
    "protocols",
    "services",
    "fonts",
    "java-17-openjdk",
    "java-21-openjdk",
    // Not its `settings.xml`, which contains passwords.
    "maven/logging",
    "maven/m2.conf",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "perl",
    "php",
    "terminfo",
    "magic",
    "locale.alias",
    "gai.conf",
];

/// Everything that a command sees, without the parts that every root has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// The working folder without links in its path.
    pub(crate) workdir: PathBuf,
    /// From the root down, so that later entries are mounted on earlier ones.
    pub(crate) entries: Vec<Entry>,
    /// The writable folders.
    pub(crate) writable: Vec<PathBuf>,
}

/// An entry of the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) at: PathBuf,
    pub(crate) seen: Seen,
}

/// The access to an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Seen {
    /// A part of the system, read-only.
    System(Shape),
    /// A path that the caller lets the command read.
    Readable(Shape),
    /// The folder in which changes to the working folder are collected. The command does not see it directly.
    Staging,
    /// A path that the command can change.
    Writable(Shape),
    /// A cache: this folder, which the command can change as well.
    Cache(PathBuf),
    /// The lock of a cache: this file, which the command can change as well.
    Lock(PathBuf),
    /// A cache of the user, whose changes go to a layer.
    Copied(Layer),
    /// The folder of the layer of the cache that follows. The command does not see it directly.
    Layer,
    /// A part of a writable folder that is mounted separately.
    Part { root: PathBuf, shape: Shape, covered: Covered },
    /// A link to this path.
    Link(PathBuf),
}

/// How a part of a folder differs from the folder; the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Covered {
    /// It cannot be read.
    Hidden,
    /// It cannot be changed.
    Protected,
    /// Not at all, although changes to the folder around it are collected.
    Direct,
    /// Not at all. But it cannot be renamed, so that the paths below it stay valid.
    Pinned,
}

/// Whether something is a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shape {
    File,
    Folder,
}

impl Entry {
    /// Returns `true` if the entry is mounted as a part of the project, and so belongs to the user.
    pub(crate) fn owned(&self) -> bool {
        !matches!(self.seen, Seen::System(_) | Seen::Link(_))
    }

    /// Returns the path outside the sandbox.
    pub(crate) fn source(&self) -> &Path {
        match &self.seen {
            Seen::Cache(path) | Seen::Lock(path) => path,
            Seen::Copied(layer) => &layer.lower,
            _ => &self.at,
        }
    }

    pub(crate) fn shape(&self) -> Option<Shape> {
        match &self.seen {
            Seen::System(shape)
            | Seen::Readable(shape)
            | Seen::Writable(shape)
            | Seen::Part { shape, .. } => Some(*shape),
            Seen::Lock(_) => Some(Shape::File),
            Seen::Staging | Seen::Cache(_) | Seen::Layer | Seen::Copied(_) => Some(Shape::Folder),
            Seen::Link(_) => None,
        }
    }

    pub(crate) fn read_only(&self) -> bool {
        match &self.seen {
            // What is below a layer is only read.
            Seen::System(_) | Seen::Readable(_) | Seen::Copied(_) => true,
            Seen::Part { covered, .. } => !matches!(covered, Covered::Pinned | Covered::Direct),
            Seen::Writable(_)
            | Seen::Cache(_)
            | Seen::Lock(_)
            | Seen::Layer
            | Seen::Staging
            | Seen::Link(_) => false,
        }
    }
}

impl View {
    pub(crate) fn of(job: &LaunchRequest) -> Result<Self, Refusal> {
        let workdir = existing("working folder", &job.policy.workdir)?;
        if !workdir.is_dir() {
            return Err(Refusal::Policy(format!("{} is not a folder", workdir.display())));
        }
        let policy = &without_links(&job.policy, &workdir)?;
        let mut entries = Vec::new();
        let system = SYSTEM.iter().map(PathBuf::from);
        for path in system.chain(ETC.map(|name| Path::new("/etc").join(name))) {
            add_system(&mut entries, &path);
        }
        let copied = copied(job.backend, policy);
        for path in &policy.read_paths {
            let real = existing("readable path", path)?;
            if real == Path::new("/") && builds_root(job.backend) {
                return Err(Refusal::Policy(
                    "a command cannot have read access to `/`: the sandbox builds a root from the readable folders; name \
                        the folders that the command needs"
                        .to_owned(),
                ));
            }
            let is_hidden = |path| policy.withheld(path) == Some(Withheld::Hidden);
            if is_hidden(&real) || copied.iter().any(|it| real.starts_with(&it.at)) {
                continue;
            }
            if path.is_symlink() && !is_hidden(path) {
                entries.push(Entry { at: path.clone(), seen: Seen::Link(real.clone()) });
            }
            entries.push(Entry { seen: Seen::Readable(shape(&real)), at: real });
        }
        entries.extend(copied);
        let mut writable = Vec::new();
        let is_read_only = match policy.workdir_access {
            WorkdirAccess::Writable => false,
            WorkdirAccess::ReadOnly => true,
            WorkdirAccess::Discarded => policy.staging.is_none(),
        };
        let wanted = if is_read_only { None } else { Some(workdir.clone()) };
        let others = policy.write_paths.iter().map(|path| existing("writable path", path));
        for path in wanted.into_iter().map(Ok).chain(others) {
            let path = path?;
            match policy.withheld(&path) {
                Some(Withheld::Hidden) => {}
                Some(Withheld::Protected) => {
                    entries.push(Entry { seen: Seen::Readable(shape(&path)), at: path });
                }
                None => writable.push(path),
            }
        }
        if is_read_only {
            entries.push(Entry { at: workdir.clone(), seen: Seen::Readable(Shape::Folder) });
        }
        let place = cache_place(job.backend, policy);
        let cache = policy.cache.as_ref().zip(place);
        let cache = cache.map(|(path, place)| Ok((existing("cache", path)?, place))).transpose()?;
        if policy.broad_paths == BroadPaths::Refused {
            let both = writable.iter().chain(cache.iter().map(|(path, _)| path));
            let home = job.home.as_deref().and_then(|home| fs::canonicalize(home).ok());
            both.into_iter().try_for_each(|path| not_broad(path, &workdir, home.as_deref()))?;
        }
        let covers = covers(policy, &workdir, &entries, &writable)?;
        for path in &writable {
            entries.push(Entry { seen: Seen::Writable(shape(path)), at: path.clone() });
        }
        if let Some((folder, at)) = cache {
            entries.push(Entry { at, seen: cache_seen(policy, folder) });
        }
        let collected = policy.staging.as_ref().map(|_| workdir.as_path());
        let mut entries = with_layers(covers.lay(entries, collected)?);
        if let Some(staging) = &policy.staging {
            // The working folder is an overlay of its content and this.
            let seen = Seen::Staging;
            entries.insert(0, Entry { at: existing("staging folder", staging)?, seen });
        }
        Ok(Self { workdir, entries, writable })
    }
}

/// Returns the policy of a folder with hidden paths as they are found now: absolute and without links. What is hidden
/// through a link is what the link leads to; the same, with the links on the way, is protected for a protected path.
fn without_links(policy: &SandboxPolicy, workdir: &Path) -> Result<SandboxPolicy, Refusal> {
    let mut hidden = Vec::new();
    for path in &policy.hidden {
        if path.is_relative() {
            covers::plain(path)?;
        }
        let path = workdir.join(path);
        match fs::canonicalize(&path) {
            Ok(real) => hidden.push(real),
            Err(error) if covers::is_missing(&error) => {}
            // If the command would see it, the command is refused.
            Err(_) => hidden.push(path),
        }
    }
    // Plans in it decide what is changed outside of the sandbox, when the next transaction finishes them.
    let staging = policy.staging.as_ref().and_then(|it| fs::canonicalize(it.parent()?).ok());
    hidden.extend(staging.filter(|it| !workdir.starts_with(it)));
    let policy = SandboxPolicy { hidden, ..policy.clone().with_protected_links_followed() };
    if policy.withheld(workdir) == Some(Withheld::Hidden) {
        return Err(Refusal::Policy(format!(
            "commands cannot run in {}: `{}` is hidden from them; choose another folder, or remove the hidden \
                path from `sandbox.hide` (your own and the project's) and from the rules that deny files",
            workdir.display(),
            around(&policy.hidden, workdir).display()
        )));
    }
    Ok(policy)
}

/// Returns how a command sees its cache: it changes it directly, or a copy-on-write if its changes are discarded.
fn cache_seen(policy: &SandboxPolicy, folder: PathBuf) -> Seen {
    let is_discarded = policy.discards_changes();
    match policy.staging.as_ref().filter(|_| is_discarded) {
        Some(staging) => Seen::Copied(Layer::passing(staging.join("cache"), folder)),
        None => Seen::Cache(folder),
    }
}

/// Returns the caches that a command sees as copies-on-write. Not those that it must not change, and those that it changes
/// directly.
fn copied(backend: Backend, policy: &SandboxPolicy) -> Vec<Entry> {
    let mut entries = Vec::new();
    for cache in copied_caches(backend, policy) {
        let real = fs::canonicalize(&cache.folder).ok().filter(|it| it.is_dir());
        let at = real.clone().unwrap_or_else(|| cache.folder.clone());
        if !policy.copies(&at) || !has_place(policy, &at) {
            continue;
        }
        if at != cache.folder {
            entries.push(Entry { at: cache.folder.clone(), seen: Seen::Link(at.clone()) });
        }
        let mut layer = Layer::of(cache, real);
        layer.is_kept = !policy.discards_changes();
        if let Some(lock) = cache.lock.as_ref().filter(|it| has_place(policy, it)) {
            entries.push(Entry { at: lock.clone(), seen: Seen::Lock(layer.shared_lock()) });
        }
        entries.push(Entry { at, seen: Seen::Copied(layer) });
    }
    entries
}

/// Returns `true` if a path exists, or can be created in the sandbox because no folder around it is shown.
fn has_place(policy: &SandboxPolicy, path: &Path) -> bool {
    path.exists() || !(is_system_path(path) || policy.shows(path))
}

/// Adds the folder of its layer before each cache.
fn with_layers(entries: Vec<Entry>) -> Vec<Entry> {
    let with_layer = |entry: Entry| {
        let layer = match &entry.seen {
            Seen::Copied(layer) => Some(Entry { at: layer.folder.clone(), seen: Seen::Layer }),
            _ => None,
        };
        layer.into_iter().chain([entry])
    };
    entries.into_iter().flat_map(with_layer).collect()
}

/// Returns `true` if commands have a root of their own, in which folders are mounted.
fn builds_root(backend: Backend) -> bool {
    !matches!(backend, Backend::Landlock | Backend::Host)
}

/// Returns the path that contains a folder.
fn around<'a>(paths: &'a [PathBuf], folder: &'a Path) -> &'a Path {
    paths.iter().find(|it| folder.starts_with(it)).map_or(folder, PathBuf::as_path)
}

/// Collects what is hidden, protected and direct in the folders that a command sees.
fn covers(
    policy: &SandboxPolicy,
    workdir: &Path,
    entries: &[Entry],
    writable: &[PathBuf],
) -> Result<Covers, Refusal> {
    let mut covers = Covers::default();
    let shown = entries.iter().filter(|it| it.shape().is_some()).map(|it| it.at.clone());
    let shown: Vec<PathBuf> = shown.chain(writable.iter().cloned()).collect();
    for path in &policy.hidden {
        covers.add_exact(&shown, path, Covered::Hidden)?;
    }
    for path in &policy.protected {
        if path.is_absolute() {
            covers.add_exact(&shown, path, Covered::Protected)?;
        } else {
            for root in writable {
                covers.add_below(root, path, Covered::Protected)?;
            }
        }
    }
    if policy.staging.is_some() && policy.workdir_access == WorkdirAccess::Writable {
        for path in &policy.direct {
            covers.add_below(workdir, path, Covered::Direct)?;
        }
    }
    Ok(covers)
}

fn existing(what: &str, path: &Path) -> Result<PathBuf, Refusal> {
    fs::canonicalize(path).map_err(|error| {
        Refusal::Policy(format!("the {what} {} cannot be used: {error}", path.display()))
    })
}

pub(super) fn shape(path: &Path) -> Shape {
    if path.is_dir() { Shape::Folder } else { Shape::File }
}

/// Refuses to make a folder writable that holds more than a project. What is inside a folder of the system or a hidden one is
/// writable if it was named.
fn not_broad(path: &Path, workdir: &Path, home: Option<&Path>) -> Result<(), Refusal> {
    let is_workdir = path == workdir;
    let broad = BroadFolder::of(path, home).filter(|it| is_workdir || *it == BroadFolder::Several);
    let Some(broad) = broad else { return Ok(()) };
    let remedy = if is_workdir {
        "commands do not work in it; work in the folder of one project (on the command line: `-C FOLDER`)"
    } else {
        "it was not made writable; choose a folder inside it"
    };
    Err(Refusal::Policy(format!("{} {broad}: {remedy}", path.display())))
}

/// Adds a path of the system if it exists. A link stays a link, and its target is added as well.
fn add_system(entries: &mut Vec<Entry>, path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if !metadata.is_symlink() {
        entries.push(Entry { at: path.into(), seen: Seen::System(shape(path)) });
        return;
    }
    let (Ok(target), Ok(real)) = (fs::read_link(path), fs::canonicalize(path)) else { return };
    entries.push(Entry { at: path.into(), seen: Seen::Link(target) });
    let seen = |entry: &Entry| entry.shape().is_some() && real.starts_with(&entry.at);
    if !entries.iter().any(seen) {
        entries.push(Entry { seen: Seen::System(shape(&real)), at: real });
    }
}

#[cfg(test)]
pub(crate) mod tests;
