//! Arguments that make a command run another program, or write a file.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::programs::{PROGRAMS, Program, Style};
use super::sed;
use crate::matcher::simple_glob;
use crate::shell::Word;

/// An argument with which a program does more than its name says. An allow rule with a wildcard has to name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Risk {
    /// The argument.
    pub(crate) word: String,
    /// The option in the argument, or the whole argument.
    pub(crate) option: String,
    /// What the argument does.
    pub(crate) reason: &'static str,
}

/// What the arguments of a command do.
#[derive(Debug, Default)]
pub(super) struct Risks {
    pub(super) named: Vec<Risk>,
    /// The values of options that name a folder to work in, each with the word that contains it.
    pub(super) folders: Vec<(String, Word)>,
    /// Why no rule with a wildcard can allow the command.
    pub(super) opaque: Option<&'static str>,
}

pub(super) const RISKY: &str = "the argument makes the program run or write something else";
pub(super) const UNKNOWN: &str = "an unknown argument could be an option that runs something else";
const AWK: &str = "an awk program can run commands and write files";

impl Risks {
    pub(super) fn add(&mut self, word: &Word, option: &str, reason: &'static str) {
        let (word, option) = (word.text.clone(), option.to_owned());
        self.named.push(Risk { word, option, reason });
    }
}

/// Returns what the arguments of a command do.
pub(super) fn of(name: &str, words: &[Word]) -> Risks {
    let mut risks = Risks::default();
    let Some(arguments) = words.get(1..) else { return risks };
    if name == "git" {
        git(arguments, &mut risks);
        return risks;
    }
    for program in programs(name) {
        if program.commands.is_empty() {
            read(program, arguments, &mut risks);
        } else if let Some(at) = command(program, arguments) {
            read(program, &arguments[at + 1..], &mut risks);
            if program.risks == "*" {
                risks.add(&arguments[at], &arguments[at].text, RISKY);
            }
        }
    }
    match name {
        "sed" | "gsed" => sed::read(arguments, &mut risks),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => awk(arguments, &mut risks),
        "tar" | "gtar" => old_options(arguments, &mut risks),
        _ => {}
    }
    risks
}

/// Returns `true` if the last word of a command makes it run another program or write any file.
pub(crate) fn ends_with_risk(words: &[&str]) -> bool {
    let words: Vec<Word> = words.iter().map(|word| Word::from_literal(*word)).collect();
    let Some(name) = words.first().and_then(Word::literal) else { return false };
    let last = words.last();
    let found = of(name, &words).named;
    found.iter().any(|risk| risk.reason == RISKY && last.is_some_and(|last| last.text == risk.word))
}

/// The entries of the table by the name of the program.
static BY_NAME: LazyLock<HashMap<&str, Vec<&Program>>> = LazyLock::new(|| {
    let mut names: HashMap<&str, Vec<&Program>> = HashMap::new();
    for program in PROGRAMS {
        for name in program.names.split_ascii_whitespace() {
            names.entry(name).or_default().push(program);
        }
    }
    names
});

fn programs(name: &str) -> &'static [&'static Program] {
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// Returns `true` if a list contains a text.
fn has(list: &str, text: &str) -> bool {
    list.split_ascii_whitespace().any(|entry| entry == text)
}

/// Returns the place of one of the commands of a program: the first operand, also if a word before it could be the value
/// of an option.
fn command(program: &Program, arguments: &[Word]) -> Option<usize> {
    operands(program, arguments)
        .find(|at| arguments[*at].literal().is_some_and(|text| has(program.commands, text)))
}

/// Returns the places of words that could be the first operand.
fn operands<'a>(program: &'a Program, arguments: &'a [Word]) -> impl Iterator<Item = usize> + 'a {
    let mut is_over = false;
    (0..arguments.len()).filter(move |at| {
        if is_over || is_option(&arguments[*at]) {
            return false;
        }
        let before = at.checked_sub(1).map(|before| &arguments[before]);
        is_over = !before.is_some_and(|word| is_option(word) && !word.text.contains('='));
        !before.is_some_and(|word| takes_next(program, word))
    })
}

fn is_option(word: &Word) -> bool {
    word.text.len() > 1 && word.text.starts_with(['-', '+'])
}

/// Returns `true` if the next word is the value of an option.
fn takes_next(program: &Program, word: &Word) -> bool {
    let text = &*word.text;
    let takes = |option: &str| has(program.values, option) || has(program.folders, option);
    if takes(text) {
        return true;
    }
    let (Style::Getopt, Some(letters)) = (program.style, text.strip_prefix('-')) else {
        return false;
    };
    // Of `-abX VALUE`, the last letter takes a value, and none before it.
    let mut letters = letters.char_indices().peekable();
    while let Some((_, letter)) = letters.next() {
        if takes(short(letter).as_str()) {
            return letters.peek().is_none();
        }
    }
    false
}

/// A short option.
struct Short([u8; 5], usize);

impl Short {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0[..self.1]).unwrap_or_default()
    }
}

