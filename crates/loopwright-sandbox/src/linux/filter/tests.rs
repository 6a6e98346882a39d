use super::*;

/// What the kernel does about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Refused(i32),
}

use Verdict::{Allowed, Refused};

const EPERM: Verdict = Refused(libc::EPERM);
const ENOSYS: Verdict = Refused(libc::ENOSYS);

/// Runs a program as the kernel does, on the words that it shows of a call.
fn run(program: &[sock_filter], words: &[u32; 16]) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let holds = match code {
            0x20 => {
                accumulator = words[k as usize / 4];
                continue;
            }
            0x54 => {
                accumulator &= k;
                continue;
            }
            0x05 => {
                at += k as usize;
                continue;
            }
            0x06 => return k,
            0x15 => accumulator == k,
            0x25 => accumulator > k,
            0x35 => accumulator >= k,
            0x45 => accumulator & k != 0,
            _ => panic!("instruction {code:#x}"),
        };
        at += usize::from(if holds { jt } else { jf });
    }
}

/// What becomes of a call with these arguments.
fn verdict(sockets: Sockets, call: i64, arguments: &[u64]) -> Verdict {
    verdict_in(Kernel::Own, sockets, call, arguments)
}

fn verdict_in(kernel: Kernel, sockets: Sockets, call: i64, arguments: &[u64]) -> Verdict {
    let mut words = [0; 16];
    words[0] = u32::try_from(call).unwrap();
    words[1] = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };
    for (index, argument) in arguments.iter().enumerate() {
        words[4 + 2 * index] = u32::try_from(argument & 0xFFFF_FFFF).unwrap();
        words[5 + 2 * index] = u32::try_from(argument >> 32).unwrap();
    }
    let programs = programs(sockets, kernel).unwrap();
    let verdicts = programs.iter().map(|program| match run(program, &words) {
        0x7FFF_0000 => Allowed,
        refused if refused & 0xFFFF_0000 == 0x0005_0000 => {
            Refused(i32::try_from(refused & 0xFFFF).unwrap())
        }
        other => panic!("{other:#x}"),
    });
    verdicts.into_iter().find(|verdict| *verdict != Allowed).unwrap_or(Allowed)
}

const ALL: [Sockets; 4] = [Sockets::Host, Sockets::Namespaced, Sockets::Local, Sockets::Pairs];

#[test]
fn system_calls_that_every_program_needs_are_allowed() {
    for sockets in ALL {
        for call in [libc::SYS_read, libc::SYS_execve, libc::SYS_mmap, libc::SYS_exit_group] {
            assert_eq!(verdict(sockets, call, &[1, 2, 3]), Allowed, "{sockets:?} {call}");
        }
    }
}

