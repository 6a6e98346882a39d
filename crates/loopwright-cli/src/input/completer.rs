//! Completion with Tab: commands, skills and agents at the start of a line, and files after `@`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::WalkBuilder;
use reedline::{Completer, Span, Suggestion};

use crate::render::{single_line, steers_terminal};

/// The most files that are looked at.
const FILES: usize = 20_000;

/// The most suggestions.
const SUGGESTED: usize = 50;

/// The longest description of a suggestion, in characters.
const ABOUT: usize = 500;

/// Returns the commands and skills with what they do.
type Commands = dyn Fn() -> Vec<(String, String)> + Send + Sync;

/// Completes the last word of a line.
type WordCompleter = dyn Fn(&str) -> Vec<Completion> + Send + Sync;

/// Completes lines of a chat.
pub(crate) struct ChatCompleter {
    /// Called for each completion, so that new skills are found.
    commands: Arc<Commands>,
    /// Completes with what servers have.
    others: Arc<WordCompleter>,
    workdir: PathBuf,
}

/// A word in the place of the one that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) word: String,
    pub(crate) about: Option<String>,
    /// Whether the word is complete, so that another one can follow.
    pub(crate) is_whole: bool,
}

impl ChatCompleter {
    pub(crate) fn new(
        commands: impl Fn() -> Vec<(String, String)> + Send + Sync + 'static,
        workdir: &Path,
    ) -> Self {
        let others = Arc::new(|_: &str| Vec::new());
        Self { commands: Arc::new(commands), others, workdir: workdir.to_owned() }
    }

    /// Adds what completes the last word of a line.
    pub(crate) fn with_others(
        mut self,
        others: impl Fn(&str) -> Vec<Completion> + Send + Sync + 'static,
    ) -> Self {
        self.others = Arc::new(others);
        self
    }
}

impl Completer for ChatCompleter {
    fn complete(&mut self, line: &str, position: usize) -> Vec<Suggestion> {
        let Some(before) = line.get(..position) else { return Vec::new() };
        let start = before.rfind(char::is_whitespace).map_or(0, |it| it + 1);
        let start = open_quote(before).unwrap_or(start);
        let word = &before[start..];
        let span = Span::new(start, position);
        let mut found = Vec::new();
        if let Some(typed) = word.strip_prefix('/').filter(|_| start == 0) {
            let fits = |(name, _): &(String, String)| name.starts_with(typed) && is_shown(name);
            let all = (self.commands)().into_iter().filter(fits).take(SUGGESTED);
            let all = all.map(|(name, about)| suggestion(format!("/{name}"), Some(about), span));
            found.extend(all);
        } else if let Some(typed) = word.strip_prefix('@') {
            let typed = typed.strip_prefix('"').unwrap_or(typed);
            let files = matching(&self.workdir, typed).into_iter();
            found.extend(files.map(|path| suggestion(mention(&path), None, span)));
        }
        let others =
            (self.others)(before).into_iter().filter(|it| is_shown(&it.word)).take(SUGGESTED);
        found.extend(others.map(|it| Suggestion {
            append_whitespace: it.is_whole,
            ..suggestion(it.word, it.about, span)
        }));
        found
    }
}

/// Returns the start of a quoted path that is not closed.
fn open_quote(before: &str) -> Option<usize> {
    let start = before.rfind("@\"")?;
    let begins_word = before[..start].chars().next_back().is_none_or(char::is_whitespace);
    (begins_word && !before[start + 2..].contains('"')).then_some(start)
}

/// Returns how a message names a file.
fn mention(path: &str) -> String {
    if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") }
}

/// Returns `true` if a word is shown as it is: what the menu shows is what is put at the prompt, and is read from there.
fn is_shown(word: &str) -> bool {
    !word.contains(steers_terminal)
}

fn suggestion(value: String, about: Option<String>, span: Span) -> Suggestion {
    // Skills of a project and servers describe themselves.
    let description = about.map(|it| single_line(&it, ABOUT));
    Suggestion { value, description, span, append_whitespace: true, ..Suggestion::default() }
}

