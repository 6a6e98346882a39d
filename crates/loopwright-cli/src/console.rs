//! What the program itself says, as opposed to a run.

use std::error::Error;
use std::io::{self, Write as _};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use serde_json::Value;

use crate::exit::ExitCode;
use crate::render::harmless;

const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Decides about colours for the whole process; `auto` leaves it to each stream and its variables.
pub fn set_color(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Says a line on standard error. If nobody hears it there, nobody does.
pub fn tell(line: &str) {
    writeln!(AutoStream::auto(io::stderr()), "{line}").ok();
}

/// Says that something is odd.
pub fn warn(warning: &dyn std::fmt::Display) {
    tell(&format!("{WARNING}warning:{WARNING:#} {}", harmless(&warning.to_string())));
}

/// Says what went wrong, with its causes, and hands the exit status on.
pub fn fail(error: &dyn Error, exit_code: ExitCode) -> ExitCode {
    tell(&format!("{BAD}error:{BAD:#} {}", harmless(&error.to_string())));
    for cause in causes(error) {
        tell(&format!("  caused by: {}", harmless(&cause)));
    }
    exit_code
}

/// Returns what an error was caused by, without what the error or the cause before says already.
pub(crate) fn causes(error: &dyn Error) -> Vec<String> {
    let mut told = error.to_string();
    let mut causes = Vec::new();
    for cause in std::iter::successors(error.source(), |cause| (*cause).source()) {
        let text = cause.to_string();
        if !told.ends_with(&text) {
            causes.push(text.clone());
            told = text;
        }
    }
    causes
}

/// Writes a value to standard output, as one line of JSON.
pub fn print_json(value: &Value) -> ExitCode {
    print(format!("{value}\n").as_bytes())
}

/// Writes to standard output; a reader that hangs up has read enough.
pub fn print(bytes: &[u8]) -> ExitCode {
    match io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error, ExitCode::Internal),
        _ => ExitCode::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failed {
        text: &'static str,
        source: Option<Box<Failed>>,
    }

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let chain =
            ["the store is away: the disk is full", "the disk is full", "no space", "no space"];
        let error = chain.into_iter().rev().fold(None, |source: Option<Box<Failed>>, text| {
            Some(Box::new(Failed { text, source }))
        });
        assert_eq!(causes(&*error.unwrap()), ["no space"]);
    }
}
