//! The last steps before a process becomes the command: limits, rights, Landlock, the filter, the program.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::filter::{self, Kernel, Sockets};
use super::sys;
use crate::author::Author;
use crate::home::has_own_home;
use crate::job::{LaunchRequest, Refusal};
use crate::policy::{Limits, Network};

/// The streams of the command.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// The channel for the socket that reaches hosts by name. The command does not get it.
    pub(crate) gate: Option<OwnedFd>,
}

/// The identity of the command in its user namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// How a process is confined before it becomes the command.
pub(crate) struct Confinement {
    /// The identity to change to, if it differs.
    pub(crate) identity: Option<Identity>,
    pub(crate) rights: Rights,
    pub(crate) processes: Processes,
    /// The folder to start in.
    pub(crate) folder: PathBuf,
}

/// Whether a limit on processes counts only those of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processes {
    Limited,
    Unlimited,
}

/// The rights that the process gives up.
pub(crate) enum Rights {
    /// None: the command has the rights of the agent.
    Kept,
    /// Capabilities, system calls, and all files except these.
    Reduced { files: Files, sockets: Sockets, kernel: Kernel, landlock: Landlock },
}

/// Whether the command can be run without Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landlock {
    /// It is the only confinement of files.
    Required,
    /// It is a second confinement.
    IfPresent,
}

/// What Landlock allows.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) listed: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) devices: Vec<PathBuf>,
    pub(crate) terminals: Vec<PathBuf>,
}

/// Executes the command. Returns only if that fails.
pub(crate) fn exec(job: &LaunchRequest, confinement: &Confinement, streams: &Streams) -> Refusal {
    match prepare(job, confinement, streams) {
        Ok(()) => {
            write_author(job);
            let Some((program, args)) = job.argv.split_first() else {
                return Refusal::Policy("no program to run".to_owned());
            };
            let env = job.env.iter().map(|(name, value)| (name, value));
            let error = Command::new(program).args(args).env_clear().envs(env).exec();
            Refusal::Start { errno: error.raw_os_error().unwrap_or(libc::EINVAL) }
        }
        Err(refusal) => refusal,
    }
}

fn prepare(
    job: &LaunchRequest,
    confinement: &Confinement,
    streams: &Streams,
) -> Result<(), Refusal> {
    let at = |stage: &'static str| move |error: io::Error| Refusal::setup(stage, &error);
    rustix::process::setsid().map_err(|error| at("new session")(error.into()))?;
    sys::reset_signals();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if let Some(identity) = confinement.identity {
        become_user(identity).map_err(at("changing the user"))?;
    }
    limit(&job.policy.limits, confinement.processes).map_err(at("resource limits"))?;
    std::env::set_current_dir(&confinement.folder).map_err(at("changing the working folder"))?;
    connect(streams).map_err(at("standard streams"))?;
    if let Rights::Reduced { files, sockets, kernel, landlock } = &confinement.rights {
        drop_capabilities().map_err(at("dropping capabilities"))?;
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| at("no new privileges")(error.into()))?;
        restrict_files(files, &job.policy.network, *sockets, *landlock).map_err(at("landlock"))?;
        for program in filter::programs(*sockets, *kernel).map_err(at("system call filter"))? {
            seccompiler::apply_filter(&program).map_err(|error| {
                Refusal::setup(format!("system call filter ({error})"), &io::Error::last_os_error())
            })?;
        }
    }
    sys::close_on_exec_from(3).map_err(at("closing descriptors"))
}

/// Sets the author for git in a separate home of the command. Without an author, git explains how to set one.
fn write_author(job: &LaunchRequest) {
    let home = job.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home));
    let settings = job.policy.author.as_ref().map(Author::git_settings).unwrap_or_default();
    let is_own = has_own_home(job.backend, &job.policy);
    if let (Some(home), false, true) = (home, settings.is_empty(), is_own) {
        let file = OpenOptions::new().write(true).create_new(true).open(home.join(".gitconfig"));
        file.and_then(|mut file| file.write_all(settings.as_bytes())).ok();
    }
}

fn become_user(identity: Identity) -> io::Result<()> {
    // While the process still has the capability for it.
    sys::drop_bounding_set();
    let group = rustix::fs::Gid::from_raw(identity.group);
    let user = rustix::fs::Uid::from_raw(identity.user);
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    Ok(())
}

