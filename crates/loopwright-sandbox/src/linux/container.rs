//! A command in a container. The container has a name, because ending its client does not end it.

mod syscalls;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource};

use super::confine::Streams;
use super::fs_view::{Covered, Entry, Seen, Shape, View};
use crate::job::{LaunchRequest, Refusal};
use crate::output::ExitOutcome;
use crate::policy::{Backend, Network};

/// The maximum time that the client can take for an operation on the container.
const PATIENCE: Duration = Duration::from_secs(20);

/// Exit statuses of a client that did not start the container: it failed, or the program cannot be run or does not
/// exist.
const CLIENT_FAILED: RangeInclusive<i32> = 125..=127;

/// The processes of a container that do not belong to the command: its init process.
const INIT_PROCESSES: u64 = 1;

/// The beginning of the start time of a container that was never started.
const NEVER: &str = "0001-01-01";

/// Starts the client. It receives the command's environment in a private file instead of its arguments.
pub(crate) fn launch(
    job: &LaunchRequest,
    view: &View,
    streams: Streams,
    scratch: &Path,
) -> Result<Pid, Refusal> {
    let at = |stage: &'static str| move |error: io::Error| Refusal::setup(stage, &error);
    let variables = scratch.join("env");
    write_environment(job, &variables)?;
    let profile = scratch.join("seccomp.json");
    let profile = if job.backend == Backend::Podman {
        let of_client = |name: &str| {
            let mut variables = job.client_env.iter();
            variables.find(|(it, _)| *it == name).map(|(_, value)| Path::new(value))
        };
        let (home, configuration) = (of_client("HOME"), of_client("XDG_CONFIG_HOME"));
        let written = syscalls::write_profile(home, configuration, &profile);
        written.map_err(at("system call profile"))?.map(|()| &*profile)
    } else {
        None
    };
    let child = client(job)
        .args(arguments(job, view, &variables, profile)?)
        .stdin(streams.stdin)
        .stdout(streams.stdout)
        .stderr(streams.stderr)
        .spawn()
        .map_err(at("container program"))?;
    Ok(Pid::from_child(&child))
}

/// Returns `true` if the container was started, so that the exit status of the client is the command's. If the
/// client fails before that, only its exit status shows it, and the command could have the same status.
pub(crate) fn was_started(
    job: &LaunchRequest,
    scratch: &Path,
    outcome: Option<ExitOutcome>,
) -> bool {
    if !identity(job, scratch).exists() {
        return false;
    }
    let is_doubtful =
        matches!(outcome, Some(ExitOutcome::Exited(status)) if CLIENT_FAILED.contains(&status));
    let never = || {
        let name = job.container.as_deref().unwrap_or_default();
        let words = ["inspect", "--format", "{{.State.StartedAt}}"];
        let started = ask(job, &words, name, Stdio::piped());
        started.is_some_and(|at| at.starts_with(NEVER))
    };
    !is_doubtful || !never()
}

/// Returns the file in which the client writes the ID of its container.
fn identity(job: &LaunchRequest, scratch: &Path) -> PathBuf {
    scratch.join(format!("{}.id", job.backend.name()))
}

/// Ends and removes the container, if there may be one.
pub(crate) fn remove(job: &LaunchRequest) {
    ask(job, removal(job), job.container.as_deref().unwrap_or_default(), Stdio::null());
}

/// Returns the arguments that end a container at once. By default, Podman asks its processes to end and waits ten
/// seconds.
fn removal(job: &LaunchRequest) -> &'static [&'static str] {
    match job.backend {
        Backend::Podman => &["rm", "--force", "--time=0"],
        _ => &["rm", "--force"],
    }
}

/// Removes the container of a helper that was killed and left this folder. Returns `false` if the container belongs
/// to another program.
pub(crate) fn remove_left(job: &LaunchRequest, scratch: &Path) -> bool {
    if let Ok(id) = fs::read_to_string(identity(job, scratch)) {
        ask(job, removal(job), id.trim(), Stdio::null());
        return true;
    }
    let is_identity = |it: fs::DirEntry| it.path().extension().is_some_and(|it| it == "id");
    !fs::read_dir(scratch).into_iter().flatten().flatten().any(is_identity)
}

