//! A home directory, a working directory, and the program in them.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server::nowhere;

/// A home directory with a working directory in it, and nothing of the machine's own environment.
pub(crate) struct World {
    home: TempDir,
    variables: Vec<(String, String)>,
}

/// What a program left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.path().join("project/.git")).unwrap();
        fs::write(home.path().join("project/a.txt"), "one\ntwo\n").unwrap();
        Self { home, variables: Vec::new() }
    }

    /// A world whose programs run at a terminal.
    pub(crate) fn at_terminal() -> Self {
        Self::new().env("TERM", "xterm-256color")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn has_env(&self, name: &str) -> bool {
        self.variables.iter().any(|(it, _)| it == name)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright"));
        command
            .args(line)
            .current_dir(self.path("project"))
            .env_clear()
            .env("HOME", self.path(""))
            .env("TMPDIR", self.path(""))
            .env("PATH", "/usr/bin:/bin")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a line of a shell that finds the program, and has nothing on standard input.
    pub(crate) fn shell(&self, line: &str) -> Done {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_loopwright"));
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let mut command = Command::new("bash");
        command
            .args(["-c", line])
            .current_dir(self.path("project"))
            .env_clear()
            .env("HOME", self.path(""))
            .env("PATH", path)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        self.done(command.output().unwrap())
    }

    /// Starts the program with an empty standard input.
    pub(crate) fn start(&self, line: &[&str]) -> Child {
        let mut child = self.command(line).spawn().unwrap();
        drop(child.stdin.take());
        child
    }

    pub(crate) fn run(&self, line: &[&str]) -> Done {
        self.run_with(line, "")
    }

    pub(crate) fn run_with(&self, line: &[&str], stdin: &str) -> Done {
        let mut child = self.command(line).spawn().unwrap();
        // A program that ends before it reads closes the pipe, which is none of this test's business.
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
        self.done(child.wait_with_output().unwrap())
    }

    /// Reads what a program left behind; its home directory is not repeated.
    pub(crate) fn done(&self, output: Output) -> Done {
        let home = self.path("");
        let home = home.to_str().unwrap().trim_end_matches('/');
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(home, "");
        Done {
            status: output.status.code().expect("the program was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// A number that marks the processes of one test.
pub(crate) fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("31{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until `sleep` runs with this mark, and returns its process.
pub(crate) fn until_asleep(mark: &str) -> u32 {
    let line = format!("sleep\0{mark}\0");
    let asleep = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let is_one = |it: &fs::DirEntry| {
            fs::read(it.path().join("cmdline")).is_ok_and(|it| it == line.as_bytes())
        };
        processes.into_iter().find(is_one)?.file_name().to_str()?.parse().ok()
    };
    let began = Instant::now();
    loop {
        if let Some(process) = asleep() {
            return process;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "the command does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A machine on which nothing answers.
pub(crate) fn lonely() -> World {
    let local = ["OLLAMA", "LM_STUDIO", "LLAMA_CPP", "VLLM"];
    local.iter().fold(World::new(), |world, it| world.env(&format!("{it}_BASE_URL"), &nowhere()))
}

/// Takes times, and the way to continue, out of a text.
pub(crate) fn redact(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("resume with: ") {
        Some(_) => "resume with: R\n".to_owned(),
        None => timeless(line),
    };
    text.lines().map(line).collect()
}

fn timeless(line: &str) -> String {
    let is_time = |time: &str| time.ends_with(" ms") || time.ends_with(" s");
    match line.rsplit_once("· ") {
        Some((before, time)) if is_time(time) => format!("{before}· T\n"),
        _ => format!("{line}\n"),
    }
}
