//! The root that a command sees, built by the first process of its namespaces.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};

use super::confine::Identity;
use super::filter::Kernel;
use super::fs_view::{Covered, Entry, Seen, Shape, View};
use super::layers;
use super::overlay;
use super::share;
use super::sys;
use crate::beneath::open_below;
use crate::home::HOME;
use crate::job::Refusal;
use crate::policy::Limits;

/// Devices that programs expect.
pub(crate) const DEVICES: [&str; 5] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Parts of `/proc` that are settings of the host.
pub(crate) const SETTINGS: [&str; 7] = [
    "proc/sys",
    "proc/sysrq-trigger",
    "proc/irq",
    "proc/bus",
    "proc/fs",
    "proc/asound",
    "proc/acpi",
];

/// Parts of `/proc` that reveal the state of the host.
const SECRETS: [&str; 7] = [
    "proc/kcore",
    "proc/keys",
    "proc/timer_list",
    "proc/kmsg",
    "proc/key-users",
    "proc/kallsyms",
    "proc/config.gz",
];

/// A file system in memory with size zero would have no limit.
const SMALLEST: u64 = 4096;

/// The folder in which the new root is built. It exists on every system.
const BASE: &str = "/tmp";

/// The mount trees of a view, cloned while the host's paths are visible, in the order of the view's entries.
pub(crate) type Trees = Vec<Option<OwnedFd>>;

/// Clones the mount tree of an entry. Paths below a writable folder are resolved without links, because other
/// commands may be changing that folder.
pub(crate) fn clone_tree(entry: &Entry) -> io::Result<Option<OwnedFd>> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    match &entry.seen {
        Seen::Link(_) | Seen::Part { covered: Covered::Hidden, .. } => Ok(None),
        Seen::Part { root, .. } => {
            let folder = File::open(root)?;
            let below = entry.at.strip_prefix(root).map_err(io::Error::other)?;
            let opened = open_below(folder.as_fd(), below)?;
            Ok(Some(open_tree(&opened, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)?))
        }
        Seen::System(_)
        | Seen::Readable(_)
        | Seen::Writable(_)
        | Seen::Cache(_)
        | Seen::Lock(_)
        | Seen::Copied(_)
        | Seen::Layer
        | Seen::Staging => {
            Ok(Some(open_tree(CWD, entry.source(), flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?))
        }
    }
}

/// Returns the restrictions of an entry's mount.
pub(crate) fn attributes(entry: &Entry) -> u64 {
    let read_only = if entry.read_only() { sys::READ_ONLY } else { 0 };
    sys::NO_SUID | sys::NO_DEVICES | read_only
}

fn at<T>(stage: impl Into<String>, result: Result<T, impl Into<io::Error>>) -> Result<T, Refusal> {
    result.map_err(|error| Refusal::setup(stage, &error.into()))
}

/// Adds an entry to an error. If a part of a writable folder is not found any more, another process has changed it since it
/// was checked. Whatever the error, no other driver must try it.
fn at_entry<T>(entry: &Entry, result: io::Result<T>) -> Result<T, Refusal> {
    result.map_err(|error| match entry.seen {
        Seen::Part { .. } => {
            let changed = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::EXDEV, libc::ESTALE];
            let is_changed = error.raw_os_error().is_some_and(|it| changed.contains(&it));
            let hint = match error.raw_os_error() {
                _ if is_changed => "; another command may be changing the path; try again",
                Some(libc::EMFILE | libc::ENFILE | libc::ENOSPC) => {
                    "; too many paths are hidden or protected: name folders instead of the files in them"
                }
                _ => "",
            };
            Refusal::Policy(format!(
                "{} cannot be hidden or protected: {error}{hint}",
                entry.at.display()
            ))
        }
        _ => Refusal::setup(format!("mounting {}", entry.at.display()), &error),
    })
}

/// Detaches this process's mounts from the host's, and clones the missing trees.
pub(crate) fn detach(view: &View, trees: &mut Trees) -> Result<Vec<OwnedFd>, Refusal> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    at("private mounts", mount_change("/", private))?;
    for (entry, tree) in view.entries.iter().zip(trees.iter_mut()) {
        if tree.is_none() {
            *tree = at_entry(entry, clone_tree(entry))?;
            if let Some(tree) = tree {
                let attributes = attributes(entry);
                let set = sys::mount_setattr(tree.as_fd(), c"", sys::RECURSIVE, attributes, None);
                at_entry(entry, set)?;
            }
        }
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    DEVICES
        .iter()
        .map(|device| at(format!("cloning {device}"), open_tree(CWD, *device, flags)))
        .collect()
}

