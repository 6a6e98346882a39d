//! The source of a run's prompt, and reading it.

mod caller;

use std::io::{self, BufRead as _, IsTerminal as _, Read};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::console;

/// The largest prompt that is read from standard input.
pub const MAX_STDIN: u64 = 10 * 1024 * 1024;

/// How long the first byte of standard input may take before the program says that it waits for it.
const PATIENCE: Duration = Duration::from_secs(3);

const UNREAD: &str = "standard input stayed open and empty for 3 seconds, so it is ignored; \
    close it, or add `</dev/null`";

/// What the command line says about the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptSource {
    /// The prompt itself was typed. What is piped in is joined to it.
    Text(String),
    /// `-` was typed: standard input is read to its end, even from a terminal.
    Stdin,
    /// Nothing was typed: standard input is read, but only if something is piped into it.
    Piped,
}

/// What standard input is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinKind {
    /// A user would have to type.
    Terminal,
    /// A pipe or a file, which ends by itself.
    Piped,
}

/// Why there is no prompt; each is a mistake of the command line.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// Nothing was typed and nothing comes through a pipe.
    #[error("no prompt; write one, as in `loopwright run \"…\"`, or pipe it in")]
    Missing,
    /// The prompt consists of white space.
    #[error("the prompt is empty; describe the task")]
    Empty,
    /// Standard input is longer than [`MAX_STDIN`].
    #[error(
        "standard input is larger than 10 MiB; write it to a file and let the agent read the file"
    )]
    TooLarge,
    /// Standard input is not text.
    #[error("standard input is not UTF-8 text; convert it, for example with `iconv`")]
    NotText,
    /// Standard input failed.
    #[error("cannot read standard input; to run without it, add `</dev/null`")]
    Read(#[source] io::Error),
}

impl PromptSource {
    /// Reads what was typed after `run`: `-` and nothing both stand for standard input.
    pub fn new(typed: Option<&str>) -> Self {
        match typed {
            None => Self::Piped,
            Some("-") => Self::Stdin,
            Some(text) => Self::Text(text.to_owned()),
        }
    }

    /// Returns what was typed on the command line, or `None` if the prompt is read from standard
    /// input.
    pub fn typed(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Stdin | Self::Piped => None,
        }
    }

    /// Reads the prompt from the command line and from the standard input of this process. Says so on
    /// standard error if the latter takes long.
    ///
    /// Below a typed prompt, nothing is read from a program that started this one and leaves standard
    /// input open without a word.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no prompt, or standard input cannot be used.
    pub fn read_stdin(self) -> Result<String, PromptError> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return self.read(StdinKind::Terminal, stdin.lock());
        }
        let (comes, came) = channel();
        thread::spawn(move || {
            // What is read stays in the buffer.
            let _is_there = io::stdin().lock().fill_buf().is_ok();
            comes.send(()).ok();
        });
        if came.recv_timeout(PATIENCE).is_err() {
            if matches!(self, Self::Text(_)) && caller::holds_stdin() {
                console::warn(&UNREAD);
                return self.read(StdinKind::Terminal, io::empty());
            }
            console::tell("waiting for standard input; to run without input, add `</dev/null`");
        }
        self.read(StdinKind::Piped, stdin.lock())
    }

    /// Returns the prompt. Reads `stdin` if it is piped or asked for; line ends at its end are cut.
    fn read(self, kind: StdinKind, stdin: impl Read) -> Result<String, PromptError> {
        let (prompt, nothing) = match (self, kind) {
            (Self::Text(text), _) if text.trim().is_empty() => return Err(PromptError::Empty),
            (Self::Text(text), StdinKind::Terminal) => (text, PromptError::Empty),
            (Self::Text(text), StdinKind::Piped) => {
                (joined(text, &read_all(stdin)?), PromptError::Empty)
            }
            (Self::Stdin, _) => (read_all(stdin)?, PromptError::Empty),
            (Self::Piped, StdinKind::Piped) => (read_all(stdin)?, PromptError::Missing),
            (Self::Piped, StdinKind::Terminal) => return Err(PromptError::Missing),
        };
        if prompt.trim().is_empty() { Err(nothing) } else { Ok(prompt) }
    }
}

