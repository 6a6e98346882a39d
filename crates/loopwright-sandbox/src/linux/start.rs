//! Starting a command in its backend.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource};

use super::cgroup::{self, Groups};
use super::confine::{Confinement, Files, Landlock, Processes, Rights, Streams};
use super::filter::{Kernel, Sockets};
use super::fs_view::{Seen, View};
use super::layers::Layers;
use super::quarantine::Sweep;
use super::{bubblewrap, container, init_process, namespaces, process_tree, root};
use crate::beneath::random;
use crate::home::SCRATCH;
use crate::job::{LaunchRequest, Refusal};
use crate::policy::{Backend, Network};
use crate::removal;

/// The prefix of the names of private scratch folders; the process ID of the helper follows.
const SCRATCH_PREFIX: &str = "loopwright-scratch-";

/// A running command, or one that is about to report whether it runs.
pub(crate) struct Started {
    /// The child of the helper.
    pub(crate) pid: Pid,
    pub(crate) inner: Inner,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// The check at the end. `None` if nothing is confined.
    pub(crate) sweep: Option<Sweep>,
    /// A private folder to remove at the end.
    pub(crate) scratch: Option<PathBuf>,
    pub(crate) groups: Option<Groups>,
    /// The layers of its caches.
    pub(crate) layers: Layers,
    /// Whether the processes belong to root, so that the kernel does not count them.
    pub(crate) uncounted: bool,
}

/// The process that reports about the command.
pub(crate) enum Inner {
    /// A first process in a namespace.
    First {
        control: OwnedFd,
        reports: OwnedFd,
        complaints: Option<OwnedFd>,
        /// Holds the command's mounts until it is closed.
        mounts: Option<OwnedFd>,
    },
    /// None: the helper's child is the running command.
    Direct,
    /// The same, but the child is the client of a container that must be ended by its name.
    Client,
}

/// Starts the command of a job.
pub(crate) fn start(job: &LaunchRequest, streams: Streams) -> Result<Started, Refusal> {
    // A process that loses its parent becomes a child of this process, and cannot escape from it.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| Refusal::setup("reaper", &error.into()))?;
    let mut view = View::of(job)?;
    let layers = Layers::open(&mut view)?;
    let sweep = (job.backend != Backend::Host).then(|| Sweep::of(&view, job));
    let started = |pid, inner| Started {
        pid,
        inner,
        notes: Vec::new(),
        sweep: None,
        scratch: None,
        groups: None,
        layers: Layers::default(),
        uncounted: rustix::process::geteuid().is_root(),
    };
    match job.backend {
        Backend::Namespaces => {
            let namespaces::Launched { pid, control, reports, mounts, notes, groups, uncounted } =
                namespaces::launch(job, &view, streams)?;
            let inner = Inner::First { control, reports, complaints: None, mounts: Some(mounts) };
            Ok(Started { notes, sweep, groups, layers, uncounted, ..started(pid, inner) })
        }
        Backend::Bubblewrap => {
            let (launched, groups) =
                cgroup::around(job, || bubblewrap::launch(job, &view, streams));
            let (pid, inner) = launched?;
            Ok(Started { sweep, groups, ..started(pid, inner) })
        }
        Backend::Landlock => landlock(job, view, streams, sweep),
        Backend::Docker | Backend::Podman => {
            let scratch =
                scratch(job).map_err(|error| Refusal::setup("environment file", &error))?;
            let pid = container::launch(job, &view, streams, &scratch).inspect_err(|_| {
                removal::remove(&scratch).ok();
            })?;
            Ok(Started { sweep, scratch: Some(scratch), ..started(pid, Inner::Client) })
        }
        Backend::Host => {
            let counted = with_user_limit(job);
            let confinement = Confinement {
                identity: None,
                rights: Rights::Kept,
                processes: limited(),
                folder: view.workdir,
            };
            let (pid, groups) =
                cgroup::around(job, || init_process::start(&counted, confinement, streams));
            Ok(Started { groups, ..started(pid?, Inner::Direct) })
        }
    }
}

fn landlock(
    job: &LaunchRequest,
    view: View,
    streams: Streams,
    sweep: Option<Sweep>,
) -> Result<Started, Refusal> {
    let scratch = scratch(job).map_err(|error| Refusal::setup("scratch space", &error))?;
    let mut counted = with_user_limit(job);
    for (name, value) in &mut counted.env {
        let given =
            name.to_str().is_some_and(|name| job.policy.environment.values.contains_key(name));
        if (name == "HOME" || name == "TMPDIR") && !given {
            *value = scratch.clone().into();
        }
    }
    let mut files = Files {
        readable: vec!["/proc".into()],
        writable: vec![scratch.clone()],
        devices: root::DEVICES.map(PathBuf::from).into(),
        ..Files::default()
    };
    for entry in &view.entries {
        match entry.seen {
            Seen::System(_) | Seen::Readable(_) => files.readable.push(entry.at.clone()),
            Seen::Writable(_) | Seen::Cache(_) => files.writable.push(entry.at.clone()),
            Seen::Part { .. }
            | Seen::Staging
            | Seen::Lock(_)
            | Seen::Layer
            | Seen::Copied(_)
            | Seen::Link(_) => {}
        }
    }
    let confinement = Confinement {
        identity: None,
        rights: Rights::Reduced {
            files,
            sockets: match job.policy.network {
                Network::Host => Sockets::Host,
                Network::Off | Network::Loopback | Network::Domains(_) => Sockets::Pairs,
            },
            kernel: Kernel::Users,
            landlock: Landlock::Required,
        },
        processes: limited(),
        folder: view.workdir,
    };
    let (pid, groups) = cgroup::around(job, || init_process::start(&counted, confinement, streams));
    match pid {
        Ok(pid) => Ok(Started {
            pid,
            inner: Inner::Direct,
            notes: Vec::new(),
            sweep,
            scratch: Some(scratch),
            groups,
            layers: Layers::default(),
            uncounted: rustix::process::geteuid().is_root(),
        }),
        Err(refusal) => {
            removal::remove(&scratch).ok();
            Err(refusal)
        }
    }
}

/// Without a user namespace the kernel counts all processes of the user, so this adds them to the limit.
fn with_user_limit(job: &LaunchRequest) -> LaunchRequest {
    let mut job = job.clone();
    let others = process_tree::owned_by(rustix::process::geteuid().as_raw());
    job.policy.limits.processes = job.policy.limits.processes.saturating_add(others);
    job
}

/// Root has no limit on processes.
fn limited() -> Processes {
    let unlimited = rustix::process::getrlimit(Resource::Nproc).maximum.is_none();
    if unlimited && rustix::process::geteuid().is_root() {
        Processes::Unlimited
    } else {
        Processes::Limited
    }
}

/// Creates a private folder, and removes the folders of helpers that were killed.
fn scratch(job: &LaunchRequest) -> io::Result<PathBuf> {
    let temporary = Path::new(SCRATCH);
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(temporary)?.flatten() {
        let name = entry.file_name();
        let helper =
            name.to_str().and_then(|name| name.strip_prefix(SCRATCH_PREFIX)?.split('-').next());
        let left = helper.is_some_and(|helper| !Path::new("/proc").join(helper).exists());
        if left
            && entry.metadata().is_ok_and(|metadata| metadata.uid() == user && metadata.is_dir())
            && container::remove_left(job, &entry.path())
        {
            removal::remove(&entry.path()).ok();
        }
    }
    let name = format!("{SCRATCH_PREFIX}{}-{:016x}", std::process::id(), random());
    let path = temporary.join(name);
    fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}