/// Builds the root from cloned trees and changes into it. Returns whose kernel limits apply.
pub(crate) fn build(
    view: &View,
    trees: Trees,
    devices: Vec<OwnedFd>,
    limits: &Limits,
    identity: Identity,
) -> Result<Kernel, Refusal> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    at("new root", mount("tmpfs", BASE, "tmpfs", quiet, Some(c"size=1m,mode=755")))?;
    at("new root", std::env::set_current_dir(BASE))?;
    scratch(limits)?;
    system_devices(devices)?;
    let kernel = process_information(limits)?;
    // Before the cache, which is mounted in it.
    folder(Path::new("tmp/home"), 0o700);
    let owner =
        (rustix::fs::Uid::from_raw(identity.user), rustix::fs::Gid::from_raw(identity.group));
    rustix::fs::chown("tmp/home", Some(owner.0), Some(owner.1)).ok();
    let (mut staging, mut layer) = (None, None);
    for (entry, tree) in view.entries.iter().zip(trees) {
        match (&entry.seen, tree) {
            (Seen::Staging, tree) => staging = tree,
            (Seen::Layer, tree) => layer = tree,
            (Seen::Copied(copied), Some(lower)) => {
                let place = inside(&entry.at);
                DirBuilder::new().recursive(true).mode(0o555).create(&place).ok();
                let tree = layer.take();
                let laid = overlay::lay_cache(&lower, tree.as_ref(), copied, &place, identity);
                at(layers::STAGE, laid)?;
            }
            (Seen::Writable(_), Some(folder)) if entry.at == view.workdir && staging.is_some() => {
                let place = inside(&entry.at);
                DirBuilder::new().recursive(true).mode(0o555).create(&place).ok();
                let laid = overlay::lay(&folder, staging.take().as_ref(), &place, identity);
                at(overlay::STAGE, laid)?;
            }
            (_, tree) => place(entry, tree)?,
        }
    }
    name_users(identity).ok();
    at("changing the root", rustix::process::pivot_root(".", "."))?;
    at("removing the old root", unmount(".", UnmountFlags::DETACH))?;
    at("changing the root", std::env::set_current_dir("/"))?;
    for path in [c"/", c"/dev"] {
        at("read-only root", sys::mount_setattr(CWD, path, 0, sys::READ_ONLY, None))?;
    }
    Ok(kernel)
}

fn scratch(limits: &Limits) -> Result<(), Refusal> {
    let size = option(&format!("size={},mode=1777,nr_inodes=65536", limits.scratch.max(SMALLEST)))?;
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    folder(Path::new("tmp"), 0o755);
    at("scratch space", mount("tmpfs", "tmp", "tmpfs", quiet, Some(size.as_c_str())))?;
    folder(Path::new("dev"), 0o755);
    at("devices", mount("tmpfs", "dev", "tmpfs", quiet, Some(c"size=64k,mode=755")))?;
    folder(Path::new("dev/shm"), 0o755);
    at("shared memory", mount("tmpfs", "dev/shm", "tmpfs", quiet, Some(size.as_c_str())))
}

fn system_devices(devices: Vec<OwnedFd>) -> Result<(), Refusal> {
    for (path, tree) in DEVICES.iter().zip(devices) {
        let place = inside(Path::new(path));
        file(&place, 0o444);
        at(*path, sys::mount_setattr(tree.as_fd(), c"", 0, sys::NO_SUID, None))?;
        at(*path, attach(&tree, &place))?;
    }
    folder(Path::new("dev/pts"), 0o755);
    let terminals = Some(c"newinstance,ptmxmode=0666,mode=620");
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    at("terminals", mount("devpts", "dev/pts", "devpts", quiet, terminals))?;
    let links = [
        ("dev/fd", "/proc/self/fd"),
        ("dev/stdin", "/proc/self/fd/0"),
        ("dev/stdout", "/proc/self/fd/1"),
        ("dev/stderr", "/proc/self/fd/2"),
        ("dev/ptmx", "pts/ptmx"),
    ];
    links.into_iter().try_for_each(|(link, target)| at(link, symlink(target, link)))
}

fn process_information(limits: &Limits) -> Result<Kernel, Refusal> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    folder(Path::new("proc"), 0o555);
    at("process information", mount("proc", "proc", "proc", quiet, None))?;
    // A limit of this namespace alone if the kernel supports that (6.14). Older kernels refuse the write.
    fs::write("proc/sys/kernel/pid_max", limits.processes.max(301).to_string()).ok();
    // The same, from 6.9 on. It exceeds the policy's limit, so that the supervisor acts first and reports which
    // limit was reached.
    let pages = limits.memory.saturating_add(limits.memory / 4) / rustix::param::page_size() as u64;
    fs::write("proc/sys/kernel/shmall", pages.to_string()).ok();
    let kernel = share::limit(Path::new("proc/sys"));
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    for path in SETTINGS.iter().filter(|path| Path::new(path).exists()) {
        let tree = at(*path, open_tree(CWD, *path, flags))?;
        at(*path, sys::mount_setattr(tree.as_fd(), c"", 0, sys::READ_ONLY, None))?;
        at(*path, attach(&tree, Path::new(path)))?;
    }
    for path in SECRETS.iter().filter(|path| Path::new(path).exists()) {
        let tree = at(*path, open_tree(CWD, "dev/null", flags))?;
        at(*path, attach(&tree, Path::new(path)))?;
    }
    Ok(kernel)
}