/// Returns the files of a directory whose paths have the letters that were typed in their order, the best first: those
/// whose names begin with them, those that contain them, and then the others; each the shortest first. What ignore files
/// name is left out.
fn matching(workdir: &Path, typed: &str) -> Vec<String> {
    let typed = typed.to_lowercase();
    let walk = WalkBuilder::new(workdir).hidden(true).require_git(false).build();
    let files =
        walk.filter_map(Result::ok).filter(|it| it.file_type().is_some_and(|it| it.is_file()));
    let mut found: Vec<(u8, usize, String)> = Vec::new();
    for file in files.take(FILES) {
        let Ok(below) = file.path().strip_prefix(workdir) else { continue };
        // A path with a quotation mark or a line break cannot be named. One that steers the terminal is not shown.
        let can_be_named = |path: &&str| !path.contains(['"', '\n']) && is_shown(path);
        let Some(path) = below.to_str().filter(can_be_named) else { continue };
        if let Some(rank) = rank(path, &typed) {
            found.push((rank, path.len(), path.to_owned()));
        }
    }
    found.sort();
    found.into_iter().take(SUGGESTED).map(|(_, _, path)| path).collect()
}

/// Returns how well a path fits, 0 being the best, or `None` if it does not.
fn rank(path: &str, typed: &str) -> Option<u8> {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.starts_with(typed) || path.starts_with(typed) {
        return Some(0);
    }
    if path.contains(typed) {
        return Some(1);
    }
    let mut letters = path.chars();
    typed.chars().all(|wanted| letters.any(|it| it == wanted)).then_some(2)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn values(completer: &mut ChatCompleter, line: &str) -> Vec<String> {
        completer.complete(line, line.len()).into_iter().map(|it| it.value).collect()
    }

    #[test]
    fn commands_are_completed_at_the_start_and_files_anywhere() {
        let home = tempfile::tempdir().unwrap();
        for path in ["src/main.rs", "src/domain.rs", "tests/m.rs", "target/main.rs", "a b/main.rs"]
        {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(home.path().join(".gitignore"), "target/\n").unwrap();
        let commands = || {
            vec![("model".to_owned(), "the model".to_owned()), ("mode".to_owned(), String::new())]
        };
        let mut completer = ChatCompleter::new(commands, home.path());
        assert_eq!(values(&mut completer, "/mod"), ["/model", "/mode"]);
        assert_eq!(values(&mut completer, "say /mod"), Vec::<String>::new());
        let found = ["@\"a b/main.rs\"", "@src/main.rs", "@src/domain.rs"];
        assert_eq!(values(&mut completer, "see @main"), found);
        assert_eq!(values(&mut completer, "see @\"a b/m"), found[..1]);
        assert_eq!(values(&mut completer, "see @\"a b/main.rs\" "), Vec::<String>::new());
        assert_eq!(values(&mut completer, "@tm"), ["@tests/m.rs"]);
        assert_eq!(values(&mut completer, "@nothing"), Vec::<String>::new());
        let span = completer.complete("see @main", 9)[0].span;
        assert_eq!((span.start, span.end), (4, 9));
    }

    #[test]
    fn names_and_descriptions_do_not_steer_the_terminal() {
        let home = tempfile::tempdir().unwrap();
        for name in
            ["n\u{1b}]0;T\u{7}", "n\u{202e}txt.exe", "n\u{9b}31m", "n\u{200f}", "n\r", "na\tb"]
        {
            fs::write(home.path().join(name), "").unwrap();
        }
        let commands = || {
            let told = "one\u{1b}[31m\ntwo\u{202e}";
            vec![("n\u{1b}[2J".to_owned(), String::new()), ("name".to_owned(), told.to_owned())]
        };
        let completion = |word: &str| Completion {
            word: word.to_owned(),
            about: Some("\u{7}about".to_owned()),
            is_whole: true,
        };
        let served = move |_: &str| vec![completion("x\u{1b}[2J"), completion("x")];
        let mut completer = ChatCompleter::new(commands, home.path()).with_others(served);
        let mut shown = |line: &str| -> Vec<(String, Option<String>)> {
            let found = completer.complete(line, line.len()).into_iter();
            found.map(|it| (it.value, it.description)).collect()
        };
        let other = ("x".to_owned(), Some("\u{fffd}about".to_owned()));
        assert_eq!(shown("@n"), [("@\"na\tb\"".to_owned(), None), other.clone()]);
        let about = "one\u{fffd}[31m two\u{fffd}".to_owned();
        assert_eq!(shown("/n"), [("/name".to_owned(), Some(about)), other]);
    }
}
