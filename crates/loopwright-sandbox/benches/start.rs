//! What a sandboxed command costs.
//!
//! `cargo bench -p loopwright-sandbox --bench start` prints the time of `sh -c :` from start to end, from an agent
//! that has 1 GB of memory: without a sandbox and in each backend, and what it takes to read 1 GB of output.

#![expect(clippy::expect_used, reason = "a bench may give up")]

use std::hint::black_box;
use std::path::Path;
use std::sync::OnceLock;

use divan::Bencher;
use divan::counter::BytesCount;
use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::{Transaction, forget};
use loopwright_sandbox::{
    Backend, BackendSandbox, Command, ExitOutcome, OutputLimits, Sandbox, SandboxPolicy,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const GIGABYTE: usize = 1 << 30;

fn main() {
    loopwright_sandbox::init();
    divan::main();
}

/// The memory of a large agent, all of it in use.
fn ballast() -> &'static [u8] {
    static BALLAST: OnceLock<Vec<u8>> = OnceLock::new();
    BALLAST.get_or_init(|| vec![1; GIGABYTE])
}

fn runtime() -> Runtime {
    black_box(ballast());
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[divan::bench(sample_count = 200)]
fn without_a_sandbox(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    bencher.bench_local(|| {
        let output =
            async { tokio::process::Command::new("/bin/sh").args(["-c", ":"]).output().await };
        runtime.block_on(output).expect("an output")
    });
}

#[divan::bench(args = [Backend::Namespaces, Backend::Bubblewrap, Backend::Landlock, Backend::Host], sample_count = 200)]
fn in_tier(bencher: Bencher<'_, '_>, backend: Backend) {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a folder");
    let policy = SandboxPolicy::in_dir(folder.path());
    bencher.bench_local(|| run(&runtime, backend, ":", &policy));
}

/// From the start of a transaction to the end of its application.
fn collected(runtime: &Runtime, staging: &Path, line: &str, policy: &SandboxPolicy) {
    let transaction = Transaction::begin(staging, &policy.workdir).expect("a transaction");
    run(runtime, Backend::Namespaces, line, &policy.clone().with_transaction(&transaction));
    let changes = transaction.changes(&Screen::standard()).expect("changes");
    if let Some(record) = transaction.apply(changes).expect("an application").record {
        forget(&record);
    }
}

#[divan::bench(sample_count = 200)]
fn with_changes_collected(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let (folder, staging) = (folder(), folder());
    let policy = SandboxPolicy::in_dir(folder.path());
    bencher.bench_local(|| collected(&runtime, staging.path(), ":", &policy));
}

const THOUSAND: &str = "i=0; while [ $i -lt 1000 ]; do echo $i > $i; i=$((i + 1)); done";

#[divan::bench(sample_count = 40)]
fn a_thousand_new_files_at_once(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    bencher.with_inputs(folder).bench_local_refs(|folder| {
        run(&runtime, Backend::Namespaces, THOUSAND, &SandboxPolicy::in_dir(folder.path()));
    });
}

#[divan::bench(sample_count = 40)]
fn a_thousand_new_files_collected(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let staging = folder();
    bencher.with_inputs(folder).bench_local_refs(|folder| {
        collected(&runtime, staging.path(), THOUSAND, &SandboxPolicy::in_dir(folder.path()));
    });
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[divan::bench(sample_count = 5)]
fn a_gigabyte_of_output(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a folder");
    let policy = SandboxPolicy::in_dir(folder.path())
        .with_output(OutputLimits { kill: None, ..OutputLimits::default() });
    let line = format!("head -c {GIGABYTE} /dev/zero");
    bencher
        .counter(BytesCount::new(GIGABYTE))
        .bench_local(|| run(&runtime, Backend::Namespaces, &line, &policy));
}

fn run(runtime: &Runtime, backend: Backend, line: &str, policy: &SandboxPolicy) {
    let command = Command::new("/bin/sh").args(["-c", line]);
    let driver = BackendSandbox::new(backend);
    let sandbox: &dyn Sandbox = &driver;
    let cancel = CancellationToken::new();
    let output = runtime
        .block_on(sandbox.run(&command, policy, &mut |_, _| {}, &cancel))
        .expect("an output");
    assert_eq!(output.outcome, ExitOutcome::Exited(0), "{}", output.stderr.to_text());
}
