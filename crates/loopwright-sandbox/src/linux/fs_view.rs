//! The part of the file system that a command sees: an allow-list, resolved and checked before
//! anything starts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::home::cache_place;
use crate::job::{LaunchRequest, Refusal};
use crate::policy::{BroadPaths, WorkdirAccess};

/// Folders with the programs and libraries of the system.
const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

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
    /// A part of a writable folder that is mounted separately.
    Part { root: PathBuf, shape: Shape, covered: Covered },
    /// A link to this path.
    Link(PathBuf),
}

/// How a part of a writable folder differs from the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Covered {
    /// Not at all. But it cannot be renamed, so that the paths below it stay valid.
    Pinned,
    /// It cannot be changed.
    Protected,
    /// It cannot be read.
    Hidden,
    /// Not at all, although changes to the folder around it are collected.
    Direct,
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
            Seen::Cache(folder) => folder,
            _ => &self.at,
        }
    }

    pub(crate) fn shape(&self) -> Option<Shape> {
        match &self.seen {
            Seen::System(shape)
            | Seen::Readable(shape)
            | Seen::Writable(shape)
            | Seen::Part { shape, .. } => Some(*shape),
            Seen::Staging | Seen::Cache(_) => Some(Shape::Folder),
            Seen::Link(_) => None,
        }
    }

    pub(crate) fn read_only(&self) -> bool {
        match &self.seen {
            Seen::System(_) | Seen::Readable(_) => true,
            Seen::Part { covered, .. } => !matches!(covered, Covered::Pinned | Covered::Direct),
            Seen::Writable(_) | Seen::Cache(_) | Seen::Staging | Seen::Link(_) => false,
        }
    }
}

impl View {
    pub(crate) fn of(job: &LaunchRequest) -> Result<Self, Refusal> {
        let policy = &job.policy;
        let workdir = existing("working folder", &policy.workdir)?;
        if !workdir.is_dir() {
            return Err(Refusal::Policy(format!("{} is not a folder", workdir.display())));
        }
        let mut writable = match policy.workdir_access {
            WorkdirAccess::Writable => vec![workdir.clone()],
            WorkdirAccess::ReadOnly => Vec::new(),
        };
        for path in &policy.write_paths {
            writable.push(existing("writable path", path)?);
        }
        let place = cache_place(job.backend, policy);
        let cache = policy.cache.as_ref().zip(place);
        let cache = cache.map(|(path, place)| Ok((existing("cache", path)?, place))).transpose()?;
        if policy.broad_paths == BroadPaths::Refused {
            let both = writable.iter().chain(cache.iter().map(|(path, _)| path));
            both.into_iter().try_for_each(|path| not_broad(path, job.home.as_deref()))?;
        }
        let mut entries = Vec::new();
        for path in
            SYSTEM.iter().map(PathBuf::from).chain(ETC.map(|name| Path::new("/etc").join(name)))
        {
            add_system(&mut entries, &path);
        }
        for path in &policy.read_paths {
            let real = existing("readable path", path)?;
            if path.is_symlink() {
                entries.push(Entry { at: path.clone(), seen: Seen::Link(real.clone()) });
            }
            entries.push(Entry { seen: Seen::Readable(shape(&real)), at: real });
        }
        if policy.workdir_access == WorkdirAccess::ReadOnly {
            entries.push(Entry { at: workdir.clone(), seen: Seen::Readable(Shape::Folder) });
        }
        for path in &writable {
            entries.push(Entry { seen: Seen::Writable(shape(path)), at: path.clone() });
        }
        if let Some((folder, at)) = cache {
            entries.push(Entry { at, seen: Seen::Cache(folder) });
        }
        let staged = policy.staging.is_some();
        // The screen decides which collected changes are applied, so nothing needs to be covered.
        let direct: Vec<PathBuf> =
            writable.iter().filter(|root| !(staged && **root == workdir)).cloned().collect();
        let mut parts = Parts { pins: direct.clone(), ..Parts::default() };
        for path in &policy.protected {
            if path.is_absolute() {
                // A folder around it could be moved before its changes are judged. A link cannot be covered.
                let covered_in = if path.is_symlink() { &direct } else { &writable };
                parts.cover_in(&writable, covered_in, path, Covered::Protected)?;
                continue;
            }
            for root in &direct {
                parts.cover(root, path, Covered::Protected)?;
            }
        }
        for path in policy.direct.iter().filter(|_| staged) {
            parts.cover(&workdir, path, Covered::Direct)?;
        }
        let mut shown: Vec<PathBuf> = entries.iter().map(|it| it.at.clone()).collect();
        shown.push(workdir.clone());
        for path in &policy.hidden {
            if path.is_absolute() {
                parts.cover_in(&shown, &shown, path, Covered::Hidden)?;
            } else {
                parts.cover(&workdir, path, Covered::Hidden)?;
            }
        }
        entries.extend(parts.entries);
        // The sort is stable: of two entries with the same path, the one added last is visible.
        entries.sort_by_key(|entry| entry.at.components().count());
        if let Some(staging) = &policy.staging {
            // The working folder is an overlay of its content and this.
            let seen = Seen::Staging;
            entries.insert(0, Entry { at: existing("staging folder", staging)?, seen });
        }
        Ok(Self { workdir, entries, writable })
    }
}

