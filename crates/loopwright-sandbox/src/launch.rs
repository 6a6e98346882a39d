//! The start of the helper process, and the transfer of a command to it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use crate::author;
use crate::command::{Command, Stdin};
use crate::error::SandboxError;
use crate::home::{HOME, SCRATCH, cache_place, copied_caches, has_own_home};
use crate::job::{self, LaunchRequest, NAME, Refusal};
use crate::live::{ChildIo, Live};
use crate::policy::{Backend, Network, SandboxPolicy};
use crate::proxy;
use crate::screen::UserSettings;
use crate::toolchains::maven;

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// Names the program that is the helper, unless one is named already.
pub(crate) fn set_helper(path: PathBuf) {
    HELPER.get_or_init(|| path);
}

/// What the clients of containers need of the agent's environment to find their daemon.
const CLIENT: [&str; 10] = [
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
];

/// Variables that name a cache, and where it is in the folder for caches.
const CACHE_VARIABLES: [(&str, &str); 6] = [
    ("XDG_CACHE_HOME", ""),
    ("npm_config_cache", "npm"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("GOCACHE", "go-build"),
    ("GRADLE_USER_HOME", "gradle"),
];

/// Puts together what the helper has to know.
pub(crate) fn job(
    backend: Backend,
    program: Option<&Path>,
    command: &Command,
    policy: &SandboxPolicy,
) -> Result<LaunchRequest, SandboxError> {
    let helper = |source| SandboxError::Helper { doing: "finding the working folder", source };
    let mut policy = policy.clone();
    // The helper has no folder of its own that relative paths could begin at.
    policy.workdir = std::path::absolute(&policy.workdir).map_err(helper)?;
    let paths = policy.read_paths.iter_mut().chain(&mut policy.write_paths);
    let copied = policy.copied_caches.iter_mut();
    let copied =
        copied.flat_map(|it| [&mut it.folder, &mut it.layer].into_iter().chain(&mut it.lock));
    for path in paths.chain(&mut policy.cache).chain(copied) {
        *path = std::path::absolute(&*path).map_err(helper)?;
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let own_home = home.clone().unwrap_or_else(|| "/".into());
    let (inner_home, scratch): (OsString, &str) = match backend {
        Backend::Host => (own_home, SCRATCH),
        Backend::Docker | Backend::Podman => (SCRATCH.into(), SCRATCH),
        Backend::Namespaces | Backend::Bubblewrap | Backend::Landlock => (HOME.into(), SCRATCH),
    };
    let mut env = policy.environment.resolve(std::env::vars_os(), &inner_home, scratch.as_ref());
    let kept = cache_variables(backend, &policy).into_iter();
    let named = author_variables(backend, &policy).into_iter();
    let reached = proxy::variables(&policy.network, |name| std::env::var_os(name)).into_iter();
    for (name, value) in kept.chain(named).chain(reached) {
        if !policy.environment.values.contains_key(&name) {
            env.insert(name.into(), value);
        }
    }
    let container = matches!(backend, Backend::Docker | Backend::Podman);
    Ok(LaunchRequest {
        backend,
        argv: command.words().map(Into::into).collect(),
        env: env.into_iter().collect(),
        home: home.map(PathBuf::from),
        settings: UserSettings::found(),
        program: program.map(Into::into),
        container: container.then(|| {
            format!("loopwright-{}-{:016x}", std::process::id(), crate::beneath::random())
        }),
        client_env: if container {
            std::env::vars_os()
                .filter(|(name, _)| CLIENT.iter().any(|known| name == known))
                .collect()
        } else {
            Vec::new()
        },
        policy,
    })
}

fn cache_variables(backend: Backend, policy: &SandboxPolicy) -> Vec<(String, OsString)> {
    let copied = copied_caches(backend, policy).filter(|it| policy.copies(&it.folder));
    let copied = copied.filter_map(|it| Some((it.variable.clone()?, it.folder.clone().into())));
    let Some(place) = cache_place(backend, policy) else { return copied.collect() };
    let at = |part: &str| if part.is_empty() { place.clone() } else { place.join(part) };
    let mut variables: Vec<(String, OsString)> =
        CACHE_VARIABLES.map(|(name, part)| (name.to_owned(), at(part).into())).into();
    let maven = maven::arguments(&at("maven"));
    variables.extend(maven.map(|arguments| ("MAVEN_ARGS".to_owned(), arguments.into())));
    variables.extend(copied);
    variables
}

/// Where git reads no settings of the sandbox, variables name who commits.
fn author_variables(backend: Backend, policy: &SandboxPolicy) -> Vec<(String, OsString)> {
    match &policy.author {
        Some(author) if backend != Backend::Host && !has_own_home(backend, policy) => {
            let variables = author::variables(author).into_iter();
            variables.map(|(name, value)| (name, value.into())).collect()
        }
        _ => Vec::new(),
    }
}

/// Why a command does not run.
pub(crate) enum Failure {
    Refused(Refusal),
    Error(SandboxError),
}

/// Starts a helper for the job and waits until the command runs. The large program that an agent is, is not
/// copied for that: the helper is started by name, and only the helper makes copies of itself.
pub(crate) async fn launch(job: &LaunchRequest, stdin: Stdin) -> Result<Live, Failure> {
    let program = HELPER.get().ok_or(Failure::Error(SandboxError::NoHelper))?;
    let failed = |doing| move |source| Failure::Error(SandboxError::Helper { doing, source });
    let (helper, ends) = spawn(program, &stdin, &job.policy.network).map_err(failed("starting"))?;
    match Live::start(helper, ends, job, stdin).await {
        Ok(Ok(live)) => Ok(live),
        Ok(Err(refusal)) => Err(Failure::Refused(refusal)),
        Err(source) => Err(failed("starting the command")(source)),
    }
}

fn spawn(
    program: &Path,
    stdin: &Stdin,
    network: &Network,
) -> io::Result<(tokio::process::Child, ChildIo)> {
    let (socket, far_socket) = UnixStream::pair()?;
    let (stdout, far_stdout) = io::pipe()?;
    let (stderr, far_stderr) = io::pipe()?;
    let (stdin, far_stdin): (Option<OwnedFd>, OwnedFd) = match stdin {
        Stdin::Null => (None, crate::linux::confine::open_null()?),
        Stdin::Bytes(_) | Stdin::Piped => {
            let (far, near) = io::pipe()?;
            (Some(near.into()), far.into())
        }
    };
    let helper = tokio::process::Command::new(program)
        .arg0(NAME)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(far_socket)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut handed = vec![far_stdin, far_stdout.into(), far_stderr.into()];
    let mut gate = None;
    if let Network::Domains(_) = network {
        let (near, far) = UnixStream::pair()?;
        handed.push(far.into());
        gate = Some(near.into());
    }
    // To the helper alone: no other process that is started meanwhile gets them.
    let handed: Vec<_> = handed.iter().map(AsFd::as_fd).collect();
    job::send_descriptors(&socket, &handed)?;
    Ok((helper, ChildIo { socket, stdout: stdout.into(), stderr: stderr.into(), stdin, gate }))
}
