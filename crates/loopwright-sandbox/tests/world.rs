//! A folder of its own for each test, and what is asked most often.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use loopwright_sandbox::{
    Backend, BackendSandbox, Command, ExitOutcome, Output, OutputStream, Sandbox, SandboxChild,
    SandboxError, SandboxPolicy,
};
use tokio_util::sync::CancellationToken;

pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) backend: Backend,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::in_tier(Backend::Namespaces)
    }

    pub(crate) fn in_tier(backend: Backend) -> Self {
        loopwright_sandbox::set_helper_path(env!("CARGO_BIN_EXE_loopwright-sandbox-helper"));
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder, backend }
    }

    /// A path next to the working folder.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the working folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn policy(&self) -> SandboxPolicy {
        SandboxPolicy::in_dir(self.folder.path().join("work"))
            .with_timeout(Duration::from_secs(30))
            .with_backend(self.backend)
    }

    pub(crate) fn driver(&self) -> BackendSandbox {
        BackendSandbox::new(self.backend)
    }

    pub(crate) async fn try_run(
        &self,
        command: &Command,
        policy: &SandboxPolicy,
    ) -> Result<Output, SandboxError> {
        run(&self.driver(), command, policy).await
    }

    pub(crate) async fn run(&self, command: &Command, policy: &SandboxPolicy) -> Output {
        self.try_run(command, policy).await.unwrap()
    }

    pub(crate) async fn sh(&self, line: &str) -> Output {
        self.run(&sh(line), &self.policy()).await
    }

    /// What a line prints, for lines that succeed.
    pub(crate) async fn says(&self, line: &str) -> String {
        let output = self.sh(line).await;
        assert_eq!(
            (output.outcome, output.stderr.to_text()),
            (ExitOutcome::Exited(0), String::new()),
            "{line}"
        );
        output.stdout.to_text()
    }

    pub(crate) async fn spawn(&self, line: &str, policy: &SandboxPolicy) -> SandboxChild {
        self.driver().spawn(&sh(line), policy).await.unwrap()
    }
}

pub(crate) fn sh(line: &str) -> Command {
    Command::new("/bin/sh").args(["-c", line])
}

pub(crate) async fn run(
    sandbox: &dyn Sandbox,
    command: &Command,
    policy: &SandboxPolicy,
) -> Result<Output, SandboxError> {
    sandbox.run(command, policy, &mut |_, _| {}, &CancellationToken::new()).await
}

/// Reads until this was said.
pub(crate) async fn until_said(child: &mut SandboxChild, wanted: &str) {
    let mut said = String::new();
    while !said.contains(wanted) {
        let (stream, bytes) =
            child.read().await.unwrap_or_else(|| panic!("it ended and said {said:?}"));
        assert_eq!(stream, OutputStream::Stdout, "{}", String::from_utf8_lossy(&bytes));
        said.push_str(&String::from_utf8_lossy(&bytes));
    }
}

/// How many processes on this machine have this mark among their arguments.
pub(crate) fn alive(mark: &str) -> usize {
    let marked = |path: &Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().filter(|entry| marked(&entry.path())).count()
}

/// Waits for processes to be gone that no process waits for; how many are left at last.
pub(crate) fn left(mark: &str) -> usize {
    let started = Instant::now();
    loop {
        let alive = alive(mark);
        if alive == 0 || started.elapsed() > Duration::from_secs(20) {
            return alive;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number that marks the processes of one test.
pub(crate) fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("3{:05}{:03}", std::process::id() % 100_000, next)
}
