//! Commands: a program, its arguments and its input.

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
    /// The standard input.
    pub stdin: Stdin,
}

/// The standard input of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Empty.
    #[default]
    Null,
    /// These bytes, and then the end.
    Bytes(Bytes),
    /// The data that [`SandboxChild::write_stdin`](crate::SandboxChild::write_stdin) sends, until
    /// it is closed.
    Piped,
}

fn bash() -> Option<&'static str> {
    ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists())
}

impl Command {
    /// Creates a command of a program without arguments and input.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), stdin: Stdin::Null }
    }

    /// Creates a command that runs a line in a shell: `bash` if this machine
    /// [has it](Command::has_bash), otherwise `sh`.
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

    /// Sets the standard input.
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Returns the program and its arguments as readable text; not for a shell.
    pub fn to_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the program and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str))
    }
}