fn limit(limits: &Limits, processes: Processes) -> io::Result<()> {
    let cpu = limits
        .cpu
        .map_or(limits.timeout.as_secs().saturating_mul(4), |cpu| cpu.as_secs().saturating_add(2));
    let mut wanted = vec![
        (Resource::Core, 0),
        (Resource::Fsize, limits.file_size),
        (Resource::Nofile, limits.open_files),
        (Resource::Data, limits.memory),
        (Resource::Cpu, cpu.max(1)),
        (Resource::Memlock, 64 << 10),
        (Resource::Msgqueue, 0),
        (Resource::Nice, 0),
        (Resource::Rtprio, 0),
    ];
    if processes == Processes::Limited {
        wanted.push((Resource::Nproc, limits.processes));
    }
    for (resource, value) in wanted {
        // A lower limit stays.
        let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX).min(value);
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn connect(streams: &Streams) -> io::Result<()> {
    rustix::stdio::dup2_stdin(&streams.stdin)?;
    rustix::stdio::dup2_stdout(&streams.stdout)?;
    rustix::stdio::dup2_stderr(&streams.stderr)?;
    Ok(())
}

/// Drops every capability, and every way to regain one.
fn drop_capabilities() -> io::Result<()> {
    keep_capabilities(CapabilitySet::empty())
}

/// The same, except for the capability that the first process needs to signal a command of another user.
pub(crate) fn keep_signalling() -> io::Result<()> {
    keep_capabilities(CapabilitySet::KILL)
}

fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    // Needs a capability that is gone if the user was changed. In that case, it is not needed.
    rustix::thread::set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED,
    )
    .ok();
    sys::drop_bounding_set();
    // A process that starts without capabilities keeps none.
    let kept = kept & rustix::thread::capabilities(None)?.permitted;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

fn restrict_files(
    files: &Files,
    network: &Network,
    sockets: Sockets,
    landlock: Landlock,
) -> io::Result<()> {
    let abi = ABI::from(sys::landlock_version());
    if abi == ABI::Unsupported {
        return match landlock {
            Landlock::Required => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
            Landlock::IfPresent => Ok(()),
        };
    }
    let isolated =
        *network == Network::Off || (sockets == Sockets::Pairs && *network != Network::Host);
    let all = AccessFs::from_all(abi);
    let net = if isolated { AccessNet::from_all(abi) } else { BitFlags::EMPTY };
    let made = || -> Result<RulesetStatus, landlock::RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(all)?;
        if !net.is_empty() {
            ruleset = ruleset.handle_access(net)?;
        }
        if !Scope::from_all(abi).is_empty() {
            ruleset = ruleset.scope(Scope::from_all(abi))?;
        }
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        let write = all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
        let device = all & (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate);
        let rules = [
            (&files.listed, AccessFs::ReadDir.into()),
            (&files.readable, read),
            (&files.writable, write),
            (&files.devices, device),
            (&files.terminals, all & (write | AccessFs::IoctlDev)),
        ];
        let mut created = ruleset.create()?;
        for (paths, access) in rules {
            for path in paths {
                // A missing path needs no rule.
                let Ok(opened) = PathFd::new(path) else { continue };
                let access = suitable(opened.as_fd(), access, abi);
                created = created.add_rule(PathBeneath::new(opened, access))?;
            }
        }
        Ok(created.restrict_self()?.ruleset)
    };
    match made() {
        Ok(RulesetStatus::FullyEnforced) => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        Err(error) => Err(last_os_error(&error)),
    }
}

/// Returns the rights that apply to an object other than a folder.
fn suitable(opened: BorrowedFd<'_>, access: BitFlags<AccessFs>, abi: ABI) -> BitFlags<AccessFs> {
    let folder = rustix::fs::fstat(opened).is_ok_and(|status| {
        rustix::fs::FileType::from_raw_mode(status.st_mode) == rustix::fs::FileType::Directory
    });
    if folder { access } else { access & AccessFs::from_file(abi) }
}

fn last_os_error(error: &landlock::RulesetError) -> io::Error {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(one) = cause {
        if let Some(errno) = one.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(errno);
        }
        cause = one.source();
    }
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// Opens `/dev/null`.
pub(crate) fn open_null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open(Path::new("/dev/null"))?.into())
}
