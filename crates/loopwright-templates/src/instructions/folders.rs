//! Instructions of folders, which an agent receives when it uses a file there.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loopwright_core::messages::{ExecutionId, Part, ToolCall};
use loopwright_core::{
    AgentState, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, Key, StateEffect, ToolOutcome,
    ToolOutput,
};
use loopwright_permissions::{ToolKind, foreign_name};
use tokio::runtime::Handle;

use super::ProjectInstructions;
use crate::problem::DefinitionWarning;

/// The folders whose instructions an agent has received, relative to the root of the project.
const RECEIVED: Key<BTreeSet<String>> = Key::session("instructions", "folders");

/// Folders of programs, whose files are not the project's.
const FOREIGN: [&str; 2] = [".git", "node_modules"];

/// Other working trees of the project, whose files are those of the project once more.
const WORKTREES: &str = ".claude/worktrees";

/// The most executions whose folders are remembered.
const MAX_EXECUTIONS: usize = 256;

type Filter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;
type OnWarning = Arc<dyn Fn(&DefinitionWarning) + Send + Sync>;

/// The instructions of folders below a working directory. An agent receives those of a folder with the result of the first
/// call that reads or changes a file there, so that requests keep their prefix. They stand in its session, and each
/// sub-agent receives them as well.
///
/// Only files of the project count: no link leads out of its root. Clones share what was received.
#[derive(Clone)]
#[must_use]
pub struct FolderInstructions {
    root: PathBuf,
    workdir: PathBuf,
    is_read: Filter,
    on_warning: OnWarning,
    received: Arc<Mutex<HashMap<ExecutionId, BTreeSet<String>>>>,
}

impl FolderInstructions {
    /// Creates the value for a working directory in the root of a project.
    pub fn new(root: impl Into<PathBuf>, workdir: impl Into<PathBuf>) -> Self {
        let (root, workdir) = (root.into(), workdir.into());
        let received = Arc::default();
        Self { root, workdir, is_read: Arc::new(|_| true), on_warning: Arc::new(|_| {}), received }
    }

    /// Leaves out files for which the function returns `false`, such as those that permission rules deny. It is called with
    /// absolute paths, and may block.
    pub fn with_filter(mut self, is_read: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        self.is_read = Arc::new(is_read);
        self
    }

