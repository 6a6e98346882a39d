//! The namespaces of a command, which the helper creates and their first process sets up.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::exit;

use rustix::process::{DumpableBehavior, Pid, Signal};

use super::cgroup::{self, Groups};
use super::confine::{Confinement, Files, Identity, Landlock, Processes, Rights, Streams};
use super::filter::{Kernel, Sockets};
use super::fs_view::{Entry, Seen, View};
use super::init_process::{self, InitPipes};
use super::root::{self, Trees};
use super::sys::{self, Side};
use crate::job::{self, InitReport, LaunchRequest, Refusal};
use crate::policy::Network;

/// The first host user ID of a sandbox that root starts. No other process uses these IDs.
const FIRST_USER: u32 = 100_000;
/// The user ID of the command in the sandbox if root started the agent.
const AGENT: u32 = 1000;

/// A started first process.
pub(crate) struct Launched {
    pub(crate) pid: Pid,
    pub(crate) control: OwnedFd,
    pub(crate) reports: OwnedFd,
    /// Keeps the command's mounts until it is closed.
    pub(crate) mounts: OwnedFd,
    pub(crate) notes: Vec<String>,
    pub(crate) groups: Option<Groups>,
    /// Whether the processes belong to root, so that the kernel does not count them.
    pub(crate) uncounted: bool,
}

/// The user of the command on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    /// The user who started the agent.
    Same { user: u32, group: u32 },
    /// A user who owns no files, and appears as the owner of the project through mapped mounts.
    Mapped,
}

impl Users {
    fn identity(self) -> Identity {
        match self {
            Self::Same { user: 0, .. } | Self::Mapped => Identity { user: AGENT, group: AGENT },
            Self::Same { user, group } => Identity { user, group },
        }
    }

    /// Maps the users of a sandbox that root starts, from outside, as only root can.
    fn map_from_outside(self, pid: Pid) -> io::Result<()> {
        let Self::Mapped = self else { return Ok(()) };
        let map = format!("0 {FIRST_USER} 65536\n");
        let path = |name: &str| format!("/proc/{}/{name}", pid.as_raw_pid());
        fs::write(path("uid_map"), &map)?;
        fs::write(path("gid_map"), &map)
    }

    /// Maps the only user of a sandbox from inside, as every caller can. The process owns the files to write only
    /// while it is dumpable, and it contains nothing secret yet.
    fn map_from_inside(self) -> io::Result<()> {
        let Self::Same { user, group } = self else { return Ok(()) };
        let inside = self.identity();
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        fs::write("/proc/self/uid_map", format!("{} {user} 1\n", inside.user))?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/gid_map", format!("{} {group} 1\n", inside.group))
    }
}

/// Starts the first process in new namespaces.
pub(crate) fn launch(
    job: &LaunchRequest,
    view: &View,
    mut streams: Streams,
) -> Result<Launched, Refusal> {
    let at = |stage: &'static str| move |error: io::Error| Refusal::setup(stage, &error);
    let mut notes = Vec::new();
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut users = Users::Same { user, group };
    let mut trees: Trees = view.entries.iter().map(|_| None).collect();
    if user == 0 {
        match map_trees(&view.entries) {
            Ok(mapped) => (users, trees) = (Users::Mapped, mapped),
            Err(error) => notes.push(format!(
                "the file system of the working folder cannot be mapped to another user \
                    ({error}); the command runs as root without capabilities"
            )),
        }
    }
    let (control_end, control) = io::pipe().map_err(at("pipe"))?;
    let (reports, reports_end) = io::pipe().map_err(at("pipe"))?;
    let (go_end, mut go) = io::pipe().map_err(at("pipe"))?;
    let (mounts, mounts_end) = UnixStream::pair().map_err(at("pipe"))?;
    match sys::clone_process(namespaces(&job.policy.network)).map_err(at("user namespace"))? {
        Side::Child => {
            drop((control, reports, go, mounts));
            keep_mounts(&mounts_end).ok();
            drop(mounts_end);
            let gate = streams.gate.take();
            let wires =
                InitPipes { control: control_end.into(), reports: reports_end.into(), gate };
            inside(job, view, trees, users, streams, wires, go_end)
        }
        Side::Parent(pid) => {
            drop((control_end, reports_end, go_end, mounts_end, streams, trees));
            users.map_from_outside(pid).map_err(at("user map"))?;
            let groups = cgroup::make(job).filter(|groups| groups.add(pid).is_ok());
            go.write_all(b"g").map_err(at("start"))?;
            let (control, reports, mounts) = (control.into(), reports.into(), mounts.into());
            let uncounted = matches!(users, Users::Same { user: 0, .. });
            Ok(Launched { pid, control, reports, mounts, notes, groups, uncounted })
        }
    }
}

/// Keeps the mount namespace of this process open through the other end of a socket. After the last process ends,
/// the kernel removes the mounts, which takes milliseconds after many changes. It waits with that until the socket
/// is closed.
fn keep_mounts(socket: &UnixStream) -> io::Result<()> {
    job::send_descriptors(socket, &[fs::File::open("/proc/self/ns/mnt")?.as_fd()])
}

fn namespaces(network: &Network) -> u64 {
    let always = sys::NEW_USER
        | sys::NEW_MOUNT
        | sys::NEW_PID
        | sys::NEW_IPC
        | sys::NEW_UTS
        | sys::NEW_CGROUP;
    match network {
        Network::Host => always,
        Network::Off | Network::Loopback | Network::Domains(_) => always | sys::NEW_NETWORK,
    }
}

