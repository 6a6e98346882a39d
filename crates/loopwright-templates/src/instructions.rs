//! A project's instructions for all agents: `AGENTS.md`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_capabilities::front_matter::{plain, read_within};

use crate::problem::{DefinitionWarning, Diagnostic, DiagnosticKind};

/// The files that are looked for in a directory; the first that is there and says something counts.
const FILES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The maximum size of all files together, in bytes.
const MAX_BYTES: usize = 32 << 10;

/// The place among the instructions: after the agent's own, before what capabilities add.
const ORDER: i16 = -20;

const HEAD: &str = "The project gives agents the following instructions. If two files conflict, \
    the later one takes precedence; the user's instructions take precedence over both.";

/// A project's instructions for all agents, from its `AGENTS.md` files: one from each directory,
/// from the root of the project down to the working directory, so that the nearest comes last.
/// `AGENTS.override.md` replaces the file beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectInstructions {
    /// The texts with their files, the nearest last.
    pub texts: Vec<(PathBuf, String)>,
    /// Warnings about files.
    pub warnings: Vec<DefinitionWarning>,
}

impl ProjectInstructions {
    /// Reads the files from a root down to a directory in it, at most 32 KiB in total. If the
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

    /// Returns the instructions with their files, or `None` if there are none.
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

/// Gives an agent and its sub-agents the project's instructions.
///
/// Use it only for projects whose authors may instruct the model. The files are read when the value
/// is created, so that requests keep their prefix.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseProjectInstructions(ProjectInstructions);

impl UseProjectInstructions {
    /// Creates the capability with found instructions.
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
