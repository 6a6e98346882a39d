//! What the pages tell people to type can be typed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::error::ErrorKind;
use loopwright_cli::args::Cli;

pub(crate) const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Where words of a command end for good.
const ENDS: &[&str] = &["|", "||", "&&", ";", "&", "#"];

#[test]
fn every_command_line_of_every_page_is_understood() {
    use ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
        MissingRequiredArgument,
    };
    const IN_BLOCKS: &[ErrorKind] = &[DisplayHelp, DisplayVersion];
    // Running text may name a command and leave out what it is given.
    const IN_TEXT: &[ErrorKind] = &[
        DisplayHelp,
        DisplayVersion,
        DisplayHelpOnMissingArgumentOrSubcommand,
        MissingRequiredArgument,
    ];

    let (mut seen, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        let typed = commands_in_blocks(&text).into_iter().map(|line| (line, IN_BLOCKS));
        let named = commands_in_text(&text).into_iter().map(|line| (line, IN_TEXT));
        for (line, fine) in typed.chain(named) {
            seen += 1;
            let error = Cli::parse_words(words(&line).into_iter().map(Into::into).collect()).err();
            if let Some(error) = error.filter(|it| !fine.contains(&it.kind())) {
                wrong.push(format!("{}: {line}\n{error}", page.display()));
            }
        }
    }
    assert!(seen > 50, "{seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_shell_block_of_every_page_is_a_script() {
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        for block in blocks(&text).filter(|(language, _)| *language == "sh") {
            let checked = Command::new("bash").args(["-n", "-c", &block.1]).output().unwrap();
            if !checked.status.success() {
                let said = String::from_utf8_lossy(&checked.stderr).into_owned();
                wrong.push(format!("{}: {said}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The pages of the repository's root and those below `docs`.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(WORKSPACE).join("docs")];
    let top =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|it| Path::new(WORKSPACE).join(it));
    found.extend(top);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The blocks of code of a page, with their languages.
pub(crate) fn blocks(page: &str) -> impl Iterator<Item = (&str, String)> {
    let mut lines = page.lines();
    std::iter::from_fn(move || {
        let language = lines.find_map(|line| line.strip_prefix("```"))?;
        let code = lines.by_ref().take_while(|line| *line != "```");
        Some((language, code.flat_map(|line| [line, "\n"]).collect()))
    })
}

fn commands_in_blocks(page: &str) -> Vec<String> {
    let code = blocks(page).map(|(_, code)| code.replace("\\\n", " ")).collect::<String>();
    code.lines().filter_map(|line| command(line.trim().trim_start_matches("$ "))).collect()
}

fn commands_in_text(page: &str) -> Vec<String> {
    let prose = page.split("```").step_by(2).collect::<Vec<_>>().join("\n");
    prose.split('`').skip(1).step_by(2).filter_map(command).collect()
}

/// The program's part of a line. One that leaves something out, or lists choices, cannot be typed.
fn command(line: &str) -> Option<String> {
    let line = line.replace("cargo run --release -- ", "loopwright ");
    let line = line.replace("cargo run -- ", "loopwright ");
    let at = line.find("loopwright ").filter(|at| *at == 0 || line.starts_with("scripted "))?;
    let command = &line[at..];
    let words = words(command);
    let is_open = |word: &String| word == "…" || word.starts_with('[') || word.contains('|');
    let is_first = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let is_command = words.get(1).is_some_and(|it| it.starts_with(is_first));
    (is_command && !words.iter().any(is_open)).then(|| command.to_owned())
}

/// Splits a line as a shell does, up to the end of its first command.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = line.chars().peekable();
    while letters.peek().is_some() {
        let (mut word, mut quote, mut is_quoted) = (String::new(), None, false);
        for letter in letters.by_ref() {
            match (quote, letter) {
                (None, '"' | '\'') => (quote, is_quoted) = (Some(letter), true),
                (Some(open), letter) if open == letter => quote = None,
                (None, ' ') => break,
                // A variable stands for its value; its name will do.
                (None | Some('"'), '$') => {}
                (_, letter) => word.push(letter),
            }
        }
        if !is_quoted
            && (ENDS.contains(&&*word) || word.starts_with(['>', '<']) || word.starts_with("2>"))
        {
            break;
        }
        if is_quoted || !word.is_empty() {
            words.push(word);
        }
    }
    words
}

#[test]
fn a_line_is_split_as_a_shell_splits_it() {
    let check = |line: &str, expect: &[&str]| assert_eq!(words(line), expect, "{line}");
    check("loopwright run \"a b\" # no", &["loopwright", "run", "a b"]);
    check("loopwright  run 'a \"b' | cat", &["loopwright", "run", "a \"b"]);
    check("loopwright run '' >/dev/null 2>&1", &["loopwright", "run", ""]);
}

#[test]
fn a_page_has_commands_in_blocks_and_in_running_text() {
    let page = "Say `loopwright demo`, `loopwright run …` or `cat`.\n```sh\nscripted x loopwright run a\nls\n```\n";
    assert_eq!(commands_in_blocks(page), ["loopwright run a"]);
    assert_eq!(commands_in_text(page), ["loopwright demo"]);
}
