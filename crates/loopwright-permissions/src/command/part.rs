//! A simple command, as rules see it.

use super::cwd::Cwd;
use super::pattern::SEPARATOR;
use super::risk::Risk;
use crate::call::Access;

/// A command text, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    pub(crate) parts: Vec<Part>,
    /// Why some of the text cannot be read.
    pub(crate) unreadable: Option<&'static str>,
    /// How many texts of commands the text contains.
    pub(crate) texts: usize,
}

/// A simple command.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(crate) struct Part {
    /// The text as it is written.
    pub(crate) source: String,
    /// The words, as an allow rule has to match them: behind wrappers, without assignments.
    pub(crate) text: String,
    /// The words with everything before them, for rules that name it.
    pub(crate) whole: String,
    /// The path of the program, if it is not only a name.
    pub(crate) program: Option<String>,
    /// Variables are set for the command alone.
    pub(crate) has_assignment: bool,
    /// Further texts that deny and ask rules are held against.
    pub(crate) views: Vec<String>,
    /// Why no rule with a wildcard can allow the command.
    pub(crate) opaque: Option<&'static str>,
    /// Arguments that an allow rule with a wildcard has to name.
    pub(crate) risks: Vec<Risk>,
    /// Folders that the program works in because of an argument, which such a rule has to name unless the folder is one of
    /// the agent.
    pub(crate) folders: Vec<(Risk, Cwd)>,
    /// An assignment before the command changes what it does, so an allow rule has to name it.
    pub(crate) needs_whole: bool,
    /// The command does nothing that a rule would have to allow.
    pub(crate) is_neutral: bool,
    /// The command is part of the text of another one, so only deny and ask rules see it.
    pub(crate) is_nested: bool,
    /// The command calls a function that the text defines.
    pub(crate) calls_function: bool,
    /// The command is a shell, which runs its input if nothing else says what it runs.
    pub(crate) reads_commands: bool,
    /// The input of the command is a part of the text.
    pub(crate) has_input: bool,
    /// Files that are redirected to or from.
    pub(crate) redirects: Vec<PathUse>,
    /// Files that arguments of a known program name.
    pub(crate) files: Vec<PathUse>,
    /// Hosts that redirections connect to.
    pub(crate) hosts: Vec<String>,
    pub(crate) cwd: Cwd,
    /// The folders that the command changes to.
    pub(crate) target: Option<Cwd>,
}

impl Part {
    /// Returns the words with another name of the program.
    pub(crate) fn text_of(&self, program: &str) -> String {
        let rest = self.text.find(SEPARATOR).map_or("", |at| &self.text[at..]);
        format!("{program}{rest}")
    }

    /// Returns the words with everything before them, and with another name of the program.
    pub(crate) fn whole_of(&self, program: &str) -> String {
        match self.whole.strip_suffix(&self.text) {
            Some(before) => format!("{before}{}", self.text_of(program)),
            None => self.whole.clone(),
        }
    }
}

/// A file that a command uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathUse {
    pub(crate) access: Access,
    /// The path as it is written. `None` means that it is unknown.
    pub(crate) path: Option<String>,
    /// The pattern of file names that the word is, if the path is unknown.
    pub(crate) glob: Option<String>,
    pub(crate) scope: Scope,
}

/// What of a path is used, if it is a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The folder alone.
    File,
    /// What is in the folder, unless the path is something else.
    Inside,
    /// Some of the files in the folder.
    Some,
    /// All files in the folder.
    All,
}