fn existing(what: &str, path: &Path) -> Result<PathBuf, Refusal> {
    fs::canonicalize(path).map_err(|error| {
        Refusal::Policy(format!("the {what} {} cannot be used: {error}", path.display()))
    })
}

fn shape(path: &Path) -> Shape {
    if path.is_dir() { Shape::Folder } else { Shape::File }
}

fn not_broad(path: &Path, home: Option<&Path>) -> Result<(), Refusal> {
    if BroadPaths::include(path, home) {
        return Err(Refusal::Policy(format!(
            "{} contains more than a project and was not made writable; choose a folder inside \
                it, or allow it with `SandboxPolicy::with_broad_paths(BroadPaths::Allowed)`",
            path.display()
        )));
    }
    Ok(())
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

#[derive(Default)]
struct Parts {
    entries: Vec<Entry>,
    pinned: BTreeSet<PathBuf>,
    /// The folders that the command changes directly. In others, nothing is pinned: a pinned folder is mounted writable.
    pins: Vec<PathBuf>,
}

impl Parts {
    /// Covers an absolute path in the innermost of these folders that contains it, if that is one of `covered_in`.
    fn cover_in(
        &mut self,
        folders: &[PathBuf],
        covered_in: &[PathBuf],
        path: &Path,
        covered: Covered,
    ) -> Result<(), Refusal> {
        let holding = folders.iter().filter(|it| path.starts_with(it));
        let innermost = holding.max_by_key(|it| it.components().count());
        let Some(root) = innermost.filter(|it| covered_in.contains(it)) else { return Ok(()) };
        match path.strip_prefix(root) {
            Ok(below) if below.components().next().is_some() => self.cover(root, below, covered),
            _ => Ok(()),
        }
    }

    /// Covers `path` below `root`, and pins every folder in between, so that none of them can be renamed and
    /// replaced.
    fn cover(&mut self, root: &Path, path: &Path, covered: Covered) -> Result<(), Refusal> {
        let components: Vec<_> = path.components().collect();
        if components.is_empty()
            || components.iter().any(|part| !matches!(part, Component::Normal(_)))
        {
            return Err(Refusal::Policy(format!(
                "{} is not a path inside a folder; protected and hidden paths must be relative \
                    and must not contain `..`",
                path.display()
            )));
        }
        let mut at = root.to_path_buf();
        for (index, component) in components.iter().enumerate() {
            at.push(component);
            let last = index + 1 == components.len();
            match fs::symlink_metadata(&at) {
                Ok(metadata) if metadata.is_symlink() => {
                    return Err(Refusal::Policy(format!(
                        "the protected path {} is a symbolic link and cannot be protected; \
                            remove the link, or take it off the list of protected paths",
                        at.display()
                    )));
                }
                Ok(_) if last => self.bind(root, &at, covered),
                Ok(_) if self.pins.iter().any(|it| it == root) => {
                    self.bind(root, &at, Covered::Pinned);
                }
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn bind(&mut self, root: &Path, at: &Path, covered: Covered) {
        if covered == Covered::Pinned && !self.pinned.insert(at.into()) {
            return;
        }
        if covered == Covered::Direct && !at.is_dir() {
            return;
        }
        let seen = Seen::Part { root: root.into(), shape: shape(at), covered };
        self.entries.push(Entry { at: at.into(), seen });
    }
}

#[cfg(test)]
pub(crate) mod tests;
