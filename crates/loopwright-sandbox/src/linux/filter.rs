//! The system calls that a confined command cannot make.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// The sockets that a command can create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// All except those to hypervisors. The network is the host's.
    Host,
    /// Local, internet and kernel sockets. A network namespace confines them.
    Namespaced,
    /// Local and kernel sockets. A namespace confines the local ones.
    Local,
    /// Only pairs of connected streams. Nothing else confines sockets.
    Pairs,
}

/// The scope of a command's shared memory of System V and of its watched files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The command's own namespaces.
    Own,
    /// The user. The memory would outlive the command, and the watches would be taken from other programs.
    Users,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

const FCHMODAT2: i64 = 452;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;
const AF_VSOCK: u64 = 40;

/// Refused with any arguments.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_lookup_dcookie,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// System calls that set a file's mode, with the index of its argument. A set-user-id file would outlive the
/// sandbox.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_openat, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
];

/// System calls that use what all programs of a user share. Programs run on kernels without them.
const USERS: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_inotify_init1,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
];

/// Returns the filters to install, in order.
pub(crate) fn programs(sockets: Sockets, kernel: Kernel) -> io::Result<Vec<BpfProgram>> {
    let users = match kernel {
        Kernel::Own => &[],
        Kernel::Users => USERS,
    };
    let mut programs = vec![
        compile(refusals(sockets).map_err(io::Error::other)?, libc::EPERM)?,
        // Their flags and modes are behind a pointer that a filter cannot follow. If they are missing, the C
        // library falls back to the calls above.
        compile(
            [libc::SYS_clone3, libc::SYS_openat2]
                .iter()
                .chain(users)
                .map(|call| (*call, Vec::new()))
                .collect(),
            libc::ENOSYS,
        )?,
    ];
    if cfg!(target_arch = "x86_64") {
        programs.push(no_x32());
    }
    Ok(programs)
}

fn refusals(sockets: Sockets) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces = [
        0x0002_0000,
        0x0200_0000,
        0x0400_0000,
        0x0800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000,
        0x80,
    ];
    rules.insert(libc::SYS_unshare, any_bit(0, &namespaces)?);
    // The last bit of the list is part of the exit signal of `clone`.
    rules.insert(libc::SYS_clone, any_bit(0, &namespaces[..7])?);
    rules.insert(libc::SYS_ioctl, any_value(1, &[TIOCSTI, TIOCLINUX])?);
    for (call, argument) in MODES {
        rules.insert(*call, any_bit(*argument, &[0o4000, 0o2000])?);
    }
    sockets.add_to(&mut rules)?;
    Ok(rules)
}

impl Sockets {
    fn add_to(self, rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
        let unix = libc::AF_UNIX as u64;
        match self {
            Self::Host => {
                rules.insert(libc::SYS_socket, any_value(0, &[AF_VSOCK])?);
            }
            Self::Local => {
                rules.insert(libc::SYS_socket, vec![none_of(0, &[unix, libc::AF_NETLINK as u64])?]);
                rules.insert(libc::SYS_socketpair, vec![none_of(0, &[unix])?]);
            }
            Self::Namespaced => {
                let families =
                    [unix, libc::AF_INET as u64, libc::AF_INET6 as u64, libc::AF_NETLINK as u64];
                rules.insert(libc::SYS_socket, vec![none_of(0, &families)?]);
                rules.insert(libc::SYS_socketpair, vec![none_of(0, &[unix])?]);
            }
            Self::Pairs => {
                // A message over a pair of datagram sockets can be addressed to any socket of the host.
                let datagrams = condition(1, SeccompCmpOp::MaskedEq(0xF), libc::SOCK_DGRAM as u64)?;
                rules.insert(
                    libc::SYS_socketpair,
                    vec![none_of(0, &[unix])?, SeccompRule::new(vec![datagrams])?],
                );
                for call in [
                    libc::SYS_socket,
                    libc::SYS_connect,
                    libc::SYS_bind,
                    libc::SYS_listen,
                    libc::SYS_accept,
                    libc::SYS_accept4,
                    libc::SYS_sendmmsg,
                ] {
                    rules.insert(call, Vec::new());
                }
            }
        }
        Ok(())
    }
}

type Made<T> = Result<T, seccompiler::BackendError>;

/// Compares the lower 32 bits, because the kernel reads no others of such arguments.
fn condition(argument: u8, comparison: SeccompCmpOp, value: u64) -> Made<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)
}

fn any_bit(argument: u8, bits: &[u64]) -> Made<Vec<SeccompRule>> {
    let rule = |bit: &u64| {
        SeccompRule::new(vec![condition(argument, SeccompCmpOp::MaskedEq(*bit), *bit)?])
    };
    bits.iter().map(rule).collect()
}

fn any_value(argument: u8, values: &[u64]) -> Made<Vec<SeccompRule>> {
    let rule = |value: &u64| SeccompRule::new(vec![condition(argument, SeccompCmpOp::Eq, *value)?]);
    values.iter().map(rule).collect()
}

fn none_of(argument: u8, values: &[u64]) -> Made<SeccompRule> {
    let conditions: Made<Vec<_>> =
        values.iter().map(|value| condition(argument, SeccompCmpOp::Ne, *value)).collect();
    SeccompRule::new(conditions?)
}

fn compile(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, errno, ARCH).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// Refuses the second table of system calls of this processor, which the rules above do not cover.
fn no_x32() -> BpfProgram {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(0x20, 0, 0, 0),
        step(0x35, 0, 1, 0x4000_0000),
        step(0x06, 0, 0, 0x0005_0000 | libc::ENOSYS.unsigned_abs()),
        step(0x06, 0, 0, 0x7FFF_0000),
    ]
}

#[cfg(test)]
mod tests;
