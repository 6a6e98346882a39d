//! The status line above the prompt.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use loopwright_permissions::Mode;
use loopwright_sandbox::{Command, ExitOutcome, SandboxPolicy, Stdin, auto_select};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use unicode_width::UnicodeWidthStr as _;

use super::mode::with_change;
use crate::config::{ChatSettings, in_home, read_text};
use crate::conversation::{Conversation, SessionTotals};
use crate::project::{project_root, repository};
use crate::render::{columns, number, sanitize_terminal, single_line, truncate};

/// The timeout of a command for the status line.
const PATIENCE: Duration = Duration::from_secs(2);

/// The source of the status line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// There is no place for a status line.
    Nowhere,
    /// The user wants none.
    Off,
    BuiltIn,
    /// A command of the user.
    Command(String),
}

/// The status line of a chat.
#[derive(Clone, Debug)]
pub(super) struct StatusLine {
    source: Source,
    began: Instant,
}

/// How long the names in the status line are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Whole,
    /// The folder and the branch are shortened.
    Short,
    /// There is no branch and no provider, and the rest is shortened.
    Shorter,
    /// There is no folder.
    ModelOnly,
}

/// The content of the status line.
#[derive(Clone, Debug, PartialEq)]
struct Status {
    model: String,
    mode: Mode,
    session: Option<String>,
    workdir: PathBuf,
    branch: Option<String>,
    window: u64,
    totals: SessionTotals,
    elapsed: Duration,
}

impl StatusLine {
    /// Reads the configuration. Without a terminal, there is no status line.
    pub(super) fn new(settings: &ChatSettings, is_shown: bool) -> Self {
        let configured = settings.status_line.as_ref().map(|it| it.value.trim());
        let source = match configured {
            _ if !is_shown => Source::Nowhere,
            None => Source::BuiltIn,
            Some("off") => Source::Off,
            Some(command) => Source::Command(command.to_owned()),
        };
        Self { source, began: Instant::now() }
    }

    /// Returns the current line; empty if there is none.
    pub(super) async fn line(&self, conversation: &Conversation) -> String {
        if self.source == Source::Nowhere {
            return String::new();
        }
        let status = Status::of(conversation, self.began.elapsed());
        let width = columns().saturating_sub(1);
        let line = match &self.source {
            Source::Command(command) => {
                status.with_mode(printed(conversation, command, &status).await)
            }
            Source::Off => status.with_mode(String::new()),
            Source::Nowhere | Source::BuiltIn => status.line(width),
        };
        truncate(&line, width)
    }
}

impl Status {
    fn of(conversation: &Conversation, elapsed: Duration) -> Self {
        let setup = &conversation.setup;
        let workdir = setup.workdir.path().to_owned();
        Self {
            model: setup.model(),
            mode: setup.mode(),
            session: conversation.session.as_ref().map(ToString::to_string),
            branch: branch(&workdir),
            workdir,
            window: setup.context_window,
            totals: conversation.totals().unwrap_or_default(),
            elapsed,
        }
    }

    fn used_percent(&self) -> u64 {
        (self.totals.context * 100).checked_div(self.window).unwrap_or_default()
    }

    /// Returns the line. If it is wider than this, the branch, the folder and the model are shortened first.
    fn line(&self, width: usize) -> String {
        let names = [Names::Whole, Names::Short, Names::Shorter, Names::ModelOnly];
        let lines = names.map(|it| self.line_with(it));
        let [.., shortest] = &lines;
        lines.iter().find(|it| it.width() <= width).unwrap_or(shortest).clone()
    }

    /// Returns a line of the user's own, behind the mode unless it is `auto` or the line names it. Where the user wants no line,
    /// only `unconfined` is shown.
    fn with_mode(&self, line: String) -> String {
        let is_shown = match self.mode {
            Mode::Unconfined => true,
            Mode::Auto => false,
            _ => !line.is_empty(),
        };
        with_change(line, is_shown.then(|| format!("mode {}", self.mode)))
    }

