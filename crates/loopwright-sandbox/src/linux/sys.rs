//! The system calls that no safe interface offers. All `unsafe` of this crate is here.
#![expect(
    unsafe_code,
    reason = "the kernel is called directly, with arguments that are checked here"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::process::Pid;
use rustix::thread::CapabilitySets;

pub(crate) const NEW_USER: u64 = libc::CLONE_NEWUSER as u64;
pub(crate) const NEW_MOUNT: u64 = libc::CLONE_NEWNS as u64;
pub(crate) const NEW_PID: u64 = libc::CLONE_NEWPID as u64;
pub(crate) const NEW_NETWORK: u64 = libc::CLONE_NEWNET as u64;
pub(crate) const NEW_IPC: u64 = libc::CLONE_NEWIPC as u64;
pub(crate) const NEW_UTS: u64 = libc::CLONE_NEWUTS as u64;
pub(crate) const NEW_CGROUP: u64 = libc::CLONE_NEWCGROUP as u64;

pub(crate) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(crate) const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(crate) const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
pub(crate) const ID_MAP: u64 = libc::MOUNT_ATTR_IDMAP;

pub(crate) const RECURSIVE: u32 = libc::AT_RECURSIVE as u32;

/// An interface that is up and running.
const UP: i16 = 0x41;

/// The command of `shmctl` that returns totals of all segments of the namespace.
const SHM_INFO: libc::c_int = 14;

/// The answer to [`SHM_INFO`]: `struct shm_info` of the C library.
#[repr(C)]
#[derive(Default)]
struct SegmentInfo {
    used: libc::c_int,
    total: libc::c_ulong,
    resident: libc::c_ulong,
    swapped: libc::c_ulong,
    swap_attempts: libc::c_ulong,
    swap_successes: libc::c_ulong,
}

/// The side of a new process: parent or child.
pub(crate) enum Side {
    Parent(Pid),
    Child,
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// Creates a process in new namespaces. The caller must have only one thread, which the helper checks at its start.
pub(crate) fn clone_process(namespaces: u64) -> io::Result<Side> {
    let args =
        CloneArgs { flags: namespaces, exit_signal: libc::SIGCHLD as u64, ..CloneArgs::default() };
    // SAFETY: `args` is a valid `clone_args` of the size given. Without `CLONE_VM` the child has memory of its
    // own, and with one thread in the process no lock is held by a thread that the child lacks.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match pid {
        0 => Ok(Side::Child),
        1.. => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.map(Side::Parent).ok_or_else(|| io::Error::other("the process ID is invalid"))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Changes the attributes of the mount that `mount` refers to, or of the one at `path` relative to it.
pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    path: &CStr,
    flags: u32,
    set: u64,
    id_map: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: id_map.map_or(0, |fd| u64::try_from(fd.as_raw_fd()).unwrap_or(0)),
    };
    let at_itself = if path.is_empty() { libc::AT_EMPTY_PATH as u32 } else { 0 };
    // SAFETY: the descriptors are borrowed, so open; `path` ends with a zero; `attributes` has the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            path.as_ptr(),
            flags | at_itself,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result)
}

/// Runs `work` with another owner for new files, and with every capability that the process has. The caller must
/// have only one thread.
pub(crate) fn with_file_user<T>(user: u32, group: u32, work: impl FnOnce() -> T) -> T {
    // SAFETY: these take numbers only; a number that is not mapped is refused, and nothing changes.
    let (former_group, former_user) = unsafe { (libc::setfsgid(group), libc::setfsuid(user)) };
    // Changing the user has dropped the capabilities for files.
    if let Ok(sets) = rustix::thread::capabilities(None) {
        let all = CapabilitySets { effective: sets.permitted, ..sets };
        rustix::thread::set_capabilities(None, all).ok();
    }
    let done = work();
    // SAFETY: as above; these were the numbers before.
    unsafe {
        libc::setfsuid(former_user.cast_unsigned());
        libc::setfsgid(former_group.cast_unsigned());
    }
    done
}

/// Closes every descriptor from this number on. For the start of the helper, before it has opened any.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: nothing in this process owns a descriptor of these numbers yet.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) })
}

/// Takes ownership of a descriptor that was passed by its number, if it is open. For the start of the first
/// process, which asks once for each number.
pub(crate) fn take_descriptor(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: this only asks about a number.
    check(i64::from(unsafe { libc::fcntl(number, libc::F_GETFD) }))?;
    if number <= 2 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the descriptor is open, and nothing else in this process owns it, because it came from the
    // program that started this one.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Marks every descriptor from this number on to be closed when a program is started.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: this closes nothing; it sets a flag on whatever is open.
    check(unsafe {
        libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
    })
}

/// Gives every signal its default effect again and blocks none.
pub(crate) fn reset_signals() {
    // SAFETY: `SIG_DFL` installs no handler; numbers that cannot be changed are refused, which is fine. The
    // signal set is initialised by `sigemptyset` before it is used.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Removes every capability from the set that a started program can get. Needs `CAP_SETPCAP`; without it the
/// set stays, and is harmless, because no program gains privileges.
pub(crate) fn drop_bounding_set() {
    for capability in 0..64 {
        // SAFETY: this takes numbers only; an unknown capability is refused.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}

/// Switches on the loopback interface of this process's network.
pub(crate) fn raise_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = UP;
    // SAFETY: the descriptor is open, and `request` is an `ifreq` with a name and flags, as the request wants.
    check(i64::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request)
    }))
}

/// Sends a signal to every process that this one may signal, except itself: for the first process of a
/// namespace, to all others in it.
pub(crate) fn signal_everyone(signal: rustix::process::Signal) {
    // SAFETY: only numbers are passed.
    unsafe { libc::kill(-1, signal.as_raw()) };
}

/// The version of Landlock's interface, or zero where there is none.
pub(crate) fn landlock_version() -> i32 {
    // SAFETY: no memory is passed; the flag asks for the version.
    let version = unsafe {
        libc::syscall(444, std::ptr::null::<u8>(), 0_usize, 1_u32) // landlock_create_ruleset
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Bytes of shared memory of System V in this process's namespace, and about how many its messages and semaphores
/// take.
pub(crate) fn ipc_memory() -> (u64, u64) {
    // What the kernel adds to a message or a semaphore.
    const EACH: u64 = 64;
    let count = |number: libc::c_int| u64::try_from(number).unwrap_or(0);
    // SAFETY: all zeros is a valid value of these plain structures, which are as long as what each call writes.
    let (segments, messages, semaphores) = unsafe {
        let mut segments = SegmentInfo::default();
        libc::shmctl(0, SHM_INFO, (&raw mut segments).cast());
        let mut messages: libc::msginfo = std::mem::zeroed();
        libc::msgctl(0, libc::MSG_INFO, (&raw mut messages).cast());
        let mut semaphores: libc::seminfo = std::mem::zeroed();
        libc::semctl(0, 0, libc::SEM_INFO, &raw mut semaphores);
        (segments, messages, semaphores)
    };
    let pages = segments.resident.saturating_add(segments.swapped);
    let shared = pages.saturating_mul(rustix::param::page_size() as u64);
    let others = count(messages.msgtql)
        + (count(messages.msgmap) + count(semaphores.semaem)).saturating_mul(EACH);
    (shared, others)
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
