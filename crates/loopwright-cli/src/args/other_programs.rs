//! Command lines as they are typed for other agent programs.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;

const PRINT: [&str; 2] = ["-p", "--print"];
const RESUME: [&str; 2] = ["-r", "--resume"];
/// Options after which the next word is a text, even one that is the name of a command.
const BEGINNINGS: [&str; 8] =
    ["-p", "--print", "-c", "--continue", "-r", "--resume", "-m", "--model"];
/// Options of the program itself.
const OWN: [&str; 5] = ["-h", "--help", "-V", "--version", "--"];

/// Options of other programs that have no option with the same meaning here, and what to use.
const OTHERS: [(&[&str], &str); 11] = [
    (
        &["-s", "--sandbox"],
        "commands always run in the sandbox; choose what runs without approval with '--permission-mode'",
    ),
    (
        &["-a", "--ask-for-approval", "--permission-prompt-tool"],
        "choose which calls need approval with '--permission-mode', and how to handle them with '--on-ask'",
    ),
    (
        &["-i", "--prompt-interactive"],
        "to start a chat, use 'loopwright chat PROMPT'; to attach an image, '--image FILE'",
    ),
    (&["--settings", "--profile"], "to read another configuration file, use '--config FILE'"),
    (&["--setting-sources"], "to load no settings files, use '--bare'"),
    (
        &["--input-format"],
        "to send several messages, pipe them into 'loopwright chat', one per line",
    ),
    (
        &["--system-prompt-file", "--append-system-prompt-file"],
        "pass the text of the file: --system-prompt \"$(cat FILE)\"",
    ),
    (
        &["--agents"],
        "define agents in files (create one with 'loopwright agents new'), and choose one with '--agent'",
    ),
    (&["--debug"], "to record requests and responses, use '--record FILE'"),
    (&["--oss"], "to use a local model, use '--model ollama/NAME'"),
    (&["--last"], "to resume the latest session, use '--continue'"),
];

fn is(word: &OsString, known: &[&str]) -> bool {
    known.iter().any(|it| word == it)
}

/// Inserts the command into a line that has none, and removes `-p` where it is a switch before the prompt.
pub(super) fn with_command(mut words: Vec<OsString>) -> Vec<OsString> {
    let at = after_config(&words);
    let Some(first) = words.get(at) else { return words };
    let text = first.to_string_lossy();
    if !text.starts_with('-') && text.trim().contains(char::is_whitespace) {
        // A task, and no command.
        words.insert(at, "chat".into());
        return words;
    }
    let is_option = text.starts_with('-') && !is(first, &OWN);
    if is_option && (is(first, &BEGINNINGS) || !names_command(&words[at..])) {
        let prints = words.iter().take_while(|it| *it != "--").any(|it| is(it, &PRINT));
        let command = if prints { "run" } else { "chat" };
        words.insert(at, command.into());
    }
    let switch = |words: &[OsString], known: &[&str], is_value: &dyn Fn(&OsString) -> bool| {
        let found = words.iter().take_while(|it| *it != "--").position(|it| is(it, known));
        found.filter(|at| !words.get(at + 1).is_some_and(is_value))
    };
    if words.get(at).is_some_and(|it| it == "chat") {
        let is_value = |it: &OsString| !it.to_string_lossy().starts_with('-');
        if let Some(at) = switch(&words, &RESUME, &is_value) {
            words[at] = "--choose-session".into();
        }
    }
    if words.get(at).is_some_and(|it| it == "run") {
        let is_value = |it: &OsString| it == "-" || !it.to_string_lossy().starts_with('-');
        if let Some(at) = switch(&words, &PRINT, &is_value) {
            words.remove(at);
        }
    }
    words
}

/// Returns the place of the first word after the program and its configuration file.
fn after_config(words: &[OsString]) -> usize {
    match words.get(1) {
        Some(word) if word == "--config" => 3,
        Some(word) if word.to_string_lossy().starts_with("--config=") => 2,
        _ => 1,
    }
}

/// Returns `true` if a word is the name of a command, which an option stands before by mistake.
fn names_command(words: &[OsString]) -> bool {
    let program = Cli::command();
    let words = words.iter().take_while(|it| *it != "--");
    words.filter_map(|it| it.to_str()).any(|it| program.find_subcommand(it).is_some())
}

