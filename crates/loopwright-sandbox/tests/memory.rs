//! Memory that no process is charged with counts as well: each kind is tried beyond the limit by a real command.

use std::time::Duration;

use loopwright_sandbox::{
    Backend, Cgroup, Command, ExitOutcome, Limit, Output, Sandbox as _, SandboxPolicy, TimeoutKind,
};

use crate::world::World;

const LIMIT: u64 = 96 << 20;

/// Every kind takes memory in pieces of 4 MiB, up to three times the limit, and then waits to be ended.
const START: &str = r#"
import ctypes, mmap, os, socket, sys, time
MIB = 1 << 20
PIECE = b"x" * (4 * MIB)
libc = ctypes.CDLL(None, use_errno=True)
held = []
def shared_part():
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    place = libc.mmap(None, 4 * MIB, 3, 0x21, -1, 0)
    ctypes.memset(place, 1, 4 * MIB)
    libc.munmap(place + 4096, 4 * MIB - 4096)
"#;

const CONNECTIONS: &str = "buffers of connections";
const LOCAL_SOCKETS: &str = "buffers of local sockets";

const KINDS: [(&str, &str); 9] = [
    ("a file without a name", "f = os.memfd_create('m')\ndef take(): os.write(f, PIECE)"),
    (
        "files without names that are on their way",
        "a, b = socket.socketpair()\n\
         def take():\n    f = os.memfd_create('m'); os.write(f, PIECE)\n    \
         socket.send_fds(a, [b'x'], [f]); os.close(f)",
    ),
    (
        "shared memory of System V",
        "libc.shmat.restype = ctypes.c_void_p\n\
         libc.shmdt.argtypes = [ctypes.c_void_p]\n\
         def take():\n    segment = libc.shmget(0, ctypes.c_size_t(4 * MIB), 0o600)\n    \
         if segment < 0: print(ctypes.get_errno(), flush=True); time.sleep(20)\n    \
         place = libc.shmat(segment, None, 0)\n    ctypes.memset(place, 1, 4 * MIB); libc.shmdt(place)",
    ),
    ("shared memory of POSIX", "f = open('/dev/shm/a', 'wb', 0)\ndef take(): f.write(PIECE)"),
    ("files in scratch space", "f = open('/tmp/a', 'wb', 0)\ndef take(): f.write(PIECE)"),
    (
        "memory shared without a name",
        "def take():\n    m = mmap.mmap(-1, 4 * MIB); m.write(PIECE); held.append(m)",
    ),
    ("memory of which a part was unmapped", "def take(): shared_part()"),
    (
        LOCAL_SOCKETS,
        "def take():\n    for _ in range(20):\n        a, b = socket.socketpair()\n        held.append((a, b))\n        \
         for s in (a, b):\n            s.setblocking(False)\n            try: s.send(bytes(200000))\n            \
         except BlockingIOError: pass",
    ),
    (
        CONNECTIONS,
        "l = socket.create_server(('127.0.0.1', 0), backlog=100)\n\
         def take():\n    a = socket.create_connection(l.getsockname()); b, _ = l.accept()\n    \
         held.append((a, b)); a.setblocking(False)\n    \
         try:\n        while True: a.send(bytes(500000))\n    except BlockingIOError: pass",
    ),
];

const END: &str = r#"
for _ in range(72): take()
print("held", flush=True)
"#;

/// Takes the memory, and holds it until it is ended.
fn hog(kind: &str) -> Command {
    hog_for(kind, 20)
}

/// Takes the memory, and holds it for some seconds.
fn hog_for(kind: &str, seconds: u32) -> Command {
    let line = format!("{START}{kind}{END}time.sleep({seconds})");
    Command::new("/usr/bin/python3").args(["-c", &line])
}

/// For how many seconds memory of this kind is held in a control group.
fn seconds_in_group(name: &str) -> u32 {
    // Connections are refused more memory, which is as good: nothing is to come that is worth waiting for.
    if name == CONNECTIONS { 0 } else { 20 }
}

fn policy(world: &World, cgroup: Cgroup) -> SandboxPolicy {
    let policy = world.policy().with_memory(LIMIT).with_cgroup(cgroup).with_open_files(4096);
    policy.with_file_size(1 << 30).with_scratch(1 << 30)
}

/// Whether there is something to try it with.
#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
fn python() -> bool {
    let found = std::path::Path::new("/usr/bin/python3").exists();
    if !found {
        println!("left out: there is no Python");
    }
    found
}

#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
async fn run(backend: Backend, cgroup: Cgroup, hog: &Command) -> Option<Output> {
    let world = World::in_tier(backend);
    if backend == Backend::Bubblewrap && world.driver().probe().await.is_err() {
        println!("left out: there is no bubblewrap that works here");
        return None;
    }
    Some(world.try_run(hog, &policy(&world, cgroup)).await.unwrap())
}

