//! What a command costs does not depend on how many files its folder has, where changes are collected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};

use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::Transaction;
use loopwright_sandbox::{Backend, BackendSandbox, SandboxPolicy};

use crate::world::{run, sh};

/// Names the folder to the process whose calls are counted.
const FOLDER: &str = "LOOPWRIGHT_TEST_COUNTED";

/// System calls that look at or change files, and say on entry which.
const CALLS: &str = "trace=?open,openat,openat2,?stat,?lstat,newfstatat,statx,?access,faccessat,faccessat2,getdents64,\
                     ?mkdir,mkdirat,?unlink,unlinkat,?rename,renameat2,fchmod,fchmodat,utimensat,getxattr,lgetxattr,\
                     fgetxattr,listxattr,llistxattr,flistxattr,symlinkat,linkat,mount,move_mount,inotify_add_watch";

/// Runs a command, and applies its changes. Called in a process of its own.
#[test]
fn a_process_whose_calls_may_be_counted_runs_a_command() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    loopwright_sandbox::set_helper_path(env!("CARGO_BIN_EXE_loopwright-sandbox-helper"));
    let transaction = Transaction::begin(&folder.join("staging"), &folder.join("work")).unwrap();
    let policy = SandboxPolicy::in_dir(folder.join("work")).with_transaction(&transaction);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let driver = BackendSandbox::new(Backend::Namespaces);
    let output = runtime.block_on(run(&driver, &sh("echo 2 > 1; echo 3 > new"), &policy)).unwrap();
    assert!(output.outcome.is_success(), "{output:?}");
    let changes = transaction.changes(&Screen::standard()).unwrap();
    transaction.apply(changes).unwrap();
}

/// Returns the calls of the process and the command that name something in a folder of so many files.
fn calls(files: usize) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    for file in 0..files {
        fs::write(work.join(file.to_string()), "1").unwrap();
    }
    let log = folder.path().join("calls");
    let output = Program::new("strace")
        .args(["-f", "-qq", "-y", "-e", CALLS, "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "growth::a_process_whose_calls_may_be_counted_runs_a_command"])
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(work.join("new")).unwrap(), "3\n");
    let name = folder.path().file_name().and_then(|it| it.to_str()).unwrap();
    count(&log, name)
}

fn count(log: &Path, name: &str) -> usize {
    let log = fs::read(log).unwrap();
    let log = String::from_utf8_lossy(&log);
    // The second part of a call that another one interrupted does not count again.
    log.lines().filter(|line| line.contains(name) && !line.contains(" resumed>")).count()
}

#[test]
fn a_command_whose_changes_are_collected_makes_as_many_calls_in_a_large_folder_as_in_a_small_one() {
    if Program::new("strace").arg("-V").output().is_err() {
        println!("left out, because there is no `strace` here");
        return;
    }
    let few = calls(10);
    assert!(few > 10, "the calls in the folder are seen: {few}");
    assert_eq!(calls(10_000), few);
}