fn short(letter: char) -> Short {
    let mut text = [b'-', 0, 0, 0, 0];
    let length = letter.encode_utf8(&mut text[1..]).len();
    Short(text, length + 1)
}

fn read(program: &Program, arguments: &[Word], risks: &mut Risks) {
    let end = arguments.iter().position(|word| word.text == "--").unwrap_or(arguments.len());
    for (at, word) in arguments.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &arguments[before]);
        let is_value = before.is_some_and(|word| takes_next(program, word));
        if let Some(option) = risky(program, word) {
            risks.add(word, option, RISKY);
        } else if program.assigns && is_assignment(word) && !is_value {
            risks.add(word, &word.text, "the argument sets a variable, which can name a program");
        } else if let Some(folder) = folder(program, arguments, at) {
            risks.folders.push((word.text.clone(), folder));
        } else if at < end && could_be_option(word) && (word.splits || !is_value) {
            risks.add(word, &word.text, UNKNOWN);
        }
    }
    for at in operands(program, &arguments[..end]) {
        let text = &*arguments[at].text;
        if !text.contains('*') && has(program.risks, text) {
            risks.add(&arguments[at], text, RISKY);
        }
    }
    let is_value = |at: usize| at > 0 && takes_next(program, &arguments[at - 1]);
    let is_operand = |at: &usize| !is_option(&arguments[*at]) && !is_value(*at);
    let mut operands = (0..arguments.len()).filter(is_operand);
    if program.writes_second
        && let Some(second) = operands.nth(1)
    {
        risks.add(&arguments[second], &arguments[second].text, RISKY);
        return;
    }
    let (least, options) = program.input;
    let has_code = |word: &Word| {
        options.split_ascii_whitespace().any(|entry| option(program, entry, &word.text).is_some())
    };
    if operands.count() < least && !arguments.iter().any(has_code) {
        risks.opaque =
            Some("the program reads its input as commands, which can run other programs");
    }
}

/// Returns `true` if the word is unknown, and its value could start with `-`.
fn could_be_option(word: &Word) -> bool {
    word.is_unknown && word.known_prefix().is_empty()
}

/// Returns the risky option in an argument, or the whole argument if it is one.
fn risky<'a>(program: &Program, word: &'a Word) -> Option<&'a str> {
    let text = word.known_prefix();
    for entry in program.risks.split_ascii_whitespace() {
        if entry.contains('*') {
            if entry != "*" && (simple_glob(entry, &word.text)) {
                return Some(&word.text);
            }
        } else if entry.starts_with('-')
            && let Some(length) = option(program, entry, text)
        {
            return Some(&text[..length]);
        }
    }
    None
}

/// Returns the length of an option at the start of an argument, without its value.
fn option(program: &Program, option: &str, text: &str) -> Option<usize> {
    let is_long = option.starts_with("--");
    let is_short = !is_long && option.len() == 2;
    if program.style == Style::Long {
        // `-x` and `--x` are the same.
        let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
        let rest = name.strip_prefix(option.trim_start_matches('-'))?;
        return (rest.is_empty() || rest.starts_with('=')).then(|| text.len() - rest.len());
    }
    if let Some(rest) = text.strip_prefix(option) {
        return (rest.is_empty() || rest.starts_with('=') || is_short).then_some(option.len());
    }
    let name = text.split('=').next().unwrap_or(text);
    if is_long {
        // Long options may be shortened.
        return (name.len() > 2 && option.starts_with(name)).then_some(name.len());
    }
    let letter = option.chars().nth(1).filter(|_| is_short && program.style == Style::Getopt)?;
    let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    for found in letters.chars() {
        if found == letter {
            return Some(text.len());
        }
        let found = short(found);
        if has(program.values, found.as_str()) || has(program.folders, found.as_str()) {
            return None;
        }
    }
    None
}

