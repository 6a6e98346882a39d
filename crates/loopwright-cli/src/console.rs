//! Messages of the program itself, as opposed to those of a run.

use std::error::Error;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use serde_json::Value;

use crate::exit::ExitCode;
use crate::render::{is_plain, json_line, sanitize_terminal};

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

/// Writes a line to standard error, and ignores a failure to do so.
pub fn tell(line: &str) {
    writeln!(AutoStream::auto(io::stderr()), "{line}").ok();
}

/// Asks the user to agree, and reads a line from standard input. Only `y` and `yes` agree.
pub fn is_agreed(question: &str) -> bool {
    tell(&format!("{question} [y/N]"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok()
        && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Says a line on standard error in the middle of what else is shown there: a line that moves is removed first, and
/// comes again below.
pub fn interrupt(line: &str) {
    progress(None);
    tell(line);
}

/// Shows how far something is that takes long, in the last line of a terminal. `None` removes the line.
pub fn progress(done: Option<&str>) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() && !is_plain() {
        write!(stderr, "\r\x1b[J{}", done.unwrap_or_default()).ok();
        stderr.flush().ok();
    }
}

/// Tells the terminal that the user is needed, or that something is done: most show it if their window is in the
/// background. A terminal that cannot takes it for the bell.
pub fn notify(text: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() && !is_plain() {
        write!(stderr, "\x1b]9;{}\x07\x07", sanitize_terminal(text)).ok();
        stderr.flush().ok();
    }
}

/// Says that something is odd.
pub fn warn(warning: &dyn std::fmt::Display) {
    tell(&format!("{WARNING}warning:{WARNING:#} {}", sanitize_terminal(&warning.to_string())));
}

/// Says what went wrong, with its causes, and hands the exit status on.
pub fn fail(error: &dyn Error, exit_code: ExitCode) -> ExitCode {
    let mut texts = with_causes(error).into_iter();
    let text = texts.next().unwrap_or_default();
    tell(&format!("{BAD}error:{BAD:#} {}", sanitize_terminal(&text)));
    for cause in texts {
        tell(&format!("  caused by: {}", sanitize_terminal(&cause)));
    }
    exit_code
}

/// Returns what an error says and what its causes say. A cause that is part of what was said is not repeated.
pub fn with_causes(error: &dyn Error) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for error in std::iter::successors(Some(error), |it| (*it).source()) {
        let text = error.to_string();
        if !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
    }
    texts
}

/// Returns an error with all its causes in one line.
pub fn chain(error: &dyn Error) -> String {
    with_causes(error).join(": ")
}

/// Writes a value to standard output, as one line of JSON.
pub fn print_json(value: &Value) -> ExitCode {
    match json_line(value) {
        Ok(line) => print(format!("{line}\n").as_bytes()),
        Err(error) => fail(&error, ExitCode::Internal),
    }
}

/// Writes text to standard output, without styles if they are disabled.
pub fn print_styled(text: &str) -> ExitCode {
    match AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => {
            print(anstream::adapter::strip_str(text).to_string().as_bytes())
        }
        _ => print(text.as_bytes()),
    }
}

/// Writes a text of others to standard output: as it is, but harmlessly to a terminal.
pub fn print_text(text: &str) -> ExitCode {
    if io::stdout().is_terminal() {
        print(sanitize_terminal(text).as_bytes())
    } else {
        print(text.as_bytes())
    }
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
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        let check = |text, expect: &[&str]| {
            let error = Told { text, source: io::Error::other("no room") };
            assert_eq!(with_causes(&error), expect);
        };
        check("cannot write", &["cannot write", "no room"]);
        check("cannot write: no room", &["cannot write: no room"]);
    }
}
