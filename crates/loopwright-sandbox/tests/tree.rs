//! A folder with all that is in it, to be compared with another.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What is at each path, the folder itself included.
pub(crate) type Tree = BTreeMap<PathBuf, Node>;

/// What is at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) mode: u32,
    pub(crate) modified: (i64, i64),
    owner: (u32, u32),
    /// The first path, in order, of the same file.
    pub(crate) same_as: PathBuf,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// How long it is, and a number that its bytes determine.
    File(usize, u64),
    Folder,
    Link(PathBuf),
    Pipe,
    Other,
}

/// Reads a folder with all that is in it.
pub(crate) fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut inodes = BTreeMap::new();
    read(root, Path::new(""), &mut tree, &mut inodes);
    tree
}

fn read(root: &Path, path: &Path, tree: &mut Tree, inodes: &mut BTreeMap<u64, PathBuf>) {
    let at = root.join(path);
    let status = fs::symlink_metadata(&at).unwrap();
    let kind = status.file_type();
    let content = if kind.is_dir() {
        Content::Folder
    } else if kind.is_file() {
        let bytes = fs::read(&at).unwrap();
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        Content::File(bytes.len(), hasher.finish())
    } else if kind.is_symlink() {
        Content::Link(fs::read_link(&at).unwrap())
    } else if kind.is_fifo() {
        Content::Pipe
    } else {
        Content::Other
    };
    let node = Node {
        mode: status.mode(),
        modified: (status.mtime(), status.mtime_nsec()),
        owner: (status.uid(), status.gid()),
        same_as: inodes.entry(status.ino()).or_insert_with(|| path.into()).clone(),
        content,
    };
    tree.insert(path.into(), node);
    if kind.is_dir() {
        // Only the administrator may look into a folder without rights. Others get them for the time of the look.
        let is_closed = status.mode() & 0o500 != 0o500;
        if is_closed {
            fs::set_permissions(&at, Permissions::from_mode(status.mode() | 0o700)).unwrap();
        }
        let mut names: Vec<_> =
            fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            read(root, &path.join(name), tree, inodes);
        }
        if is_closed {
            fs::set_permissions(&at, status.permissions()).unwrap();
        }
    }
}