    /// Calls a function for each warning about a file.
    pub fn with_on_warning(
        mut self,
        on_warning: impl Fn(&DefinitionWarning) + Send + Sync + 'static,
    ) -> Self {
        self.on_warning = Arc::new(on_warning);
        self
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, BTreeSet<String>>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the folders of a file that have instructions of their own, the outermost first: those of the project that
    /// are not above the working directory.
    fn folders(&self, root: &Path, file: &Path) -> Vec<PathBuf> {
        let real = |path: &Path| path.canonicalize().ok();
        let Some(workdir) = real(&self.workdir) else { return Vec::new() };
        let Some(folder) = workdir.join(file).parent().and_then(real) else { return Vec::new() };
        let is_foreign = |it: &Path| {
            let below = it.strip_prefix(root).unwrap_or(it);
            let is_named = below.iter().any(|name| FOREIGN.iter().any(|known| name == *known));
            is_named || below.starts_with(WORKTREES)
        };
        let within = folder.ancestors().take_while(|it| it.starts_with(root));
        let own = within.filter(|it| !workdir.starts_with(it) && !is_foreign(it));
        let mut folders: Vec<PathBuf> = own.map(Path::to_path_buf).collect();
        folders.reverse();
        folders
    }

    /// Reads the instructions for a file from folders that are new. Returns the names of those that have some, with the text
    /// that the agent does not know. Blocks.
    fn read(&self, file: &Path, known: &BTreeSet<String>) -> Vec<(String, Option<String>)> {
        let mut all = Vec::new();
        let Ok(root) = self.root.canonicalize() else { return Vec::new() };
        let own = self.workdir.join(file).canonicalize().ok();
        for folder in self.folders(&root, file) {
            let name = folder.strip_prefix(&root).unwrap_or(&folder).display().to_string();
            if known.contains(&name) {
                continue;
            }
            let mut found = ProjectInstructions::of_folder(&root, &folder);
            found.texts.retain(|(path, _)| (self.is_read)(path));
            found.warnings.retain(|it| (self.is_read)(&it.path));
            found.warnings.iter().for_each(|warning| (self.on_warning)(warning));
            if found.texts.is_empty() {
                continue;
            }
            // The call itself has shown this file.
            found.texts.retain(|(path, _)| path.canonicalize().ok() != own);
            let text = text(&name, &found.texts);
            all.push((name, text));
        }
        all
    }
}

/// Writes the instructions of a folder; `None` if there are none.
fn text(folder: &str, texts: &[(PathBuf, String)]) -> Option<String> {
    let head = format!(
        "[instructions] The project gives agents the following instructions for files in `{folder}`. They take precedence \
         over those of outer folders; the user's instructions take precedence over both."
    );
    let texts_of = texts.iter().map(|(path, text)| format!("From {}:\n{text}", path.display()));
    let parts: Vec<String> = std::iter::once(head).chain(texts_of).collect();
    (parts.len() > 1).then(|| parts.join("\n\n"))
}

/// Returns the file that a call reads or changes.
fn file_of(call: &ToolCall) -> Option<PathBuf> {
    let uses_file =
        ToolKind::of(&call.name) == ToolKind::Write || foreign_name(&call.name) == "Read";
    let arguments = call.parse_arguments().ok().filter(|_| uses_file)?;
    let path = ["path", "file_path"].iter().find_map(|key| arguments.get(key)?.as_str())?;
    Some(PathBuf::from(path))
}

#[async_trait]
impl Hook for FolderInstructions {
    fn name(&self) -> Cow<'static, str> {
        "folder_instructions".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::AfterTool.into()
    }

    async fn after_tool(
        &self,
        call: &ToolCall,
        outcome: &mut ToolOutcome,
        state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let ToolOutcome::Returned(output) = outcome else { return Ok(Flow::Continue) };
        let (Some(file), Some(execution)) = (file_of(call), state.execution()) else {
            return Ok(Flow::Continue);
        };
        let mut known = state.get(&RECEIVED).unwrap_or_default();
        known.extend(self.lock().get(execution.id()).into_iter().flatten().cloned());
        let folders = self.clone();
        let read = move || folders.read(&file, &known);
        let found = match Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(read).await?,
            Err(_) => read(),
        };
        self.add(output, found, execution.id(), state)?;
        Ok(Flow::Continue)
    }
}

impl FolderInstructions {
    /// Adds what was read to an output, but for what a call of the same step has added meanwhile.
    fn add(
        &self,
        output: &mut ToolOutput,
        found: Vec<(String, Option<String>)>,
        execution: &ExecutionId,
        state: &AgentState,
    ) -> Result<(), BoxError> {
        if found.is_empty() {
            return Ok(());
        }
        let mut received = self.lock();
        if received.len() >= MAX_EXECUTIONS && !received.contains_key(execution) {
            received.clear();
        }
        let known = received.entry(execution.clone()).or_default();
        let new = found.into_iter().filter(|(name, _)| known.insert(name.clone()));
        let texts: Vec<String> = new.filter_map(|(_, text)| text).collect();
        let mut all = state.get(&RECEIVED).unwrap_or_default();
        all.extend(known.iter().cloned());
        let value = serde_json::to_value(&all)?;
        output.state_effects.push(StateEffect::Set(RECEIVED.slot(), Some(value)));
        let parts = output.content.iter().cloned().chain(texts.into_iter().map(Part::text));
        output.content = parts.collect();
        Ok(())
    }
}

impl fmt::Debug for FolderInstructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderInstructions")
            .field("root", &self.root)
            .field("workdir", &self.workdir)
            .finish_non_exhaustive()
    }
}
