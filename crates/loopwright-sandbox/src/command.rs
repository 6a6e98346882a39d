//! What to run: a program, its arguments and what it reads.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use bytes::Bytes;

/// A program with its arguments and its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Command {
    /// A path, or a name that is looked up in the `PATH` of the sandbox.
    pub program: OsString,
    /// The arguments, without the program's name.
    pub args: Vec<OsString>,
    /// What the program reads.
    pub stdin: Stdin,
}

/// What a command reads from its standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the end is reached at once.
    #[default]
    Null,
    /// These bytes, and then the end.
    Bytes(Bytes),
    /// What [`SandboxChild::write_stdin`](crate::SandboxChild::write_stdin) sends, until it is closed.
    Piped,
}

fn bash() -> Option<&'static str> {
    ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists())
}

impl Command {
    /// A program without arguments that reads nothing.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), stdin: Stdin::Null }
    }

    /// A line for the shell: `bash` if this machine [has it](Command::has_bash), `sh` otherwise.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new(bash().unwrap_or("/bin/sh")).args([OsString::from("-c"), line.into()])
    }

    /// Returns `true` if `bash` runs the lines of [`shell`](Command::shell). `sh` reads some of them in another way.
    pub fn has_bash() -> bool {
        bash().is_some()
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets what the program reads.
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// The program and its arguments, as text for people; not for a shell.
    pub fn to_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// The program and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str))
    }
}
