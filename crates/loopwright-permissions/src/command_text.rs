//! The simple commands of a text, for programs that need to know which files it runs.

use crate::call::Access;
use crate::command::{Cwd, Part, SEPARATOR, analyse};
use crate::policy::Shell;
use crate::shell::{UNKNOWN_END, UNKNOWN_START};

/// The text of a command, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandText {
    /// The simple commands, with those in texts that the commands run, such as `sh -c '…'`. Of a program that runs one of its
    /// arguments, such as `flock`, also each command that its words can be.
    pub commands: Vec<SimpleCommand>,
    /// Why a part of the text cannot be read. `None` means that `commands` is complete.
    pub unreadable: Option<&'static str>,
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimpleCommand {
    /// The words, without assignments and wrappers such as `timeout 5` before them.
    pub words: Vec<CommandWord>,
    /// The folders that the command may run in. `None` means that they are unknown.
    pub folders: Option<Vec<String>>,
    /// The files that it reads as its input, as they are written.
    pub input: Vec<String>,
}

/// A word without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandWord {
    /// The word is known.
    Known(String),
    /// A part of the word is known only when the command runs, such as `$HOME`.
    Unknown {
        /// The text after the last such part.
        end: String,
    },
}

impl CommandWord {
    /// Returns the word. `None` means that a part of it is unknown.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown { .. } => None,
        }
    }

    fn of(text: &str) -> Self {
        match text.rsplit_once(UNKNOWN_END) {
            Some((_, end)) => Self::Unknown { end: end.to_owned() },
            None if text.contains(UNKNOWN_START) => Self::Unknown { end: String::new() },
            None => Self::Known(text.to_owned()),
        }
    }
}

impl CommandText {
    /// Reads a text as bash does, which starts in an absolute folder. Runs nothing.
    ///
    /// ```
    /// use loopwright_permissions::{CommandText, CommandWord};
    ///
    /// let text = CommandText::of("cd ci && timeout 5 sh guard.sh", "/project");
    /// let guard = &text.commands[1];
    /// assert_eq!(guard.words, ["sh", "guard.sh"].map(|it| CommandWord::Known(it.to_owned())));
    /// assert_eq!(guard.folders, Some(vec!["/project/ci".to_owned()]));
    /// ```
    pub fn of(text: &str, folder: &str) -> Self {
        let analysis = analyse(text, &Cwd::new(folder), None, Shell::Bash);
        let commands = analysis.parts.iter().filter(|part| !part.text.is_empty());
        let commands = commands.flat_map(SimpleCommand::all_of).collect();
        Self { commands, unreadable: analysis.unreadable }
    }
}

impl SimpleCommand {
    /// Returns a command, and those that it may run.
    fn all_of(part: &Part) -> impl Iterator<Item = Self> + '_ {
        let views = part.views.iter().filter(|view| **view != part.text);
        [&part.text].into_iter().chain(views).map(|text| {
            let reads = part.redirects.iter().filter(|it| it.access == Access::Read);
            Self {
                words: text.split(SEPARATOR).map(CommandWord::of).collect(),
                folders: part.cwd.0.clone(),
                input: reads.filter_map(|it| it.path.clone()).collect(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<CommandWord>> {
        CommandText::of(text, "/p").commands.into_iter().map(|it| it.words).collect()
    }

    fn known(words: &[&str]) -> Vec<CommandWord> {
        words.iter().map(|it| CommandWord::Known((*it).to_owned())).collect()
    }

    #[test]
    fn commands_in_texts_that_a_shell_runs_follow_it() {
        assert_eq!(
            words("bash -c 'x.sh --all'"),
            [known(&["bash", "-c", "x.sh --all"]), known(&["x.sh", "--all"])]
        );
    }

    #[test]
    fn a_word_with_an_unknown_part_keeps_what_follows_it() {
        let unknown = |end: &str| CommandWord::Unknown { end: end.to_owned() };
        let text = "sh \"$(git rev-parse --show-toplevel)/ci/x.sh\" $A";
        let sh = vec![CommandWord::Known("sh".to_owned()), unknown("/ci/x.sh"), unknown("")];
        let all = words(text);
        assert_eq!(all.iter().filter(|it| **it == sh).count(), 1, "{all:?}");
    }

    #[test]
    fn folders_follow_cd_and_a_shells_input_is_named() {
        let text = CommandText::of("cd \"$A\"; sh < x.sh", "/p");
        let sh = text.commands.last().unwrap();
        let expected =
            SimpleCommand { words: known(&["sh"]), folders: None, input: vec!["x.sh".to_owned()] };
        assert_eq!((sh, text.unreadable), (&expected, None));
    }
}
