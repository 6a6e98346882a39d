//! Instructions for all agents, from files: `AGENTS.md`, `CLAUDE.md` and rules.

mod folders;
mod imports;
mod reader;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use loopwright_agent::{BuildError, Capability, Configurator};

pub use self::folders::FolderInstructions;
use self::reader::{Files, Reader};
use crate::problem::DefinitionWarning;

/// The place among the instructions: after the agent's own, before what capabilities add.
const ORDER: i16 = -20;

const HEAD: &str = "The project gives agents the following instructions. If two files conflict, \
    the later one takes precedence; the user's instructions take precedence over both.";

const HEAD_OF_USER: &str =
    "The user gives all agents the following instructions, in every project.";

/// Instructions for all agents, from files.
///
/// Each directory from the root of the project down to the working directory may have an `AGENTS.md`, which
/// `AGENTS.override.md` replaces, a `CLAUDE.md` or `.claude/CLAUDE.md`, a `CLAUDE.local.md`, and rules in `.claude/rules`.
/// A word `@path` outside of code imports a file: its text stands before the one that imports it. Files of a project
/// import only files of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectInstructions {
    /// The texts of the project with their files, the nearest last.
    pub texts: Vec<(PathBuf, String)>,
    /// The texts of the user with their files.
    pub user_texts: Vec<(PathBuf, String)>,
    /// Warnings about files.
    pub warnings: Vec<DefinitionWarning>,
}

impl ProjectInstructions {
    /// Reads the files from a root down to a directory in it, at most 32 KiB in total. If the
    /// directory is not in the root, only its own files are read. Blocks.
    pub fn find(root: &Path, directory: &Path) -> Self {
        let mut directories: Vec<&Path> =
            directory.ancestors().take_while(|it| it.starts_with(root)).collect();
        let is_within = !directories.is_empty();
        if !is_within {
            directories.push(directory);
        }
        let mut reader = Reader::of_project(if is_within { root } else { directory });
        // The nearest counts most, so what there is no room for is of the farthest.
        for directory in directories {
            reader.read(&files_of(directory));
        }
        Self::of_project(reader)
    }

    /// Reads the files of one directory in a root, at most 32 KiB in total. Blocks.
    fn of_folder(root: &Path, directory: &Path) -> Self {
        let mut reader = Reader::of_project(root);
        reader.read(&files_of(directory));
        Self::of_project(reader)
    }

    fn of_project(reader: Reader<'_>) -> Self {
        let Reader { mut texts, mut warnings, .. } = reader;
        texts.reverse();
        warnings.reverse();
        Self { texts, user_texts: Vec::new(), warnings }
    }

    /// Adds the user's files, at most 32 KiB in total: `AGENTS.md`, `CLAUDE.md` and the folder `rules` of each directory. They
    /// import files below the home directory. They are the user's even if the project is the home directory. Blocks.
    #[must_use]
    pub fn with_user_dirs(mut self, home: &Path, directories: &[PathBuf]) -> Self {
        let is_of_user = |path: &Path| directories.iter().any(|it| path.starts_with(it));
        self.texts.retain(|(path, _)| !is_of_user(path));
        self.warnings.retain(|it| !is_of_user(&it.path));
        let mut reader = Reader::of_user(home);
        for directory in directories.iter().rev() {
            reader.read(&[
                Files::FirstOf(vec![directory.join("AGENTS.md")]),
                Files::FirstOf(vec![directory.join("CLAUDE.md")]),
                Files::Rules(directory.join("rules")),
            ]);
        }
        let Reader { mut texts, warnings, .. } = reader;
        texts.reverse();
        self.user_texts = texts;
        self.warnings.extend(warnings);
        self
    }

    /// Returns the files, those that count most last.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.user_texts.iter().chain(&self.texts).map(|(path, _)| path.as_path())
    }

    /// Returns the instructions with their files, or `None` if there are none.
    pub fn to_prompt(&self) -> Option<String> {
        let part = |head: &str, texts: &[(PathBuf, String)]| {
            let texts =
                texts.iter().map(|(path, text)| format!("From {}:\n{text}", path.display()));
            let parts: Vec<String> = std::iter::once(head.to_owned()).chain(texts).collect();
            (parts.len() > 1).then(|| parts.join("\n\n"))
        };
        let parts = [part(HEAD_OF_USER, &self.user_texts), part(HEAD, &self.texts)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

/// Returns the files of a directory of a project, of which later ones take precedence.
fn files_of(directory: &Path) -> [Files; 4] {
    let first_of =
        |names: &[&str]| Files::FirstOf(names.iter().map(|it| directory.join(it)).collect());
    [
        first_of(&["AGENTS.override.md", "AGENTS.md"]),
        first_of(&["CLAUDE.md", ".claude/CLAUDE.md"]),
        Files::Rules(directory.join(".claude/rules")),
        first_of(&["CLAUDE.local.md"]),
    ]
}

/// Gives an agent and its sub-agents the project's instructions.
///
/// Use it only for projects whose authors may instruct the model. The files are read when the value
/// is created, so that requests keep their prefix. Those of folders below follow with the results of
/// tools: [`with_folders`](Self::with_folders).
#[derive(Clone, Debug)]
#[must_use]
pub struct UseProjectInstructions {
    instructions: ProjectInstructions,
    folders: Option<FolderInstructions>,
}

impl UseProjectInstructions {
    /// Creates the capability with found instructions.
    pub fn new(instructions: ProjectInstructions) -> Self {
        Self { instructions, folders: None }
    }

    /// Finds instructions, as [`ProjectInstructions::find`] does. Blocks.
    pub fn find(root: &Path, directory: &Path) -> Self {
        Self::new(ProjectInstructions::find(root, directory))
    }

    /// Adds those of folders below the working directory, once an agent uses a file there.
    pub fn with_folders(mut self, folders: FolderInstructions) -> Self {
        self.folders = Some(folders);
        self
    }
}

impl Capability for UseProjectInstructions {
    fn name(&self) -> Cow<'static, str> {
        "use_project_instructions".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        if let Some(prompt) = self.instructions.to_prompt() {
            agent.prompt.share(ORDER, "project_instructions", prompt);
        }
        if let Some(folders) = &self.folders {
            agent.hooks.add(folders.clone());
        }
        Ok(())
    }
}