/// Runs a command of the client on a container, and returns its output. Returns `None` if it takes too long or
/// cannot be started.
fn ask(job: &LaunchRequest, words: &[&str], container: &str, stdout: Stdio) -> Option<String> {
    let mut asked = client(job)
        .args(words)
        .arg(container)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let started = Instant::now();
    while matches!(asked.try_wait(), Ok(None)) {
        if started.elapsed() >= PATIENCE {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // The output is short enough for the buffer of the pipe.
    let mut text = String::new();
    if let Some(mut output) = asked.stdout.take() {
        output.read_to_string(&mut text).ok()?;
    }
    Some(text)
}

fn client(job: &LaunchRequest) -> Command {
    let program = job.program.clone().unwrap_or_else(|| PathBuf::from(job.backend.name()));
    let mut client = Command::new(program);
    client.env_clear().envs(job.client_env.iter().map(|(name, value)| (name, value)));
    client
}

fn write_environment(job: &LaunchRequest, path: &Path) -> Result<(), Refusal> {
    let mut text = Vec::new();
    for (name, value) in &job.env {
        let explicit =
            name.to_str().is_some_and(|name| job.policy.environment.values.contains_key(name));
        if name == "PATH" && !explicit {
            continue;
        }
        let (name, value) = (name.as_encoded_bytes(), value.as_encoded_bytes());
        if value.contains(&b'\n') {
            let name = String::from_utf8_lossy(name);
            return Err(Refusal::Policy(format!(
                "the value of {name} has more than one line, which containers do not support in \
                    environment variables"
            )));
        }
        text.extend([name, b"=", value, b"\n"].concat());
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(&text))
        .map_err(|error| Refusal::setup("environment file", &error))
}

/// Returns the arguments of the client, from its subcommand to the command's last argument.
pub(crate) fn arguments(
    job: &LaunchRequest,
    view: &View,
    variables: &Path,
    profile: Option<&Path>,
) -> Result<Vec<OsString>, Refusal> {
    let limits = &job.policy.limits;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |argument: &str| arguments.push(argument.into());
    for argument in ["run", "--interactive", "--init", "--read-only"] {
        add(argument);
    }
    for argument in [
        format!("--name={}", job.container.as_deref().unwrap_or_default()),
        "--cap-drop=ALL".to_owned(),
        "--security-opt=no-new-privileges".to_owned(),
        format!("--user={user}:{group}"),
        format!("--pids-limit={}", limits.processes),
        format!("--memory={}", limits.memory),
        format!("--memory-swap={}", limits.memory),
        format!("--ulimit=fsize={0}:{0}", limits.file_size),
        format!("--ulimit=nofile={0}:{0}", limits.open_files),
        "--ulimit=core=0:0".to_owned(),
        format!("--shm-size={}", limits.scratch),
        format!("--tmpfs=/tmp:rw,nosuid,nodev,mode=1777,size={}", limits.scratch),
    ] {
        add(&argument);
    }
    let own_count = job.backend == Backend::Podman && user != 0;
    if let Some(most) = most_processes(own_count.then_some(limits.processes)) {
        add(&format!("--ulimit=nproc={most}:{most}"));
    }
    if job.policy.network != Network::Host {
        add("--network=none");
    }
    if job.backend == Backend::Podman && user != 0 {
        add("--userns=keep-id");
    }
    if let Some(profile) = profile {
        let mut argument = OsString::from("--security-opt=seccomp=");
        argument.push(profile);
        arguments.push(argument);
    }
    for entry in view.entries.iter().filter(|entry| entry.owned()) {
        arguments.push(mount(entry)?);
    }
    let with = |option: &str, path: &Path| [OsString::from(option), path.into()];
    arguments.extend(with("--env-file", variables));
    arguments.extend(with("--cidfile", &identity(job, variables.parent().unwrap_or(variables))));
    arguments.extend(with("--workdir", &view.workdir));
    arguments.push("--".into());
    arguments.push(job.policy.image.clone().into());
    arguments.extend(job.argv.iter().cloned());
    Ok(arguments)
}

/// Returns the maximum number of processes of this user in a container, or `None` if there is no limit. By default,
/// Podman sets a limit that can exceed this user's own, and then fails. Its default is at most the number of process
/// IDs of the machine.
///
/// Podman puts the containers of a user who is not root into a user namespace of their own, where the kernel counts
/// this user's processes from zero. There, `counted` is the limit of the command, and holds without a control group.
fn most_processes(counted: Option<u64>) -> Option<u64> {
    let most = rustix::process::getrlimit(Resource::Nproc).maximum;
    let most = most.map(|most| {
        let numbers = fs::read_to_string("/proc/sys/kernel/pid_max").ok();
        let numbers = numbers.and_then(|it| it.trim().parse().ok()).unwrap_or(most);
        most.min(numbers)
    });
    let counted = counted.map(|counted| counted.saturating_add(INIT_PROCESSES));
    counted.into_iter().chain(most).min()
}

/// Returns `true` if containers of this backend can have a control group that limits their memory. Podman ignores
/// the limits of a user who is not root in the first version of control groups.
pub(crate) fn has_groups(backend: Backend) -> bool {
    backend != Backend::Podman
        || rustix::process::geteuid().is_root()
        || Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

fn mount(entry: &Entry) -> Result<OsString, Refusal> {
    let text = |path: &Path| match path.to_str().filter(|path| !path.contains([',', '"', '\n'])) {
        Some(text) => Ok(text.to_owned()),
        None => Err(Refusal::Policy(format!(
            "containers cannot mount {}: its name contains a comma or a quote, or is not UTF-8",
            path.display()
        ))),
    };
    let (source, path) = (text(entry.source())?, text(&entry.at)?);
    let read_only = if entry.read_only() { ",readonly" } else { "" };
    Ok(match &entry.seen {
        Seen::Part { covered: Covered::Hidden, shape: Shape::File, .. } => {
            format!("--mount=type=bind,source=/dev/null,target={path},readonly")
        }
        Seen::Part { covered: Covered::Hidden, shape: Shape::Folder, .. } => {
            format!("--mount=type=tmpfs,target={path},tmpfs-size=4096,tmpfs-mode=0000")
        }
        _ => format!("--mount=type=bind,source={source},target={path}{read_only}"),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::linux::fs_view::tests::job;
    use crate::policy::SandboxPolicy;

    #[test]
    fn the_container_of_a_killed_helper_is_ended_by_its_own_program() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("client"), format!("#!/bin/sh\necho \"$@\" >> {}\n", at("log").display()))
            .unwrap();
        fs::set_permissions(at("client"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(at("left")).unwrap();
        let of = |backend| LaunchRequest {
            backend,
            program: Some(at("client")),
            ..job(SandboxPolicy::in_dir("/srv"))
        };
        assert!(remove_left(&of(Backend::Podman), &at("left")));
        fs::write(at("left/docker.id"), "12ab\n").unwrap();
        assert!(!remove_left(&of(Backend::Podman), &at("left")));
        assert!(!remove_left(&of(Backend::Landlock), &at("left")));
        assert!(!at("log").exists());
        assert!(remove_left(&of(Backend::Docker), &at("left")));
        assert_eq!(fs::read_to_string(at("log")).unwrap(), "rm --force 12ab\n");
    }

    #[test]
    fn a_user_namespace_counts_the_processes_of_a_container_and_its_init_process() {
        let unlimited = most_processes(None);
        assert_eq!(most_processes(Some(20)), Some(21));
        assert_eq!(most_processes(Some(u64::MAX)), Some(unlimited.unwrap_or(u64::MAX)));
    }
}
