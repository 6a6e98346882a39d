//! What a policy hides, protects and applies immediately in the folders of a view.
//!
//! A mount inside another one would make its path accessible again. [`Covers::lay`] therefore keeps only those that are
//! stricter than what is around them:
//!
//! - nothing is mounted in a hidden folder;
//! - a protected path is mounted where commands could write, and a name that is protected in every folder only where they write
//!   directly: the screen decides about collected changes;
//! - a path is direct only where changes are collected, and not inside a protected one;
//! - folders on the way are pinned only where commands write directly.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::fs_view::{Covered, Entry, Seen, shape};
use crate::job::Refusal;

/// A path that is mounted separately if the access around it requires that.
#[derive(Debug)]
struct Cover {
    root: PathBuf,
    at: PathBuf,
    covered: Covered,
    /// Whether the policy names this very path, and not a name in every folder.
    is_exact: bool,
    /// Why it cannot be covered.
    obstacle: Option<Obstacle>,
}

#[derive(Debug)]
enum Obstacle {
    /// A symbolic link.
    Link,
    /// It is unknown what is there: a command may have changed the mode of a folder around it.
    Unknown(io::Error),
}

/// The paths of a view that may be mounted separately.
#[derive(Debug, Default)]
pub(super) struct Covers(Vec<Cover>);

/// The access of a command to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Hidden,
    ReadOnly,
    /// Changes are collected.
    Collected,
    /// Changes are applied immediately.
    Direct,
}

