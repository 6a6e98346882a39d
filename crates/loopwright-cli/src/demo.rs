//! `loopwright demo`: everything is real but the model.

mod folder;
mod script;

use std::fs;
use std::io;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use loopwright_core::{AgentState, Budget, FixedModel, LlmConfig};

use self::folder::Folder;
use self::script::{Pace, Script};
use crate::agent::Setup;
use crate::args::DemoArgs;
use crate::config::OutputFormat;
use crate::console;
use crate::display::RunDisplay;
use crate::exit::ExitCode;
use crate::permissions::RunPermissions;
use crate::project::plain;
use crate::render::Verbosity;
use crate::run::with_runtime;

const BOLD: Style = Style::new().bold();
const QUESTION: Style = AnsiColor::Cyan.on_default().bold();

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot use {path} as the working directory; choose an existing directory with `--workdir`", path = path.display())]
    Workdir { path: PathBuf, source: io::Error },
    #[error("cannot create a directory in {path}; set TMPDIR to a writable directory", path = path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot save the state in {path}", path = path.display())]
    Keep { path: PathBuf, source: io::Error },
    #[error("cannot read the state back from {path}", path = path.display())]
    ReadBack { path: PathBuf, source: serde_json::Error },
}

/// Shows an agent at work.
pub fn demo(args: &DemoArgs) -> ExitCode {
    let surroundings = &args.surroundings;
    console::set_color(surroundings.color);
    let format = surroundings.output_format().unwrap_or_default();
    let stage = RunDisplay::new(format, surroundings.quiet);
    let is_told = format == OutputFormat::Text && !surroundings.quiet;
    let stage = if is_told { RunDisplay { details: Verbosity::Results, ..stage } } else { stage };
    let show = Show { stage, is_told };
    match prepare(surroundings.workdir.as_deref()) {
        Ok(folder) => with_runtime(async {
            show.run(&folder).await.unwrap_or_else(|error| show.refuse(&error))
        }),
        Err(error) => show.refuse(&error),
    }
}

fn prepare(workdir: Option<&Path>) -> Result<Folder, DemoError> {
    match workdir {
        Some(path) => Folder::of(path)
            .map_err(|source| DemoError::Workdir { path: path.to_path_buf(), source }),
        None => Folder::make(&std::env::temp_dir())
            .map_err(|source| DemoError::Folder { path: std::env::temp_dir(), source }),
    }
}

/// How the demonstration is shown.
#[derive(Clone, Copy)]
struct Show {
    stage: RunDisplay,
    is_told: bool,
}

impl Show {
    async fn run(self, folder: &Folder) -> Result<ExitCode, DemoError> {
        let setup = setup(folder);
        self.introduce(folder);
        let [first, second] = &folder.questions;
        let budget = Budget { steps: Some(10), ..Budget::unlimited() };
        let state = self.ask(first, AgentState::new().with_budget(budget));
        let performed = self.stage.perform(&setup, state).await;
        if performed.exit_code != ExitCode::Done {
            return Ok(performed.exit_code);
        }
        let file = folder.kept.join("state.json");
        let bytes = keep(&performed.state, &file)?;
        let state = load(&file)?;
        self.tell(&format!(
            "\n{BOLD}The state was saved and reloaded{BOLD:#} ({bytes} bytes):\n  {}\nThe agent \
                continues:",
            file.display()
        ));
        let performed = self.stage.perform(&setup, self.ask(second, state)).await;
        keep(&performed.state, &file)?;
        if performed.exit_code == ExitCode::Done {
            self.conclude(folder);
        }
        Ok(performed.exit_code)
    }

    fn introduce(self, folder: &Folder) {
        self.tell(&format!(
            "{BOLD}Loopwright demo{BOLD:#}\n\nThe loop, the tools and the folder are real. The \
                model in this demo is a script:\nits answers are fixed, and it needs neither a \
                key nor a network.\n\nFolder: {}",
            folder.workdir.path().display()
        ));
    }

    fn ask(self, question: &str, state: AgentState) -> AgentState {
        self.tell(&format!("\n{QUESTION}> {question}{QUESTION:#}\n"));
        state.with_user_message(question)
    }

    fn conclude(self, folder: &Folder) {
        let [first, _] = &folder.questions;
        self.tell(&format!(
            "\n{BOLD}Next, ask a real model:{BOLD:#}\n  \
             export OPENAI_API_KEY=…     or start Ollama, LM Studio, llama.cpp or vLLM\n  \
             {} run -C {} \\\n    \"{first}\"",
            invocation(),
            folder.workdir.path().display()
        ));
    }

    fn tell(self, text: &str) {
        if self.is_told {
            console::tell(text);
        }
    }

    fn refuse(self, error: &DemoError) -> ExitCode {
        let (exit_code, stop_reason) = match error {
            DemoError::Workdir { .. } => (ExitCode::Usage, "usage"),
            _ => (ExitCode::Internal, "demo"),
        };
        self.stage.refuse(error, exit_code, stop_reason)
    }
}

/// Returns what a user types to start this program: its name if that starts it, otherwise its path.
fn invocation() -> String {
    const NAME: &str = "loopwright";
    let Ok(own) = std::env::current_exe().and_then(fs::canonicalize) else {
        return NAME.to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|it| it.join(NAME)).find(|it| it.is_file());
    if found.and_then(|it| it.canonicalize().ok()).is_some_and(|it| it == own) {
        return NAME.to_owned();
    }
    let workdir = std::env::current_dir().and_then(fs::canonicalize).unwrap_or_default();
    plain(own.strip_prefix(workdir).unwrap_or(&own))
}

fn setup(folder: &Folder) -> Setup {
    let is_watched = io::stdout().is_terminal() || io::stderr().is_terminal();
    let pace = if is_watched { Pace::Reading } else { Pace::Instant };
    let script = Script::new(folder.lines.clone(), pace);
    let models = Arc::new(FixedModel(Arc::new(script)));
    let permissions = RunPermissions::without_rules(&folder.workdir);
    Setup::bare(models, LlmConfig::named("demo/script"), folder.workdir.clone(), permissions)
}

fn keep(state: &AgentState, file: &Path) -> Result<usize, DemoError> {
    let path = file.to_path_buf();
    let json = serde_json::to_vec_pretty(state);
    let json = json.map_err(|source| DemoError::ReadBack { path: path.clone(), source })?;
    fs::write(file, &json).map_err(|source| DemoError::Keep { path, source })?;
    Ok(json.len())
}

fn load(file: &Path) -> Result<AgentState, DemoError> {
    let path = file.to_path_buf();
    let json = fs::read(file).map_err(|source| DemoError::Keep { path: path.clone(), source })?;
    serde_json::from_slice(&json).map_err(|source| DemoError::ReadBack { path, source })
}