async fn ends(backend: Backend, cgroup: Cgroup, name: &str, kind: &str) {
    if let Some(output) = run(backend, cgroup, &hog(kind)).await {
        let said = (output.stdout.to_text(), output.stderr.to_text());
        assert_eq!(
            output.outcome,
            ExitOutcome::LimitReached(Limit::Memory),
            "{backend}: {name} {said:?}"
        );
    }
}

#[tokio::test]
async fn memory_of_every_kind_counts_where_it_is_watched() {
    for (name, kind) in KINDS.into_iter().filter(|_| python()) {
        ends(Backend::Namespaces, Cgroup::Off, name, kind).await;
    }
}

#[tokio::test]
async fn memory_of_every_kind_counts_in_a_root_of_bubblewrap() {
    for (name, kind) in KINDS.into_iter().filter(|_| python()) {
        ends(Backend::Bubblewrap, Cgroup::Off, name, kind).await;
    }
}

#[tokio::test]
async fn memory_of_every_kind_is_bounded_by_a_control_group_where_one_can_be_made() {
    for backend in [Backend::Namespaces, Backend::Bubblewrap] {
        for (name, kind) in KINDS.into_iter().filter(|_| python()) {
            let hog = hog_for(kind, seconds_in_group(name));
            let Some(output) = run(backend, Cgroup::IfWritable, &hog).await else { continue };
            let is_refused = output.stdout.to_text() == "held\n" && name == CONNECTIONS;
            assert!(
                output.outcome == ExitOutcome::LimitReached(Limit::Memory) || is_refused,
                "{backend}: {name} {output:?}"
            );
        }
    }
}

#[tokio::test]
async fn without_namespaces_memory_is_watched_or_refused() {
    for (name, kind) in KINDS.into_iter().filter(|_| python()) {
        let world = World::in_tier(Backend::Landlock);
        let mut policy = policy(&world, Cgroup::Off);
        if name == "shared memory of System V" {
            // It waits when it is refused.
            policy = policy.with_timeout(Duration::from_secs(2));
        }
        // What is unbounded is held to the end, so it is not held for long.
        let seconds = if name == LOCAL_SOCKETS { 0 } else { 20 };
        let output = world.run(&hog_for(kind, seconds), &policy).await;
        let said = output.stderr.to_text();
        match name {
            // Nothing of it is there, or it is on a disk.
            "shared memory of System V" => {
                assert_eq!(output.outcome, ExitOutcome::TimedOut(TimeoutKind::Wall));
                assert_eq!(output.stdout.to_text(), "38\n");
            }
            "shared memory of POSIX" | "files in scratch space" | CONNECTIONS => {
                assert!(said.contains("PermissionError"), "{name}: {output:?}");
            }
            // Unbounded, and not promised.
            LOCAL_SOCKETS => {}
            _ => assert_eq!(
                output.outcome,
                ExitOutcome::LimitReached(Limit::Memory),
                "{name} {said}"
            ),
        }
    }
}

#[tokio::test]
async fn page_tables_count() {
    // Reading one byte of every 2 MiB fills a page of a table each time, and shows a page of zeros that nobody owns.
    let kind = "m = mmap.mmap(-1, 1 << 40, flags=0x4022, prot=mmap.PROT_READ)\nat = 0\n\
                def take():\n    global at\n    for _ in range(1024):\n        m[at]; at += 2 * MIB";
    if python() {
        ends(Backend::Namespaces, Cgroup::Off, "page tables", kind).await;
    }
}

#[tokio::test]
async fn memory_below_the_limit_does_not_end_a_command() {
    let line = "import os, mmap, socket\n\
                f = os.memfd_create('m'); os.write(f, bytes(20 << 20))\n\
                open('/dev/shm/a', 'wb').write(bytes(20 << 20))\n\
                m = mmap.mmap(-1, 1 << 40, flags=0x4001 | 0x20)\n\
                m[:20 << 20] = bytes(20 << 20)\n\
                import time; time.sleep(0.5); print('done')";
    for cgroup in [Cgroup::Off, Cgroup::IfWritable] {
        for backend in [Backend::Namespaces, Backend::Bubblewrap].into_iter().filter(|_| python()) {
            let world = World::in_tier(backend);
            let command = Command::new("/usr/bin/python3").args(["-c", line]);
            let policy = policy(&world, cgroup).with_memory(256 << 20);
            let Ok(output) = world.try_run(&command, &policy).await else {
                assert_eq!(backend, Backend::Bubblewrap, "the default backend works");
                continue;
            };
            assert_eq!(
                (output.outcome, output.stdout.to_text(), output.stderr.to_text()),
                (ExitOutcome::Exited(0), "done\n".into(), String::new()),
                "{backend}"
            );
        }
    }
}