impl Covers {
    /// Covers an absolute path in the innermost of these folders that contains it. A path that is one of them is covered as
    /// a whole.
    pub(super) fn add_exact(
        &mut self,
        folders: &[PathBuf],
        path: &Path,
        covered: Covered,
    ) -> Result<(), Refusal> {
        let holding = folders.iter().filter(|it| path.starts_with(it));
        let innermost = holding.max_by_key(|it| it.components().count());
        match innermost.and_then(|root| Some((root, path.strip_prefix(root).ok()?))) {
            Some((root, below)) if below.components().next().is_some() => {
                self.add(root, below, covered, true)
            }
            Some((root, _)) => {
                let (root, at, obstacle) = (root.clone(), path.to_path_buf(), None);
                self.0.push(Cover { root, at, covered, is_exact: true, obstacle });
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Covers a path in a folder.
    pub(super) fn add_below(
        &mut self,
        root: &Path,
        path: &Path,
        covered: Covered,
    ) -> Result<(), Refusal> {
        self.add(root, path, covered, false)
    }

    fn add(
        &mut self,
        root: &Path,
        path: &Path,
        covered: Covered,
        is_exact: bool,
    ) -> Result<(), Refusal> {
        plain(path)?;
        let mut at = root.to_path_buf();
        let last = path.components().count();
        for (index, component) in path.components().enumerate() {
            at.push(component);
            let (obstacle, is_folder) = match fs::symlink_metadata(&at) {
                Ok(it) => (it.is_symlink().then_some(Obstacle::Link), it.is_dir()),
                Err(error) if is_missing(&error) => return Ok(()),
                Err(error) => (Some(Obstacle::Unknown(error)), true),
            };
            let is_whole = obstacle.is_some();
            let covered = if is_whole || index + 1 == last { covered } else { Covered::Pinned };
            if covered != Covered::Direct || is_folder {
                self.0.push(Cover {
                    root: root.into(),
                    at: at.clone(),
                    covered,
                    is_exact,
                    obstacle,
                });
            }
            if is_whole {
                break;
            }
        }
        Ok(())
    }

    /// Adds to the entries of a view, from the root down, those covers that have an effect. Changes to the folder `collected`
    /// are collected.
    ///
    /// # Errors
    ///
    /// Returns an error if a link is to be protected where commands write directly: it could be replaced.
    pub(super) fn lay(
        mut self,
        mut entries: Vec<Entry>,
        collected: Option<&Path>,
    ) -> Result<Vec<Entry>, Refusal> {
        let depth = |path: &Path| path.components().count();
        // The sorts are stable: of two entries with the same path, the one added last is visible.
        entries.sort_by_key(|entry| depth(&entry.at));
        self.0.sort_by_key(|cover| (depth(&cover.at), cover.covered));
        let mut laid: Vec<Entry> = Vec::with_capacity(entries.len() + self.0.len());
        let mut entries = entries.into_iter().peekable();
        let mut screened = Vec::new();
        for cover in self.0 {
            while let Some(entry) = entries.next_if(|it| depth(&it.at) <= depth(&cover.at)) {
                laid.push(entry);
            }
            let access = access(&laid, &cover.at, collected);
            let has_effect = match (cover.covered, access) {
                (_, Access::Hidden) => false,
                (Covered::Hidden, _) | (Covered::Protected | Covered::Pinned, Access::Direct) => {
                    true
                }
                (Covered::Protected, Access::Collected) => {
                    // A link cannot be covered; the screen decides about it.
                    screened.push(cover.at.clone());
                    cover.is_exact && !matches!(cover.obstacle, Some(Obstacle::Link))
                }
                (Covered::Direct, Access::Collected) => {
                    !screened.iter().any(|it| cover.at.starts_with(it))
                }
                _ => false,
            };
            let is_pinned = |it: &Entry| it.at == cover.at && matches!(it.seen, Seen::Part { .. });
            if !has_effect || (cover.covered == Covered::Pinned && laid.iter().any(is_pinned)) {
                continue;
            }
            let Cover { root, at, covered, obstacle, .. } = cover;
            if let Some(obstacle) = obstacle {
                return Err(refusal(&at, &obstacle));
            }
            laid.push(Entry { seen: Seen::Part { root, shape: shape(&at), covered }, at });
        }
        laid.extend(entries);
        Ok(laid)
    }
}

/// Checks that a path stays in its folder.
pub(super) fn plain(path: &Path) -> Result<(), Refusal> {
    let mut components = path.components().peekable();
    if components.peek().is_none() || components.any(|it| !matches!(it, Component::Normal(_))) {
        return Err(Refusal::Policy(format!(
            "{} is not a path inside a folder; a hidden or protected relative path must name something in \
                the folder, without `.` and `..`",
            path.display()
        )));
    }
    Ok(())
}

/// Returns `true` if an error means that there is nothing at a path.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn refusal(path: &Path, obstacle: &Obstacle) -> Refusal {
    let target = fs::read_link(path).ok();
    let path = path.display();
    Refusal::Policy(match obstacle {
        Obstacle::Link => format!(
            "the protected path {path} is a symbolic link{}; a command that writes directly to the folder could \
                replace the link; put the file itself there, remove the path from the protected paths, or stage changes \
                (`loopwright doctor sandbox` shows why changes are not staged)",
            target.map_or_else(String::new, |it| format!(" to {}", it.display()))
        ),
        Obstacle::Unknown(error) => format!(
            "{path} cannot be hidden or protected: {error}; give yourself access to its parent \
                folders, for example with `chmod u+rwx`"
        ),
    })
}

/// Returns the access to a path: that of the innermost entry at it or around it.
fn access(laid: &[Entry], path: &Path, collected: Option<&Path>) -> Access {
    let holding = laid.iter().filter(|it| it.shape().is_some() && path.starts_with(&it.at));
    let innermost = holding.max_by_key(|it| it.at.components().count());
    match innermost.map(|it| (&it.seen, &it.at)) {
        Some((Seen::Writable(_), at)) if Some(at.as_path()) == collected => Access::Collected,
        Some((Seen::Part { covered: Covered::Hidden, .. }, _)) | None => Access::Hidden,
        Some((
            Seen::Part { covered: Covered::Protected, .. } | Seen::System(_) | Seen::Readable(_),
            _,
        )) => Access::ReadOnly,
        Some(_) => Access::Direct,
    }
}
