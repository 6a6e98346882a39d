//! What a project tells every agent that works on it: `AGENTS.md`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_capabilities::front_matter::{plain, read_within};

use crate::problem::{DefinitionWarning, Diagnostic, DiagnosticKind};

/// The files that are looked for in a directory; the first that is there and says something counts.
const FILES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// How much is told of all files together, in bytes.
const MAX_BYTES: usize = 32 << 10;

/// The place among the instructions: after the agent's own, before what capabilities add.
const ORDER: i16 = -20;

const HEAD: &str = "The project tells agents the following. Where two files differ, the later one \
    counts, and what the user says counts before both.";

/// What a project tells every agent that works on it, from its `AGENTS.md` files: one of each directory,
/// from the root of the project down to the directory that is worked in, so that the nearest comes
/// last. `AGENTS.override.md` takes the place of the file beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectInstructions {
    /// The texts with their files, the nearest last.
    pub texts: Vec<(PathBuf, String)>,
    /// What is wrong with files.
    pub warnings: Vec<DefinitionWarning>,
}

impl ProjectInstructions {
    /// Reads the files from a root down to a directory in it, at most 32 KiB of them in all. Where the
    /// directory is not in the root, only its own file is read. Blocks.
    pub fn find(root: &Path, directory: &Path) -> Self {
        let mut found = Self::default();
        let mut directories: Vec<&Path> =
            directory.ancestors().take_while(|it| it.starts_with(root)).collect();
        if directories.is_empty() {
            directories.push(directory);
        }
        let mut left = MAX_BYTES;
        // The nearest counts most, so what there is no room for is of the farthest.
        for directory in directories {
            found.look(directory, &mut left);
        }
        found.texts.reverse();
        found.warnings.reverse();
        found
    }

    fn look(&mut self, directory: &Path, left: &mut usize) {
        for path in FILES.map(|name| directory.join(name)) {
            if path.symlink_metadata().is_err() {
                continue;
            }
            let text = match read_within(directory, &path) {
                Ok(text) => plain(&text).trim().to_owned(),
                Err(error) => {
                    self.warn(path, error.into());
                    continue;
                }
            };
            if text.is_empty() {
                continue;
            }
            let fits = text.floor_char_boundary(*left);
            if fits < text.len() {
                self.warn(path.clone(), DiagnosticKind::Truncated(MAX_BYTES).of_file());
            }
            *left -= fits;
            if fits > 0 {
                self.texts.push((path, text[..fits].to_owned()));
            }
            return;
        }
    }

    fn warn(&mut self, path: PathBuf, problem: Diagnostic) {
        self.warnings.push(DefinitionWarning { path, problem });
    }

    /// Returns what is told, with the files that it is from; `None` if there is nothing.
    pub fn to_prompt(&self) -> Option<String> {
        if self.texts.is_empty() {
            return None;
        }
        let texts =
            self.texts.iter().map(|(path, text)| format!("From {}:\n{text}", path.display()));
        let parts: Vec<String> = std::iter::once(HEAD.to_owned()).chain(texts).collect();
        Some(parts.join("\n\n"))
    }
}

/// Tells an agent, and the sub-agents below it, what the project tells every agent.
///
/// Use it only for projects whose authors may instruct the model. The files are read when this is made,
/// so that requests keep their beginning.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseProjectInstructions(ProjectInstructions);

impl UseProjectInstructions {
    /// Takes instructions that were found.
    pub fn new(instructions: ProjectInstructions) -> Self {
        Self(instructions)
    }

    /// Finds instructions, as [`ProjectInstructions::find`] does. Blocks.
    pub fn find(root: &Path, directory: &Path) -> Self {
        Self(ProjectInstructions::find(root, directory))
    }
}

impl Capability for UseProjectInstructions {
    fn name(&self) -> Cow<'static, str> {
        "use_project_instructions".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        if let Some(prompt) = self.0.to_prompt() {
            agent.prompt.share(ORDER, "project_instructions", prompt);
        }
        Ok(())
    }
}