/// Says how to give a task to an agent where a word is no command, and what to use instead of an option of another program.
pub(super) fn with_tip(mut error: clap::Error) -> clap::Error {
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(word)) => {
                Some(format!("to give an agent this task, use 'loopwright run {word}'"))
            }
            _ => None,
        },
        ErrorKind::UnknownArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(word)) => counterpart(word).map(ToOwned::to_owned),
            _ => None,
        },
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn counterpart(option: &str) -> Option<&'static str> {
    let name = option.split('=').next().unwrap_or(option);
    OTHERS.iter().find(|(names, _)| names.contains(&name)).map(|(_, tip)| *tip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        let words = [&["loopwright"], line].concat().into_iter().map(OsString::from).collect();
        Cli::parse_words(words)
    }

    #[test]
    fn a_line_that_begins_with_an_option_belongs_to_run_or_chat() {
        for (theirs, ours) in [
            (&["--yolo", "-p", "do it"][..], &["run", "--yolo", "-p", "do it"][..]),
            (&["--verbose", "--json", "-p", "x"], &["run", "--verbose", "--json", "-p", "x"]),
            (&["--full-auto"], &["chat", "--permission-mode", "auto"]),
            (&["--config", "a.toml", "-p", "x"], &["run", "--config", "a.toml", "-p", "x"]),
            (&["--config=a.toml", "--yolo"], &["chat", "--config", "a.toml", "--yolo"]),
            (&["--config", "a.toml", "run", "-p", "x"], &["run", "--config", "a.toml", "-p", "x"]),
            (&["exec", "do it"], &["run", "do it"]),
        ] {
            let theirs = parse(theirs).unwrap_or_else(|error| panic!("{theirs:?}: {error}"));
            let mut ours = parse(ours).unwrap();
            // How the mode was typed does not change the mode.
            ours.config.clone_from(&theirs.config);
            assert_eq!(mode(&theirs), mode(&ours));
            assert_eq!(
                std::mem::discriminant(&theirs.command),
                std::mem::discriminant(&ours.command)
            );
        }
        let misplaced = parse(&["--json", "models"]).unwrap_err();
        assert_eq!(misplaced.kind(), ErrorKind::UnknownArgument);
    }

    fn mode(cli: &Cli) -> Option<loopwright_permissions::Mode> {
        let agent = match &cli.command {
            super::super::Command::Run(args) => &args.agent,
            super::super::Command::Chat(args) => &args.agent,
            _ => return None,
        };
        agent.flags(None).permission_mode
    }

    #[test]
    fn an_option_that_means_something_else_here_names_the_option_to_use() {
        let program = Cli::command();
        for (names, tip) in OTHERS {
            for name in names {
                let told = parse(&["run", name, "x"]).unwrap_err();
                assert_eq!(told.kind(), ErrorKind::UnknownArgument, "{name}");
                assert!(told.to_string().contains(&format!("tip: {tip}")), "{told}");
            }
            // The options that tips name exist.
            let run = program.find_subcommand("run").unwrap();
            let words = tip.split(|c: char| !c.is_ascii_alphabetic() && c != '-');
            for option in words.filter_map(|it| it.strip_prefix("--")) {
                let known =
                    |it: &clap::Command| it.get_arguments().any(|it| it.get_long() == Some(option));
                assert!(known(run) || known(&program), "{option}");
            }
        }
    }

    #[test]
    fn combinations_without_an_effect_are_refused() {
        for (line, told) in [
            (&["run", "--verbose", "x"][..], "'--output-format stream-json'"),
            (
                &["run", "--verbose", "--output-format", "json", "x"],
                "'--output-format stream-json'",
            ),
            (&["run", "-c", "--session-id", "7f3a", "x"], "'--fork-session'"),
            (&["chat", "-r", "7f3a", "--session-id", "7f3b"], "'--fork-session'"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{line:?}");
            assert!(error.to_string().contains(told), "{error}");
        }
        for line in [
            &["run", "--verbose", "--output-format", "stream-json", "x"][..],
            &["run", "-c", "--fork-session", "--session-id", "7f3a", "x"],
            &["run", "--fork", "7f3a@2", "--session-id", "7f3b", "x"],
            &["run", "--session-id", "0f3e8a52-6a4b-4d4e-9d0c-6d6f0e1c2b3a", "x"],
        ] {
            assert!(parse(line).is_ok(), "{line:?}");
        }
        let alone = parse(&["run", "--fork-session", "x"]).unwrap_err();
        assert_eq!(alone.kind(), ErrorKind::MissingRequiredArgument);
    }
}
