//! A process that is killed at any system call while it applies changes leaves all of them or none, once the next
//! process has looked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::Duration;

use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::{Transaction, recover, undo};
use loopwright_sandbox::{Backend, BackendSandbox, SandboxPolicy};

use crate::tree::{Tree, tree};
use crate::world::{World, run, sh};

/// Names the folder to the process that is killed.
const FOLDER: &str = "LOOPWRIGHT_TEST_FOLDER";
/// Names the call at which the process is killed, and the number of that call. Without it, the calls are recorded.
const AT: &str = "LOOPWRIGHT_TEST_CALL";

/// What the command does: one change of each kind, and some in one another.
const LINE: &str = "echo 2 > changed; rm removed; rm -r folder; mkdir -p new/deep; echo 3 > new/deep/file; \
                    chmod 700 rights; mv moved elsewhere; ln -s changed link; rm -r replaced; echo 4 > replaced; \
                    touch -d @7 dated; echo x > rights/.envrc; chmod 500 closed; chmod 700 closed; echo 5 > closed/in; \
                    chmod 500 closed";

/// The system calls that change something.
const CHANGING: [&str; 18] = [
    "renameat2",
    "renameat",
    "rename",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "utimensat",
    "mkdir",
    "mkdirat",
    "unlink",
    "unlinkat",
    "rmdir",
    "symlinkat",
    "write",
    "lremovexattr",
    "ftruncate",
    "flock",
];

/// A system call at which the process is killed: it does not take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Instant {
    call: String,
    /// Which call of this name, counted from one.
    number: usize,
}

fn prepared() -> World {
    let world = World::new();
    for name in [
        "changed",
        "removed",
        "folder/a",
        "folder/b/c",
        "moved",
        "replaced/x",
        "dated",
        "rights/in",
        "closed/in",
    ] {
        world.file(name, "1");
    }
    world
}

/// Collects and applies. Called in a process of its own.
#[test]
fn a_process_that_may_be_killed_applies_changes() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    loopwright_sandbox::set_helper_path(env!("CARGO_BIN_EXE_loopwright-sandbox-helper"));
    let transaction = Transaction::begin(&folder.join("staging"), &folder.join("work")).unwrap();
    let policy = SandboxPolicy::in_dir(folder.join("work")).with_transaction(&transaction);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let driver = BackendSandbox::new(Backend::Namespaces);
    runtime.block_on(run(&driver, &sh(LINE), &policy)).unwrap();
    let changes = transaction.changes(&Screen::standard()).unwrap();
    let watcher = watch(&folder.join(LOG), std::env::var(AT).ok().as_deref());
    transaction.apply(changes).unwrap();
    drop(watcher);
}

/// The calls of the process, beside its folder.
const LOG: &str = "calls";

/// Lets another process record the next calls that change something, or kill this one at one of them.
fn watch(log: &Path, at: Option<&str>) -> Child {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let mut strace = Program::new("strace");
    strace.args(["-qq", "-s", "0", "-o"]).arg(log).arg("-e");
    match at.and_then(|it| it.split_once(':')) {
        // Calls are counted by name, so only one name is watched.
        Some((call, number)) => strace
            .arg(format!("trace={call}"))
            .args(["-e", &format!("inject={call}:signal=KILL:when={number}")]),
        None => strace.arg(format!("trace={}", CHANGING.map(|call| format!("?{call}")).join(","))),
    };
    let watcher = strace.args(["-p", &thread.to_string()]).stdin(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/self/task/{thread}/status");
    while fs::read_to_string(&status).unwrap().contains("TracerPid:\t0\n") {
        std::thread::sleep(Duration::from_millis(1));
    }
    watcher
}

/// Runs the process, and kills it at an instant. Returns whether it was killed.
fn killed(folder: &Path, at: Option<&Instant>) -> bool {
    let mut process = Program::new(std::env::current_exe().unwrap());
    process
        .args(["--exact", "transactions_killed::a_process_that_may_be_killed_applies_changes"])
        .env(FOLDER, folder)
        .stdin(Stdio::null());
    if let Some(Instant { call, number }) = at {
        process.env(AT, format!("{call}:{number}"));
    }
    // This waits for `strace` as well, which has the same output.
    let output = process.output().unwrap();
    let was_killed = output.status.signal() == Some(9);
    assert!(was_killed || output.status.success(), "{output:?}");
    was_killed
}

/// Returns each call of a log with its number among those of its name.
fn instants(log: &str) -> Vec<Instant> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let calls = log.lines().filter_map(|line| Some(line.split_once('(')?.0));
    let numbered = calls.map(|call| {
        let number = counts.entry(call).or_default();
        *number += 1;
        Instant { call: call.to_owned(), number: *number }
    });
    numbered.collect()
}

/// A folder without the times of now.
fn same(tree: &Tree) -> Vec<String> {
    let look = |(path, node): (&PathBuf, &crate::tree::Node)| {
        let at = if node.modified.0 < 1000 { node.modified.0 } else { 0 };
        format!("{} {:o} {:?} {at}", path.display(), node.mode, node.content)
    };
    tree.iter().map(look).collect()
}

#[test]
fn a_process_that_is_killed_while_it_applies_changes_leaves_all_or_none() {
    if Program::new("strace").arg("-V").output().is_err() {
        println!("left out, because there is no `strace` here");
        return;
    }
    let world = prepared();
    let before = same(&tree(&world.path("")));
    assert!(!killed(&world.outside(""), None));
    let after = same(&tree(&world.path("")));
    assert_ne!(before, after);
    let instants = instants(&fs::read_to_string(world.outside(LOG)).unwrap());
    let commits = instants.iter().filter(|it| it.call.starts_with("rename")).count();
    assert!(commits > 1, "the plan and the changes are renamed: {instants:?}");
    let (mut ends, mut missed) = (BTreeSet::new(), Vec::new());
    let calls = instants.len();
    for at in instants {
        let world = prepared();
        if !killed(&world.outside(""), Some(&at)) {
            // A call that is repeated only if something else was in the way.
            assert_eq!(same(&tree(&world.path(""))), after, "not killed at {at:?}");
            missed.push(at);
            continue;
        }
        recover(&world.outside("staging")).unwrap();
        let now = same(&tree(&world.path("")));
        assert!(now == before || now == after, "killed at {at:?}: {now:#?}");
        ends.insert(now == after);
        let kept = fs::read_dir(world.outside("staging/kept")).into_iter().flatten().flatten();
        for record in kept {
            undo(&record.path()).unwrap();
            assert_eq!(same(&tree(&world.path(""))), before, "undone after {at:?}");
        }
    }
    assert!(missed.len() * 10 < calls, "{missed:?}");
    assert_eq!(ends, [false, true].into(), "some calls are before the plan, and some after it");
}