/// Clones the user's mount trees so that files of root on disk belong to the agent's user inside.
fn map_trees(entries: &[Entry]) -> io::Result<Trees> {
    let map = user_map()?;
    let tree = |entry: &Entry| {
        let Some(tree) = (if entry.owned() { root::clone_tree(entry)? } else { None }) else {
            return Ok(None);
        };
        let attributes = root::attributes(entry) | sys::ID_MAP;
        sys::mount_setattr(tree.as_fd(), c"", sys::RECURSIVE, attributes, Some(map.as_fd()))?;
        Ok(Some(tree))
    };
    entries.iter().map(tree).collect()
}

/// Creates a user namespace that maps root to the agent's user. Only mounts use it.
fn user_map() -> io::Result<OwnedFd> {
    let (mut wait, go) = io::pipe()?;
    match sys::clone_process(sys::NEW_USER)? {
        Side::Child => {
            drop(go);
            // Ends when its parent no longer needs it.
            wait.read_exact(&mut [0]).ok();
            exit(0)
        }
        Side::Parent(pid) => {
            let made = || {
                let map = format!("0 {} 1\n", FIRST_USER + AGENT);
                let path = |name: &str| format!("/proc/{}/{name}", pid.as_raw_pid());
                fs::write(path("uid_map"), &map)?;
                fs::write(path("gid_map"), &map)?;
                fs::File::open(path("ns/user"))
            };
            let made = made();
            drop(go);
            // It ends now, and is reaped when the command has ended.
            Ok(made?.into())
        }
    }
}

/// The first process: waits for its user map, builds the root, and runs the command.
fn inside(
    job: &LaunchRequest,
    view: &View,
    trees: Trees,
    users: Users,
    streams: Streams,
    wires: InitPipes,
    mut go: io::PipeReader,
) -> ! {
    // The supervisor has one thread, so the signal comes when it ends and not before.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    if go.read_exact(&mut [0]).is_err() {
        exit(init_process::FAILED);
    }
    drop(go);
    match settle(job, view, trees, users) {
        Ok(kernel) => init_process::run(job, confinement(job, view, users, kernel), streams, wires),
        Err(refusal) => {
            job::send(&mut fs::File::from(wires.reports), &InitReport::Refused(refusal)).ok();
            exit(init_process::FAILED)
        }
    }
}

fn settle(
    job: &LaunchRequest,
    view: &View,
    mut trees: Trees,
    users: Users,
) -> Result<Kernel, Refusal> {
    let at =
        |stage: &'static str| move |error: rustix::io::Errno| Refusal::setup(stage, &error.into());
    users.map_from_inside().map_err(|error| Refusal::setup("user map", &error))?;
    let not_dumpable = || rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    not_dumpable().map_err(at("dumpable"))?;
    rustix::system::sethostname(b"sandbox").map_err(at("host name"))?;
    let devices = root::detach(view, &mut trees)?;
    if users == Users::Mapped {
        let (user, group) = (rustix::fs::Uid::ROOT, rustix::fs::Gid::ROOT);
        rustix::thread::set_thread_groups(&[]).map_err(at("changing the user"))?;
        rustix::thread::set_thread_res_gid(group, group, group).map_err(at("changing the user"))?;
        rustix::thread::set_thread_res_uid(user, user, user).map_err(at("changing the user"))?;
        // Changing the user has reset both.
        not_dumpable().map_err(at("dumpable"))?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    }
    let kernel = root::build(view, trees, devices, &job.policy.limits, users.identity())?;
    if matches!(job.policy.network, Network::Loopback | Network::Domains(_)) {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::DGRAM,
            None,
        )
        .map_err(at("loopback"))?;
        sys::raise_loopback(socket.as_fd()).map_err(|error| Refusal::setup("loopback", &error))?;
    }
    Ok(kernel)
}

fn confinement(job: &LaunchRequest, view: &View, users: Users, kernel: Kernel) -> Confinement {
    Confinement {
        identity: (users == Users::Mapped).then(|| users.identity()),
        rights: Rights::Reduced {
            files: files(view),
            sockets: match job.policy.network {
                Network::Host => Sockets::Host,
                Network::Off | Network::Loopback | Network::Domains(_) => Sockets::Namespaced,
            },
            kernel,
            landlock: Landlock::IfPresent,
        },
        processes: Processes::Limited,
        folder: view.workdir.clone(),
    }
}

/// Returns what Landlock allows inside a separate root.
pub(crate) fn files(view: &View) -> Files {
    let mut files = Files {
        listed: vec!["/".into()],
        readable: ["/proc", "/dev", "/etc"].map(PathBuf::from).into(),
        writable: ["/tmp", "/dev/shm"].map(PathBuf::from).into(),
        devices: root::DEVICES.map(PathBuf::from).into(),
        terminals: vec!["/dev/pts".into()],
    };
    for entry in &view.entries {
        match entry.seen {
            Seen::System(_) | Seen::Readable(_) => files.readable.push(entry.at.clone()),
            Seen::Writable(_) | Seen::Cache(_) | Seen::Lock(_) | Seen::Copied(_) => {
                files.writable.push(entry.at.clone());
            }
            Seen::Part { .. } | Seen::Staging | Seen::Layer | Seen::Link(_) => {}
        }
    }
    files
}
