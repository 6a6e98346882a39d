//! A few commands that look around, without a shell.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::future::join;
use loopwright_core::{BoxError, Effects, Tool, ToolCx, ToolOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::Workdir;
use super::commands::{self, CommandRefusal};
use super::words::{self, SplitError};

/// Runs one of a few commands that only look, in the working directory.
///
/// A command sees no variables but `PATH` and `LANG` and nothing on its standard input. Dropping the
/// call kills it.
#[derive(Clone, Debug)]
pub struct Bash {
    workdir: Workdir,
    path: String,
    description: String,
}

/// What the model passes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct BashArgs {
    /// One command with its arguments, such as `ls -la src`.
    command: String,
}

/// Why a command has no answer; the model is told.
#[derive(Debug, thiserror::Error)]
enum BashError {
    #[error(transparent)]
    Split(#[from] SplitError),
    #[error(transparent)]
    Refused(#[from] CommandRefusal),
    #[error("`{name}` cannot be started")]
    Start { name: String, source: std::io::Error },
    #[error("the command was lost")]
    Lost(#[source] std::io::Error),
    #[error("{status}\n{output}")]
    Failed { status: String, output: String },
}

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of each of its outputs is kept.
const MOST_BYTES: usize = 32 << 10;

impl Bash {
    /// Runs commands in a directory and finds them by a `PATH`, of which only absolute directories
    /// outside the working directory count: what lies in it is not run.
    pub fn new(workdir: Workdir, path: &str) -> Self {
        let is_foreign = |entry: &PathBuf| {
            let real = entry.canonicalize();
            entry.is_absolute() && real.is_ok_and(|real| !real.starts_with(workdir.path()))
        };
        let entries = std::env::split_paths(path).filter(is_foreign);
        let entries: Vec<String> = entries.map(|it| it.to_string_lossy().into_owned()).collect();
        let description = format!(
            "Runs one command in the working directory and returns its output. Allowed are {}. \
             There is no shell: no pipes, redirections, variables or wildcards.",
            commands::names()
        );
        Self { workdir, path: entries.join(":"), description }
    }

    async fn run(&self, line: &str) -> Result<String, BashError> {
        let words = words::split(line)?;
        commands::check(&words, &self.workdir)?;
        let Some((name, arguments)) = words.split_first() else {
            return Err(CommandRefusal::Empty.into());
        };
        let child = self.start(name, arguments);
        let child = child.map_err(|source| BashError::Start { name: name.clone(), source })?;
        let (status, stdout, stderr) = wait(child).await.map_err(BashError::Lost)?;
        answer(name, status, &stdout, &stderr)
    }

    fn start(&self, name: &str, arguments: &[String]) -> std::io::Result<Child> {
        let program = self.find(name).ok_or(std::io::ErrorKind::NotFound)?;
        Command::new(program)
            .arg0(name)
            .args(arguments)
            .current_dir(self.workdir.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        // An empty list has one empty entry, which would be the current directory.
        let folders = std::env::split_paths(&self.path).filter(|it| it.is_absolute());
        folders.map(|it| it.join(name)).find(|it| Path::is_file(it))
    }
}

impl Tool for Bash {
    type Args = BashArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { effects: Effects::Pure, timeout: Some(PATIENCE), ..ToolOptions::default() }
    }

    async fn call(&self, args: BashArgs, _cx: &ToolCx<'_>) -> Result<String, BoxError> {
        Ok(self.run(&args.command).await?)
    }
}

/// What a command wrote, as far as it is kept.
struct Written {
    text: String,
    is_cut: bool,
}

async fn wait(mut child: Child) -> std::io::Result<(ExitStatus, Written, Written)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // A command that writes more than is kept loses its reader, and ends by that.
    let (stdout, stderr) = join(read(stdout), read(stderr)).await;
    Ok((child.wait().await?, stdout?, stderr?))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Written> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
    }
    let is_cut = bytes.len() > MOST_BYTES;
    bytes.truncate(MOST_BYTES);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        text += "\n[cut: there is more than 32 KiB]";
    }
    Ok(Written { text, is_cut })
}

fn answer(
    name: &str,
    status: ExitStatus,
    stdout: &Written,
    stderr: &Written,
) -> Result<String, BashError> {
    let both = [stdout.text.trim_end(), stderr.text.trim_end()];
    let output = both.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n");
    let has_found_nothing = name == "grep" && status.code() == Some(1) && output.is_empty();
    match (status.success() || stdout.is_cut, output.is_empty()) {
        _ if has_found_nothing => Ok("(no matches)".to_owned()),
        (true, true) => Ok("(no output)".to_owned()),
        (true, false) => Ok(output),
        (false, _) => Err(BashError::Failed { status: status.to_string(), output }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &str) {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "b\na\n").unwrap();
        std::fs::write(root.path().join("big"), "x\n".repeat(MOST_BYTES)).unwrap();
        let bash = Bash::new(Workdir::new(root.path()).unwrap(), "/usr/bin:/bin:.");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said =
            runtime.block_on(bash.run(line)).unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(said, expect, "{line}");
    }

    #[test]
    fn a_command_answers_with_what_it_writes() {
        check("cat a.txt", "b\na");
        check("sort a.txt", "a\nb");
        check("echo 'a  b' \"c|d\"", "a  b c|d");
        check("ls", "a.txt\nbig");
        check("cat", "(no output)");
        check("grep -c a a.txt", "1");
    }

    #[test]
    fn a_failure_says_how_and_finding_nothing_is_none() {
        check("grep z a.txt", "(no matches)");
        check(
            "cut a.txt",
            "error: exit status: 1\ncut: you must specify a list of bytes, characters, or fields\nTry 'cut --help' for more information.",
        );
    }

    #[test]
    fn what_is_written_is_bounded() {
        let kept = format!("{}[cut: there is more than 32 KiB]", "x\n".repeat(MOST_BYTES / 2));
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("big"), "x\n".repeat(MOST_BYTES * 8)).unwrap();
        let bash = Bash::new(Workdir::new(root.path()).unwrap(), "/usr/bin:/bin");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = runtime.block_on(bash.run("cat big")).unwrap();
        assert_eq!(said.lines().count(), kept.lines().count() + 1);
        assert!(said.ends_with("[cut: there is more than 32 KiB]"));
    }

    #[test]
    fn a_command_sees_no_variables_and_no_programs_of_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("bin");
        std::fs::create_dir(&own).unwrap();
        let path = format!("{}:.::relative:/usr/bin", own.display());
        let bash = Bash::new(Workdir::new(root.path()).unwrap(), &path);
        assert_eq!(bash.path, "/usr/bin");
        let bash = Bash::new(Workdir::new(root.path()).unwrap(), "");
        assert_eq!(bash.find("Cargo.toml"), None, "nothing is found in the current directory");
    }
}