/// Puts what is piped in below the typed prompt, between tags that do not occur in it.
fn joined(typed: String, piped: &str) -> String {
    if piped.trim().is_empty() {
        return typed;
    }
    let is_free = |tag: &String| !piped.contains(&format!("</{tag}>"));
    let numbered = (2_u32..).map(|number| format!("stdin-{number}"));
    let tag = std::iter::once("stdin".to_owned()).chain(numbered).find(is_free).unwrap_or_default();
    format!("{typed}\n\n<{tag}>\n{piped}\n</{tag}>")
}

fn read_all(stdin: impl Read) -> Result<String, PromptError> {
    let mut bytes = Vec::new();
    stdin.take(MAX_STDIN + 1).read_to_end(&mut bytes).map_err(PromptError::Read)?;
    if bytes.len() as u64 > MAX_STDIN {
        return Err(PromptError::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| PromptError::NotText)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: Option<&str>, kind: StdinKind, stdin: &[u8]) -> String {
        match PromptSource::new(typed).read(kind, stdin) {
            Ok(prompt) => prompt,
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn piped_input_stands_between_tags_below_the_typed_prompt() {
        let joined = "explain\n\n<stdin>\none\ntwo\n</stdin>";
        assert_eq!(read(Some("explain"), StdinKind::Piped, b"one\ntwo\n"), joined);
        let joined = "explain\n\n<stdin-2>\na</stdin>b\n</stdin-2>";
        assert_eq!(read(Some("explain"), StdinKind::Piped, b"a</stdin>b"), joined);
    }

    #[test]
    fn a_typed_prompt_stands_alone_if_nothing_is_piped_in() {
        assert_eq!(read(Some("hello"), StdinKind::Piped, b" \n"), "hello");
        assert_eq!(read(Some("hello"), StdinKind::Terminal, b"never read"), "hello");
    }

    #[test]
    fn piped_input_beside_a_prompt_is_bounded_and_text() {
        let large = vec![b'x'; usize::try_from(MAX_STDIN).unwrap() + 1];
        let error = read(Some("explain"), StdinKind::Piped, &large);
        assert!(error.starts_with("error: standard input is larger than 10 MiB"), "{error}");
        let error = read(Some("explain"), StdinKind::Piped, b"\xff");
        assert!(error.starts_with("error: standard input is not UTF-8 text"), "{error}");
    }

    #[test]
    fn a_dash_reads_standard_input_even_from_a_terminal() {
        assert_eq!(read(Some("-"), StdinKind::Terminal, b"two\nlines\r\n"), "two\nlines");
    }

    #[test]
    fn without_a_prompt_what_is_piped_is_read() {
        assert_eq!(read(None, StdinKind::Piped, b"hello\n"), "hello");
    }

    #[test]
    fn without_a_prompt_a_terminal_is_not_waited_for() {
        let missing = "error: no prompt; write one, as in `loopwright run \"…\"`, or pipe it in";
        assert_eq!(read(None, StdinKind::Terminal, b"never read"), missing);
        assert_eq!(read(None, StdinKind::Piped, b"\n"), missing);
    }

    #[test]
    fn white_space_is_no_prompt() {
        let empty = "error: the prompt is empty; describe the task";
        assert_eq!(read(Some(" \n"), StdinKind::Piped, b"other"), empty);
        assert_eq!(read(Some("-"), StdinKind::Piped, b""), empty);
    }

    #[test]
    fn a_prompt_of_the_largest_size_is_read_and_one_byte_more_is_not() {
        let mut stdin = vec![b'x'; usize::try_from(MAX_STDIN).unwrap()];
        assert_eq!(read(Some("-"), StdinKind::Piped, &stdin).len(), stdin.len());
        stdin.push(b'x');
        assert_eq!(
            read(Some("-"), StdinKind::Piped, &stdin),
            "error: standard input is larger than 10 MiB; write it to a file and let the agent read the file"
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        assert_eq!(
            read(Some("-"), StdinKind::Piped, b"\xff\xfe"),
            "error: standard input is not UTF-8 text; convert it, for example with `iconv`"
        );
    }

    #[test]
    fn a_broken_standard_input_keeps_its_cause() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the cable was cut"))
            }
        }
        let error = PromptSource::Stdin.read(StdinKind::Piped, Broken).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read standard input; to run without it, add `</dev/null`"
        );
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "the cable was cut");
    }
}