/// Returns the folder that an option names.
fn folder(program: &Program, arguments: &[Word], at: usize) -> Option<Word> {
    let word = &arguments[at];
    for entry in program.folders.split_ascii_whitespace() {
        let Some(length) = option(program, entry, word.known_prefix()) else { continue };
        let rest = &word.text[length..];
        let value = match rest.strip_prefix('=') {
            Some(value) => value,
            None if rest.is_empty() => {
                return Some(arguments.get(at + 1).cloned().unwrap_or_else(|| Word::unknown("…")));
            }
            None => rest,
        };
        return Some(Word {
            text: value.to_owned(),
            has_tilde: value.starts_with('~'),
            ..word.clone()
        });
    }
    None
}

/// Returns `true` for a variable with a value that can be a name or an expression.
fn is_assignment(word: &Word) -> bool {
    let Some((name, value)) = word.text.split_once('=') else { return false };
    !name.starts_with('-') && !value.bytes().all(|byte| byte.is_ascii_digit())
}

/// `tar cIf …`, whose first word is options without `-`.
fn old_options(arguments: &[Word], risks: &mut Risks) {
    if let Some(word) = arguments.first()
        && !word.text.starts_with('-')
        && (word.is_unknown || word.text.contains(['I', 'F', 'T', 'g']))
    {
        risks.add(word, &word.text, RISKY);
    }
}

fn awk(arguments: &[Word], risks: &mut Risks) {
    let is_code = |word: &&Word| {
        word.is_unknown
            || ["system", "|", ">", "getline", "@"].iter().any(|part| word.text.contains(part))
    };
    for word in arguments.iter().filter(is_code) {
        risks.add(word, &word.text, AWK);
    }
}

/// Options of git before the command that change nothing else.
const GIT_OPTIONS: &str = "-p --paginate -P --no-pager --bare --no-replace-objects --literal-pathspecs --no-optional-locks --version -v \
    --help -h --html-path --man-path --info-path --glob-pathspecs --noglob-pathspecs --icase-pathspecs --no-advice --no-lazy-fetch";

/// Commands of `git config` that only read.
const GIT_CONFIG_READS: &str = "--get --list -l --get-all --get-regexp --show-origin get list";

fn git(arguments: &[Word], risks: &mut Risks) {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let Some(text) = word.literal() else {
            risks.add(word, &word.text, UNKNOWN);
            if !word.known_prefix().starts_with('-') {
                return;
            }
            at += 1;
            continue;
        };
        match text {
            "-C" => {
                let folder = arguments.get(at + 1).cloned().unwrap_or_default();
                risks.folders.push((text.to_owned(), folder));
                at += 2;
            }
            "--namespace" => at += 2,
            "-c" => {
                risks.add(word, text, RISKY);
                at += 2;
            }
            text if has(GIT_OPTIONS, text) => at += 1,
            text if text.starts_with('-') => {
                let option = text.split('=').next().unwrap_or(text);
                risks.add(word, option, RISKY);
                let takes_next = !text.contains('=')
                    && matches!(
                        text,
                        "--git-dir"
                            | "--work-tree"
                            | "--super-prefix"
                            | "--config-env"
                            | "--attr-source"
                    );
                at += 1 + usize::from(takes_next);
            }
            _ => break,
        }
    }
    // A name that is not one of git's own could be an alias, which the configuration defines.
    let Some(name) = arguments.get(at) else { return };
    let rest = &arguments[at + 1..];
    let is_of = |program: &&&Program| has(program.commands, &name.text);
    for program in programs("git").iter().filter(is_of) {
        if program.risks == "*" {
            let first = rest.first().and_then(Word::literal).unwrap_or_default();
            if name.text != "config" || !has(GIT_CONFIG_READS, first) {
                risks.add(name, &name.text, RISKY);
            }
            continue;
        }
        read(program, rest, risks);
        // Commands of a command may come after options.
        let words = program.risks.split_ascii_whitespace().filter(|entry| !entry.starts_with('-'));
        for entry in words {
            let is_entry = |word: &&Word| word.literal().is_none_or(|text| text == entry);
            for word in rest.iter().filter(is_entry) {
                risks.add(word, &word.text, RISKY);
            }
        }
    }
}