#[test]
fn calls_that_lead_out_of_a_sandbox_are_refused_whatever_they_are_given() {
    for sockets in ALL {
        for call in REFUSED {
            assert_eq!(verdict(sockets, *call, &[]), EPERM, "{sockets:?} {call}");
        }
        // The C library falls back to the older calls, whose arguments can be looked at.
        for call in [libc::SYS_clone3, libc::SYS_openat2] {
            assert_eq!(verdict(sockets, call, &[]), ENOSYS, "{sockets:?} {call}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_second_table_of_calls_is_refused() {
    assert_eq!(verdict(Sockets::Host, 0x4000_0000, &[]), ENOSYS);
    assert_eq!(verdict(Sockets::Host, 0x4000_0000 + libc::SYS_ptrace, &[]), ENOSYS);
    assert_eq!(verdict(Sockets::Host, 0x3FFF_FFFF, &[]), Allowed);
}

#[test]
fn which_sockets_can_be_made_is_what_the_network_allows() {
    let families =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];
    let made = |sockets: Sockets, call: i64, families: &[i32]| {
        let made = |family: &&i32| {
            verdict(sockets, call, &[u64::from(family.cast_unsigned()), libc::SOCK_STREAM as u64])
                == Allowed
        };
        families.iter().filter(made).copied().collect::<Vec<_>>()
    };
    for (sockets, expect) in [
        (Sockets::Host, &families[..]),
        (Sockets::Namespaced, &families[..4]),
        (Sockets::Local, &[libc::AF_UNIX, libc::AF_NETLINK]),
        (Sockets::Pairs, &[]),
    ] {
        assert_eq!(made(sockets, libc::SYS_socket, &families), expect, "{sockets:?}");
    }
    for sockets in [Sockets::Namespaced, Sockets::Local, Sockets::Pairs] {
        let pairs = made(sockets, libc::SYS_socketpair, &families);
        assert_eq!(pairs, [libc::AF_UNIX], "{sockets:?}");
    }
    assert_eq!(verdict(Sockets::Host, libc::SYS_socket, &[AF_VSOCK]), EPERM);
}

#[test]
fn without_another_confinement_only_stream_socket_pairs_are_allowed() {
    let pair = |kind: i32| {
        verdict(
            Sockets::Pairs,
            libc::SYS_socketpair,
            &[libc::AF_UNIX as u64, u64::from(kind.cast_unsigned())],
        )
    };
    assert_eq!(pair(libc::SOCK_STREAM), Allowed);
    assert_eq!(pair(libc::SOCK_STREAM | libc::SOCK_CLOEXEC), Allowed);
    assert_eq!(pair(libc::SOCK_DGRAM), EPERM);
    assert_eq!(pair(libc::SOCK_DGRAM | libc::SOCK_CLOEXEC), EPERM);
    for call in [
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_sendmmsg,
    ] {
        assert_eq!(verdict(Sockets::Pairs, call, &[]), EPERM, "{call}");
        assert_eq!(verdict(Sockets::Local, call, &[]), Allowed, "{call}");
    }
}

#[test]
fn no_file_is_made_that_runs_as_its_owner_or_group() {
    for (call, argument) in MODES {
        for (mode, expect) in [(0o755, Allowed), (0o4755, EPERM), (0o2755, EPERM), (0o6000, EPERM)]
        {
            let mut arguments = [0; 4];
            arguments[usize::from(*argument)] = mode;
            assert_eq!(verdict(Sockets::Host, *call, &arguments), expect, "{call} {mode:o}");
        }
    }
}

#[test]
fn no_namespace_is_made_by_any_flag() {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    for flag in flags {
        let flag = u64::from(flag.cast_unsigned());
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            assert_eq!(verdict(Sockets::Host, call, &[flag]), EPERM, "{call} {flag:#x}");
        }
    }
    // A namespace of time for the one, a part of the exit signal for the other.
    assert_eq!(verdict(Sockets::Host, libc::SYS_unshare, &[0x80]), EPERM);
    assert_eq!(verdict(Sockets::Host, libc::SYS_clone, &[0x80]), Allowed);
    let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::SIGCHLD).cast_unsigned();
    assert_eq!(verdict(Sockets::Host, libc::SYS_clone, &[thread.into()]), Allowed);
}

#[test]
fn pushing_input_into_a_terminal_is_refused() {
    for request in [TIOCSTI, TIOCLINUX, TIOCSTI | 1 << 32] {
        assert_eq!(verdict(Sockets::Host, libc::SYS_ioctl, &[0, request]), EPERM, "{request:#x}");
    }
    assert_eq!(verdict(Sockets::Host, libc::SYS_ioctl, &[0, libc::TCGETS]), Allowed);
}

#[test]
fn shared_memory_and_queues_of_the_user_are_refused() {
    for call in [
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_msgget,
        libc::SYS_msgrcv,
        libc::SYS_semget,
        libc::SYS_semctl,
        libc::SYS_inotify_init1,
    ] {
        assert_eq!(verdict_in(Kernel::Users, Sockets::Pairs, call, &[0, 1, 2]), ENOSYS, "{call}");
        assert_eq!(verdict_in(Kernel::Own, Sockets::Pairs, call, &[0, 1, 2]), Allowed, "{call}");
    }
}
