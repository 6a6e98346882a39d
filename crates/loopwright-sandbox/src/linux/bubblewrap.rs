//! The same sandbox with a root that `bwrap` builds. `bwrap` applies its arguments in their order: later mounts
//! cover earlier ones.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::FdFlags;
use rustix::process::Pid;

use super::confine::Streams;
use super::fs_view::{Covered, Entry, Seen, Shape, View};
use super::root;
use super::start::Inner;
use crate::home::{HOME, SCRATCH};
use crate::job::{self, LaunchRequest, NAME, Refusal, STAGE};
use crate::policy::Network;

/// The user ID of the command in the sandbox if root started the agent.
const AGENT: &str = "1000";

/// The number of arguments that `bwrap` takes. Those that it reads from a file (`--args`) count, too.
const MAX_ARGUMENTS: usize = 9000;

/// Limits of the user namespace.
const SHARE: &str = "/proc/sys/user";

/// Starts `bwrap`, which starts this program again as the first process of the sandbox.
pub(crate) fn launch(
    job: &LaunchRequest,
    view: &View,
    streams: Streams,
) -> Result<(Pid, Inner), Refusal> {
    let at = |stage: &'static str| move |error: io::Error| Refusal::setup(stage, &error);
    let program = job.program.as_deref().unwrap_or(Path::new("/usr/bin/bwrap"));
    let own = fs::read_link("/proc/self/exe").map_err(at("finding the helper's path"))?;
    let (control_end, control) = io::pipe().map_err(at("pipe"))?;
    let (reports, reports_end) = io::pipe().map_err(at("pipe"))?;
    let (complaints, complaints_end) = io::pipe().map_err(at("pipe"))?;
    let mut passed: Vec<OwnedFd> = vec![
        written(job, view).map_err(at("job"))?,
        streams.stdin,
        streams.stdout,
        streams.stderr,
        control_end.into(),
        reports_end.into(),
    ];
    passed.extend(streams.gate);
    let mut arguments = arguments(job, view, &own);
    for descriptor in &passed {
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty())
            .map_err(|error| at("descriptors")(error.into()))?;
        arguments.push(descriptor.as_raw_fd().to_string().into());
    }
    within_limit(&arguments, view)?;
    // Its environment would be visible in the sandbox as the environment of its first process.
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaints_end)
        .spawn()
        .map_err(at("bwrap"))?;
    drop(passed);
    let pid = Pid::from_child(&child);
    let inner = Inner::First {
        control: control.into(),
        reports: reports.into(),
        complaints: Some(complaints.into()),
        mounts: None,
    };
    Ok((pid, inner))
}

/// Checks that there are not more arguments than `bwrap` takes.
fn within_limit(arguments: &[OsString], view: &View) -> Result<(), Refusal> {
    // The name of the program is one of them.
    let count = arguments.len() + 1;
    if count <= MAX_ARGUMENTS {
        return Ok(());
    }
    Err(Refusal::Policy(format!(
        "bubblewrap takes at most {MAX_ARGUMENTS} arguments, and the {} paths of this command need {count}; hide or \
            protect folders instead of the files in them, or use the sandbox backend `namespaces`",
        view.entries.len()
    )))
}

fn written(job: &LaunchRequest, view: &View) -> io::Result<OwnedFd> {
    let mut file = fs::File::from(memfd_create("job", MemfdFlags::CLOEXEC)?);
    file.write_all(&job::frame(&(job, view))?)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// The arguments of `bwrap` up to those of the first process.
pub(crate) fn arguments(job: &LaunchRequest, view: &View, own: &Path) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.add([
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        "--cap-drop",
        "ALL",
        "--cap-add",
        "CAP_SYS_RESOURCE",
        "--hostname",
        "sandbox",
    ]);
    if rustix::process::geteuid().is_root() {
        arguments.add(["--uid", AGENT, "--gid", AGENT]);
    }
    if job.policy.network != Network::Host {
        arguments.add(["--unshare-net"]);
    }
    let size = job.policy.limits.scratch.to_string();
    arguments.add(["--size", &size, "--tmpfs", SCRATCH, "--dir", HOME]);
    arguments.add(["--proc", "/proc", "--dev", "/dev", "--size", &size, "--tmpfs", "/dev/shm"]);
    for path in root::SETTINGS {
        // For root, `bwrap` leaves these writable.
        let path = format!("/{path}");
        if Path::new(&path).exists() {
            arguments.add(["--ro-bind", &path, &path]);
        }
    }
    // These settings belong to the user namespace. Writing them needs this one capability.
    arguments.add(["--bind-try", SHARE, SHARE]);
    for entry in &view.entries {
        arguments.entry(entry);
    }
    for path in ["/etc/passwd", "/etc/group"] {
        arguments.add(["--ro-bind-try", path, path]);
    }
    let inside = Path::new("/").join(NAME);
    arguments.paths("--ro-bind", own, &inside);
    arguments.add(["--remount-ro", "/", "--chdir", "/", "--"]);
    arguments.0.push(inside.into());
    arguments.add([STAGE]);
    arguments.0
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        self.0.extend(arguments.into_iter().map(OsString::from));
    }

    fn paths(&mut self, option: &str, from: &Path, to: &Path) {
        self.0.extend([option.into(), from.into(), to.into()]);
    }

    fn entry(&mut self, entry: &Entry) {
        let at = &entry.at;
        match &entry.seen {
            Seen::Link(target) => self.paths("--symlink", target, at),
            Seen::System(_)
            | Seen::Readable(_)
            | Seen::Part { covered: Covered::Protected, .. } => self.paths("--ro-bind", at, at),
            Seen::Writable(_) | Seen::Part { covered: Covered::Pinned | Covered::Direct, .. } => {
                self.paths("--bind", at, at);
            }
            Seen::Cache(folder) => self.paths("--bind", folder, at),
            // Only the namespaces of this crate have them.
            Seen::Staging | Seen::Lock(_) | Seen::Layer | Seen::Copied(_) => {}
            Seen::Part { covered: Covered::Hidden, shape: Shape::File, .. } => {
                self.paths("--ro-bind", &PathBuf::from("/dev/null"), at);
            }
            Seen::Part { covered: Covered::Hidden, shape: Shape::Folder, .. } => {
                self.0.extend(["--perms", "0000", "--tmpfs"].map(OsString::from));
                self.0.push(at.into());
                self.0.push("--remount-ro".into());
                self.0.push(at.into());
            }
        }
    }
}

#[cfg(test)]
mod tests;
