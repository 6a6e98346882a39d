//! Where the prompt of a run comes from, and reading it.

use std::io::{self, Read};

/// The largest prompt that is read from standard input.
pub const MAX_STDIN: u64 = 10 * 1024 * 1024;

/// What the command line says about the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptSource {
    /// The prompt itself was typed.
    Text(String),
    /// `-` was typed: standard input is read to its end, even from a terminal.
    Stdin,
    /// Nothing was typed: standard input is read, but only if something is piped into it.
    Piped,
}

/// What standard input is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinKind {
    /// Somebody would have to type.
    Terminal,
    /// A pipe or a file, which ends by itself.
    Piped,
}

/// Why there is no prompt; each is a mistake of the command line.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// Nothing was typed and nothing comes through a pipe.
    #[error(
        "there is no prompt: write it after `run`, as in `loopwright run \"…\"`, or pipe it in"
    )]
    Missing,
    /// The prompt consists of white space.
    #[error("the prompt is empty: say what the agent should do")]
    Empty,
    /// Standard input is longer than [`MAX_STDIN`].
    #[error(
        "the prompt on standard input is larger than 10 MiB: put it into a file and let the agent read that"
    )]
    TooLarge,
    /// Standard input is not text.
    #[error("the prompt on standard input is not UTF-8 text: convert it, for example with `iconv`")]
    NotText,
    /// Standard input failed.
    #[error("cannot read the prompt from standard input: write it after `run` instead")]
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

    /// Gives the prompt, reading `stdin` only if the prompt is there; line ends at its end are cut.
    pub fn read(self, kind: StdinKind, stdin: impl Read) -> Result<String, PromptError> {
        let (prompt, nothing) = match (self, kind) {
            (Self::Text(text), _) => (text, PromptError::Empty),
            (Self::Stdin, _) => (read_all(stdin)?, PromptError::Empty),
            (Self::Piped, StdinKind::Piped) => (read_all(stdin)?, PromptError::Missing),
            (Self::Piped, StdinKind::Terminal) => return Err(PromptError::Missing),
        };
        if prompt.trim().is_empty() { Err(nothing) } else { Ok(prompt) }
    }
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
    fn a_typed_prompt_leaves_standard_input_alone() {
        assert_eq!(read(Some("hello"), StdinKind::Piped, b"other"), "hello");
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
        let missing = "error: there is no prompt: write it after `run`, as in `loopwright run \"…\"`, or pipe it in";
        assert_eq!(read(None, StdinKind::Terminal, b"never read"), missing);
        assert_eq!(read(None, StdinKind::Piped, b"\n"), missing);
    }

    #[test]
    fn white_space_is_no_prompt() {
        let empty = "error: the prompt is empty: say what the agent should do";
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
            "error: the prompt on standard input is larger than 10 MiB: put it into a file and let the agent read that"
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        assert_eq!(
            read(Some("-"), StdinKind::Piped, b"\xff\xfe"),
            "error: the prompt on standard input is not UTF-8 text: convert it, for example with `iconv`"
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
            "cannot read the prompt from standard input: write it after `run` instead"
        );
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "the cable was cut");
    }
}
