//! What a command that writes 1,000 small files costs if its changes are collected.
//!
//! `cargo bench -p loopwright-sandbox --bench thousand` runs it in turn without a sandbox, in one that writes at once, and in one
//! that collects, and prints the medians of each and how many times as long the last takes. Every run has a new folder, and none is
//! removed before the end: a file system that has just removed thousands of files is slow to make new ones (ext4 does not give
//! their inodes again for a while, and looks at each of them), which would be most of what is measured.

#![expect(clippy::expect_used, reason = "a bench may give up")]

use std::path::Path;
use std::time::{Duration, Instant};

use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::Transaction;
use loopwright_sandbox::{Backend, BackendSandbox, Command, ExitOutcome, Sandbox, SandboxPolicy};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const THOUSAND: &str = "i=0; while [ $i -lt 1000 ]; do echo $i > $i; i=$((i + 1)); done";

const ROUNDS: usize = 60;

fn main() {
    loopwright_sandbox::init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let all = tempfile::tempdir().expect("a folder");
    let staging = all.path().join("staging");
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (way, times) in times.iter_mut().enumerate() {
            let folder = all.path().join(format!("{round}-{way}"));
            std::fs::create_dir(&folder).expect("a folder");
            let began = Instant::now();
            match way {
                0 => plain(&runtime, &folder),
                1 => run(&runtime, &SandboxPolicy::in_dir(&folder)),
                _ => collected(&runtime, &staging, &folder),
            }
            times.push(began.elapsed());
        }
    }
    let [plain, at_once, collected] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let ratio = |to: Duration| collected.as_secs_f64() / to.as_secs_f64();
    #[expect(clippy::print_stdout, reason = "it is what a bench is for")]
    {
        println!("without a sandbox  {plain:.1?}");
        println!("at once            {at_once:.1?}");
        println!("collected          {collected:.1?}");
        println!("collected takes {:.2} × at once, {:.2} × without", ratio(at_once), ratio(plain));
    }
}

fn plain(runtime: &Runtime, folder: &Path) {
    let output = async {
        tokio::process::Command::new("/bin/sh")
            .args(["-c", THOUSAND])
            .current_dir(folder)
            .output()
            .await
    };
    assert!(runtime.block_on(output).expect("an output").status.success());
}

fn collected(runtime: &Runtime, staging: &Path, folder: &Path) {
    let transaction = Transaction::begin(staging, folder).expect("a transaction");
    run(runtime, &SandboxPolicy::in_dir(folder).with_transaction(&transaction));
    let changes = transaction.changes(&Screen::standard()).expect("changes");
    let applied = transaction.apply(changes).expect("an application");
    assert_eq!(applied.changed.len(), 1000);
}

fn run(runtime: &Runtime, policy: &SandboxPolicy) {
    let command = Command::new("/bin/sh").args(["-c", THOUSAND]);
    let driver = BackendSandbox::new(Backend::Namespaces);
    let sandbox: &dyn Sandbox = &driver;
    let cancel = CancellationToken::new();
    let output = runtime.block_on(sandbox.run(&command, policy, &mut |_, _| {}, &cancel));
    let output = output.expect("an output");
    assert_eq!(output.outcome, ExitOutcome::Exited(0), "{}", output.stderr.to_text());
}