fn place(entry: &Entry, tree: Option<OwnedFd>) -> Result<(), Refusal> {
    let place = inside(&entry.at);
    if let Some(parent) = place.parent() {
        // Below another mount, the path exists; otherwise the mount fails. What is created here is not kept, so no
        // process must write to it.
        DirBuilder::new().recursive(true).mode(0o555).create(parent).ok();
    }
    match (&entry.seen, tree) {
        (Seen::Link(target), _) => match symlink(target, &place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                at_entry(entry, Err(error))
            }
            _ => Ok(()),
        },
        (Seen::Part { shape, covered: Covered::Hidden, .. }, _) => {
            at_entry(entry, hide(&place, *shape))
        }
        (Seen::Part { .. }, Some(tree)) => at_entry(entry, attach_below(&tree, &place)),
        (_, Some(tree)) => {
            match entry.shape() {
                Some(Shape::Folder) => folder(&place, 0o755),
                _ => file(&place, 0o444),
            }
            at_entry(entry, attach(&tree, &place))
        }
        (_, None) => at_entry(entry, Err(io::Error::from_raw_os_error(libc::ENOENT))),
    }
}

/// Covers a path with an object that no process can open.
fn hide(place: &Path, shape: Shape) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let cover = match shape {
        Shape::File => PathBuf::from(".hidden-file"),
        Shape::Folder => PathBuf::from(".hidden-folder"),
    };
    match shape {
        Shape::File => file(&cover, 0o000),
        Shape::Folder => folder(&cover, 0o000),
    }
    fs::set_permissions(&cover, fs::Permissions::from_mode(0o000))?;
    let tree = open_tree(CWD, &cover, flags)?;
    sys::mount_setattr(
        tree.as_fd(),
        c"",
        0,
        sys::READ_ONLY | sys::NO_SUID | sys::NO_DEVICES,
        None,
    )?;
    attach_below(&tree, place)
}

pub(super) fn attach(tree: &OwnedFd, place: &Path) -> io::Result<()> {
    Ok(move_mount(tree, c"", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Attaches a tree at a path that is resolved without links.
fn attach_below(tree: &OwnedFd, place: &Path) -> io::Result<()> {
    let target = open_below(CWD, place)?;
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, c"", &target, c"", both)?)
}

/// Writes the names of the sandbox's users for programs. The host's users stay unknown.
fn name_users(identity: Identity) -> io::Result<()> {
    let Identity { user, group } = identity;
    let mut users = format!(
        "agent:x:{user}:{group}:agent:{HOME}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
    );
    let mut groups = format!("agent:x:{group}:\nnogroup:x:65534:\n");
    if user != 0 {
        users.insert_str(0, "root:x:0:0:root:/root:/bin/sh\n");
        groups.insert_str(0, "root:x:0:\n");
    }
    write_new("etc/passwd", &users)?;
    write_new("etc/group", &groups)
}

fn write_new(path: &str, text: &str) -> io::Result<()> {
    use io::Write as _;
    File::options().write(true).create_new(true).mode(0o644).open(path)?.write_all(text.as_bytes())
}

fn option(text: &str) -> Result<CString, Refusal> {
    CString::new(text).map_err(|error| Refusal::setup("mount options", &io::Error::other(error)))
}

/// Returns the path below the current folder, in which the root is built.
fn inside(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).into()
}

/// Creates a folder to mount on, unless it exists.
pub(super) fn folder(path: &Path, mode: u32) {
    DirBuilder::new().mode(mode).create(path).ok();
}

/// Creates a file to mount on, unless it exists.
fn file(path: &Path, mode: u32) {
    File::options().write(true).create_new(true).mode(mode).open(path).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_that_has_changed_is_tried_again() {
        let seen = Seen::Part { root: "/srv".into(), shape: Shape::File, covered: Covered::Hidden };
        let entry = Entry { at: "/srv/a".into(), seen };
        let reason = |errno| match at_entry::<()>(&entry, Err(io::Error::from_raw_os_error(errno)))
        {
            Err(Refusal::Policy(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason(libc::ENOENT).ends_with("try again"));
        assert!(reason(libc::EMFILE).ends_with("name folders instead of the files in them"));
        assert!(reason(libc::EACCES).ends_with("(os error 13)"));
    }
}
