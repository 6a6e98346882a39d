//! A process that is killed at any system call while it applies changes leaves all of them or none, once the next
//! process has looked.

use std::collections::BTreeSet;
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
/// Says at which of its calls it is killed.
const AT: &str = "LOOPWRIGHT_TEST_CALL";

/// What the command does: one change of each kind, and some in one another.
const LINE: &str = "echo 2 > changed; rm removed; rm -r folder; mkdir -p new/deep; echo 3 > new/deep/file; \
                    chmod 700 rights; mv moved elsewhere; ln -s changed link; rm -r replaced; echo 4 > replaced; \
                    touch -d @7 dated; echo x > rights/.envrc; chmod 500 closed; chmod 700 closed; echo 5 > closed/in; \
                    chmod 500 closed";

/// The system calls that change something.
const CHANGING: &str = "renameat2,renameat,rename,chmod,fchmodat,?fchmodat2,utimensat,mkdir,mkdirat,unlink,unlinkat,rmdir,\
                        write,lremovexattr,ftruncate,flock";

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
    let watcher = kill_at(&std::env::var(AT).unwrap());
    transaction.apply(changes).unwrap();
    drop(watcher);
}

/// Lets another process kill this one at one of the next calls that change something.
fn kill_at(call: &str) -> Child {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let watcher = Program::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", &format!("trace={CHANGING}"), "-e"])
        .arg(format!("inject={CHANGING}:signal=KILL:when={call}"))
        .args(["-p", &thread.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/self/task/{thread}/status");
    while fs::read_to_string(&status).unwrap().contains("TracerPid:\t0\n") {
        std::thread::sleep(Duration::from_millis(1));
    }
    watcher
}

/// Runs the process, and kills it at this call of those that change something. Returns whether it was killed.
fn killed(folder: &Path, at: usize) -> bool {
    let output = Program::new(std::env::current_exe().unwrap())
        .args(["--exact", "transactions_killed::a_process_that_may_be_killed_applies_changes"])
        .env(FOLDER, folder)
        .env(AT, at.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let was_killed = output.status.signal() == Some(9);
    assert!(was_killed || output.status.success(), "{output:?}");
    was_killed
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
    assert!(!killed(world.outside("").as_path(), 60_000));
    let after = same(&tree(&world.path("")));
    assert_ne!(before, after);
    let stride = if std::env::var_os("LOOPWRIGHT_LONG").is_some() { 1 } else { 5 };
    let mut ends = BTreeSet::new();
    let mut at = 1;
    loop {
        let world = prepared();
        let was_killed = killed(world.outside("").as_path(), at);
        recover(&world.outside("staging")).unwrap();
        let tree_now = tree(&world.path(""));
        let now = same(&tree_now);
        assert!(now == before || now == after, "killed at call {at}: {now:#?}");
        ends.insert(now == after);
        let kept = fs::read_dir(world.outside("staging/kept")).into_iter().flatten().flatten();
        for record in kept {
            undo(&record.path()).unwrap();
            assert_eq!(same(&tree(&world.path(""))), before, "undone after call {at}");
        }
        if !was_killed {
            break;
        }
        at += stride;
    }
    assert_eq!(ends, [false, true].into(), "some calls are before the plan, and some after it");
}