    /// Returns the line with the names of the model, the folder and the branch in this form.
    fn line_with(&self, names: Names) -> String {
        let folder = self.workdir.file_name().map(|it| it.to_string_lossy().into_owned());
        let folder = folder.unwrap_or_default();
        let branch = self.branch.as_deref();
        let branched = |most: usize| {
            let branch = branch.map(|it| format!(" ({})", truncate(it, most)));
            format!("{}{}", truncate(&folder, most), branch.unwrap_or_default())
        };
        // The name without the provider.
        let short = self.model.split_once('/').map_or(&*self.model, |(_, name)| name);
        let (model, place) = match names {
            Names::Whole => (self.model.clone(), Some(branched(usize::MAX))),
            Names::Short => (self.model.clone(), Some(branched(12))),
            Names::Shorter => (truncate(short, 20), Some(truncate(&folder, 12))),
            Names::ModelOnly => (truncate(short, 12), None),
        };
        let usage = self.totals.usage;
        let minutes = self.elapsed.as_secs() / 60;
        let parts = [
            Some(model),
            Some(format!("mode {}", self.mode)),
            place,
            (self.totals.context > 0).then(|| format!("{}% of context", self.used_percent())),
            (usage.total() > 0)
                .then(|| format!("{} in, {} out", number(usage.input), number(usage.output))),
            (self.totals.cost > 0.0).then(|| format!("${:.2}", self.totals.cost)),
            (minutes > 0).then(|| format!("{minutes} min")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        sanitize_terminal(&parts.join(" · "))
    }

    /// Returns the input of a command, with the names that Claude Code uses.
    fn json(&self) -> Value {
        let (usage, workdir) = (self.totals.usage, &self.workdir);
        json!({
            "hook_event_name": "Status", "session_id": self.session, "cwd": workdir,
            "model": {"id": self.model, "display_name": self.model},
            "workspace": {"current_dir": workdir, "project_dir": project_root(workdir)},
            "version": env!("CARGO_PKG_VERSION"), "permission_mode": self.mode, "branch": self.branch,
            "cost": {
                "total_cost_usd": self.totals.cost,
                "total_duration_ms": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            },
            "context_window": {
                "used_percentage": self.used_percent(), "context_window_size": self.window,
                "total_input_tokens": usage.input, "total_output_tokens": usage.output,
            },
        })
    }
}

/// Runs the user's command in the sandbox, without write access, and returns the first line of its output.
async fn printed(conversation: &Conversation, command: &str, status: &Status) -> String {
    let setup = &conversation.setup;
    let policy =
        setup.commands().extend_for_user_programs(SandboxPolicy::in_dir(setup.workdir.path()));
    let policy = files(command, setup.commands.home.as_deref())
        .into_iter()
        .fold(policy, SandboxPolicy::read);
    let line = match &setup.commands.home {
        // In the sandbox, `~` is another folder.
        Some(home) => command.replace("~/", &format!("{}/", home.display())),
        None => command.to_owned(),
    };
    let input = Stdin::Bytes(status.json().to_string().into_bytes().into());
    let (command, cancel) = (Command::shell(line).stdin(input), CancellationToken::new());
    let policy = policy.read_only().with_timeout(PATIENCE);
    let ran = auto_select().run(&command, &policy, &mut |_, _| {}, &cancel).await;
    match ran {
        Ok(output) if output.outcome == ExitOutcome::Exited(0) => {
            let text = String::from_utf8_lossy(&output.stdout.head).into_owned();
            single_line(text.lines().next().unwrap_or_default(), columns())
        }
        Ok(output) => format!("status line: the command {}", output.outcome),
        Err(error) => single_line(&format!("status line: {error}"), columns()),
    }
}

/// Returns the files that a command names by absolute paths, such as a script. It may read them anywhere.
fn files(command: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let path = |word: &str| in_home(word, home).unwrap_or_else(|| PathBuf::from(word));
    let paths = command.split_whitespace().map(path);
    paths.filter(|it| it.is_absolute() && it.is_file()).collect()
}

/// Returns the branch that is checked out, or the beginning of a commit.
fn branch(workdir: &Path) -> Option<String> {
    let git = repository(workdir)?.join(".git");
    let directory = if git.is_dir() {
        git
    } else {
        // The `.git` file of a worktree contains the path of its folder.
        let text = read_text(&git).ok()?;
        git.parent()?.join(text.trim().strip_prefix("gitdir:")?.trim())
    };
    let head = fs::metadata(directory.join("HEAD")).ok().filter(fs::Metadata::is_file);
    let head = head.and_then(|_| read_text(&directory.join("HEAD")).ok())?;
    let head = head.trim();
    Some(match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => single_line(branch, 40),
        None => single_line(head, 8),
    })
}

#[cfg(test)]
mod tests {
    use loopwright_core::messages::Usage;

    use super::*;

    fn status(workdir: &Path) -> Status {
        Status {
            model: "acme/large".to_owned(),
            mode: Mode::Auto,
            session: Some("7f3a".to_owned()),
            workdir: workdir.to_owned(),
            branch: branch(workdir),
            window: 200_000,
            totals: SessionTotals::default(),
            elapsed: Duration::from_secs(59),
        }
    }

    #[test]
    fn the_line_has_what_is_known() {
        let home = tempfile::tempdir().unwrap();
        let workdir = home.path().join("shop");
        fs::create_dir_all(workdir.join("src")).unwrap();
        assert_eq!(status(&workdir).line(100), "acme/large · mode auto · shop");
        fs::create_dir(workdir.join(".git")).unwrap();
        fs::write(workdir.join(".git/HEAD"), "ref: refs/heads/fix/a\n").unwrap();
        let usage = Usage { input: 52_100, output: 1_200, ..Usage::default() };
        let totals = SessionTotals { context: 30_000, usage, cost: 0.123 };
        let status = Status { totals, elapsed: Duration::from_mins(3), ..status(&workdir) };
        assert_eq!(
            status.line(100),
            "acme/large · mode auto · shop (fix/a) · 15% of context · 52,100 in, 1,200 out · $0.12 · 3 min"
        );
    }

    #[test]
    fn a_line_of_the_user_does_not_hide_a_mode_other_than_auto() {
        let line = |mode: Mode, own: &str| {
            Status { mode, ..status(Path::new("/shop")) }.with_mode(own.to_owned())
        };
        assert_eq!(line(Mode::Unconfined, "mine"), "mode unconfined · mine");
        assert_eq!(line(Mode::Unconfined, ""), "mode unconfined");
        assert_eq!(line(Mode::Unconfined, "a · mode unconfined"), "a · mode unconfined");
        assert_eq!(line(Mode::Plan, "mine"), "mode plan · mine");
        assert_eq!(line(Mode::Ask, "a · mode ask"), "a · mode ask");
        assert_eq!(line(Mode::Auto, "mine"), "mine");
        assert_eq!(line(Mode::Plan, ""), "");
    }

    #[test]
    fn names_are_shortened_before_tokens_and_cost_are_lost() {
        let usage = Usage { input: 52_100, output: 1_200, ..Usage::default() };
        let totals = SessionTotals { context: 30_000, usage, cost: 0.123 };
        let status = Status {
            model: "openai-compatible/a-very-large-model".to_owned(),
            branch: Some("fix/the-line-that-is-too-long".to_owned()),
            totals,
            ..status(Path::new("/home/me/a-folder-of-a-shop"))
        };
        let rest = "15% of context · 52,100 in, 1,200 out · $0.12";
        let lines = [150, 130, 99, 79, 50].map(|width| status.line(width));
        assert_eq!(
            lines,
            [
                format!(
                    "openai-compatible/a-very-large-model · mode auto · a-folder-of-a-shop (fix/the-line-that-is-too-long) · {rest}"
                ),
                format!(
                    "openai-compatible/a-very-large-model · mode auto · a-folder-of… (fix/the-lin…) · {rest}"
                ),
                format!("a-very-large-model · mode auto · a-folder-of… · {rest}"),
                format!("a-very-larg… · mode auto · {rest}"),
                format!("a-very-larg… · mode auto · {rest}"),
            ]
        );
    }

    #[test]
    fn a_branch_is_found_from_below_in_worktrees_and_at_a_commit() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::create_dir_all(at("a/.git/worktrees/b")).unwrap();
        fs::create_dir_all(at("a/src")).unwrap();
        fs::create_dir_all(at("b")).unwrap();
        fs::write(at("a/.git/HEAD"), "0123456789abcdef\n").unwrap();
        fs::write(at("b/.git"), "gitdir: ../a/.git/worktrees/b\n").unwrap();
        fs::write(at("a/.git/worktrees/b/HEAD"), "ref: refs/heads/b\n").unwrap();
        assert_eq!(branch(&at("a/src")).as_deref().map(|it| it.starts_with("0123")), Some(true));
        assert_eq!(branch(&at("b")).as_deref(), Some("b"));
    }
}
