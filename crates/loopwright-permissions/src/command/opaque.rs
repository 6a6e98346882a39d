//! Commands whose effects are not visible in their arguments.

use crate::shell::Word;
use crate::variables::is_powerful;

const SHELLS: &[&str] = &[
    "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "nu", "pwsh", "rbash", "sh", "tcsh", "zsh",
];

/// Builtins that run or define something else.
const BUILTINS: &[&str] = &[
    ".",
    "alias",
    "bind",
    "compgen",
    "complete",
    "enable",
    "eval",
    "fc",
    "hash",
    "mapfile",
    "readarray",
    "shopt",
    "source",
    "trap",
    "unalias",
];

/// Options of programs that make them run or write something else.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "find",
        &[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
            "-fls",
        ],
    ),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("rg", &["--pre", "--hostname-bin"]),
    (
        "tar",
        &[
            "--checkpoint-action",
            "--to-command",
            "-I",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "-F",
            "--new-volume-script",
        ],
    ),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-S", "-o", "-F"]),
    ("sftp", &["-S", "-o", "-F", "-b"]),
    ("ssh", &["-o", "-F"]),
    ("man", &["-P", "--pager", "-H", "--html"]),
    ("sort", &["--compress-program", "-o", "--output"]),
    ("zip", &["-TT", "--unzip-command"]),
    ("tcpdump", &["-z"]),
    ("sed", &["-i", "--in-place", "-f", "--file"]),
    ("awk", &["-f", "--file", "-i", "-l"]),
    ("gawk", &["-f", "--file", "-i", "-l"]),
    ("cargo", &["--config"]),
    ("go", &["-exec", "-toolexec", "-overlay"]),
    ("curl", &["-K", "--config"]),
    ("less", &["-k", "--lesskey-file"]),
    ("wget", &["--use-askpass", "-e", "--execute", "--config"]),
];

/// Commands of git that run others, and the options with which some do.
const GIT: &[(&str, &[&str])] = &[
    ("rebase", &["-x", "--exec"]),
    ("bisect", &["run"]),
    ("submodule", &["foreach"]),
    ("filter-branch", &[""]),
    ("difftool", &[""]),
    ("mergetool", &[""]),
    ("config", &[""]),
    ("credential", &[""]),
    ("grep", &["-O", "--open-files-in-pager"]),
    ("fetch", &["--upload-pack"]),
    ("pull", &["--upload-pack"]),
    ("ls-remote", &["--upload-pack", "--exec"]),
    ("push", &["--receive-pack", "--exec"]),
    ("clone", &["-c", "--config", "--upload-pack", "-u", "--template"]),
    ("init", &["--template"]),
    ("archive", &["--exec", "--remote", "-o", "--output"]),
    ("diff", &["--ext-diff", "--output"]),
    ("log", &["--ext-diff", "--output"]),
    ("show", &["--ext-diff", "--output"]),
    ("format-patch", &["--ext-diff", "-o", "--output", "--output-directory"]),
    ("send-email", &[""]),
    ("hook", &[""]),
    ("for-each-repo", &[""]),
    ("instaweb", &[""]),
    ("web--browse", &[""]),
];

/// Returns why no rule with a wildcard can allow a command, or `None` if one can.
pub(super) fn reason(name: &str, words: &[Word]) -> Option<&'static str> {
    let arguments = &words[1..];
    if is_shell(name) {
        return Some("a shell runs a string or a file");
    }
    if BUILTINS.contains(&name) {
        return Some("the arguments do not show what the command runs or defines");
    }
    match name {
        "git" => git(arguments),
        "set" => set(arguments),
        "jobs" => has_option(arguments, &["-x"]).then_some("`jobs -x` runs a command"),
        "awk" | "gawk" | "mawk" | "nawk" => awk(arguments),
        "sed" | "gsed" => sed(arguments),
        "script" | "expect" | "at" | "batch" | "crontab" | "entr" => {
            Some("the arguments do not show which other commands it runs")
        }
        "tar" if has_old_options(arguments) => Some(RISKY),
        _ => {
            let (_, options) = OPTIONS.iter().find(|(program, _)| *program == name)?;
            risky(arguments, options)
        }
    }
}

/// Returns `true` if no command that starts with these words can be allowed by a rule with a wildcard.
pub(crate) fn is_opaque_prefix(words: &[&str]) -> bool {
    let words: Vec<Word> = words.iter().map(|word| Word::from_literal(*word)).collect();
    let Some(name) = words.first().and_then(Word::literal) else { return false };
    reason(name, &words).is_some()
}

pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
        && !name.is_empty()
        && name != "."
}

const RISKY: &str = "an option makes the program run or write something else";
const UNKNOWN: &str = "an unknown argument could be an option that runs something else";

fn risky(arguments: &[Word], options: &[&str]) -> Option<&'static str> {
    if has_option(arguments, options) {
        return Some(RISKY);
    }
    // An unknown value could be an option, unless it is that of the option before it.
    let could_be_option = |(index, word): (usize, &Word)| {
        let is_value = index > 0 && arguments[index - 1].text.starts_with('-');
        word.is_unknown && word.known_prefix().is_empty() && (word.splits || !is_value)
    };
    let end = arguments.iter().position(|word| word.text == "--").unwrap_or(arguments.len());
    arguments[..end].iter().enumerate().any(could_be_option).then_some(UNKNOWN)
}

/// Returns `true` if an argument is one of the options, alone, with `=` or, for a short one, with its value.
fn has_option(arguments: &[Word], options: &[&str]) -> bool {
    let is_option = |text: &str, option: &str| {
        let Some(rest) = text.strip_prefix(option) else { return is_in_cluster(text, option) };
        let is_short = option.len() == 2 && option.starts_with('-');
        rest.is_empty() || rest.starts_with('=') || is_short
    };
    let is_risky = |word: &Word| {
        let text = word.known_prefix();
        // Long options may be shortened.
        let is_start = |option: &&str| {
            option.starts_with("--")
                && text.len() > 3
                && text.starts_with("--")
                && option.starts_with(text.split('=').next().unwrap_or(text))
        };
        options.iter().any(|option| is_option(text, option) || is_start(option))
    };
    arguments.iter().any(is_risky)
}

/// Returns `true` for `-xO` if the option is `-O`.
fn is_in_cluster(text: &str, option: &str) -> bool {
    let letter = option.strip_prefix('-').filter(|rest| rest.len() == 1 && *rest != "-");
    letter.is_some_and(|letter| {
        let cluster = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        cluster.is_some_and(|rest| rest.len() <= 12 && rest.contains(letter))
    })
}

/// Returns `true` for `tar cIf …`, whose first word is options without `-`.
fn has_old_options(arguments: &[Word]) -> bool {
    arguments.first().is_some_and(|word| {
        !word.text.starts_with('-') && (word.is_unknown || word.text.contains(['I', 'F']))
    })
}

fn git(arguments: &[Word]) -> Option<&'static str> {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let Some(text) = word.literal() else { return Some(UNKNOWN) };
        match text {
            "-C" | "--namespace" => at += 2,
            "-p"
            | "--paginate"
            | "-P"
            | "--no-pager"
            | "--bare"
            | "--no-replace-objects"
            | "--literal-pathspecs"
            | "--no-optional-locks"
            | "--version"
            | "--help" => at += 1,
            text if text.starts_with('-') => return Some(RISKY),
            _ => break,
        }
    }
    let command = arguments.get(at)?.literal()?;
    let rest = &arguments[at + 1..];
    // A name that is not one of git's own could be an alias, which the configuration defines.
    let (_, options) = GIT.iter().find(|(name, _)| *name == command)?;
    match options {
        [""] => {
            let first = rest.first().and_then(Word::literal).unwrap_or_default();
            let is_reading =
                matches!(first, "--get" | "--list" | "-l" | "--get-all" | "get" | "list");
            (command != "config" || !is_reading).then_some(RISKY)
        }
        [word] if !word.starts_with('-') => {
            let is_word = |argument: &Word| argument.literal().is_none_or(|text| text == *word);
            rest.iter().any(is_word).then_some(RISKY)
        }
        options => risky(rest, options),
    }
}

/// `set` with options that change how the text is read.
fn set(arguments: &[Word]) -> Option<&'static str> {
    const NAMES: &[&str] =
        &["pipefail", "errexit", "nounset", "xtrace", "noglob", "verbose", "noclobber"];
    let is_plain = |word: &Word| {
        word.literal().is_some_and(|text| {
            let letters = text.strip_prefix(['-', '+']);
            NAMES.contains(&text)
                || letters.is_some_and(|letters| letters.chars().all(|c| "euxovfCE".contains(c)))
        })
    };
    let is_after = arguments.first().and_then(Word::literal) == Some("--");
    (!is_after && !arguments.iter().all(is_plain)).then_some("`set` changes how commands are read")
}

fn awk(arguments: &[Word]) -> Option<&'static str> {
    let options =
        ["-f", "--file", "-i", "--include", "-l", "--load", "-e", "--source", "-E", "--exec", "-D"];
    let runs = |word: &Word| {
        word.is_unknown
            || ["system", "|", ">", "getline", "@"].iter().any(|part| word.text.contains(part))
    };
    if has_option(arguments, &options) {
        return Some(RISKY);
    }
    arguments.iter().any(runs).then_some("an awk program can run commands and write files")
}

fn sed(arguments: &[Word]) -> Option<&'static str> {
    (!super::sed::is_plain(arguments)).then_some("a sed script can run commands and write files")
}

/// Builtins that have no effect outside of the shell.
const NEUTRAL: &[&str] = &[
    ":", "[", "break", "continue", "declare", "exit", "export", "false", "local", "pwd", "read",
    "readonly", "return", "set", "shift", "test", "true", "typeset", "unset", "wait",
];

/// Returns `true` if a command has no effect outside of the shell.
pub(super) fn is_neutral(name: &str) -> bool {
    NEUTRAL.binary_search(&name).is_ok()
}

/// Returns why a builtin that evaluates its arguments may do more than it shows.
pub(super) fn evaluation(name: &str, words: &[Word]) -> Option<&'static str> {
    const REASON: &str = "an argument is evaluated a second time";
    const VARIABLE: &str = "a variable that changes how commands run is set";
    if !is_evaluator(name) {
        return None;
    }
    for word in words.iter().skip(1) {
        // What `$(…)` in the text itself contains is between marks, so this is in quotes.
        let known: String = known_parts(&word.text);
        if known.contains("$(") || known.contains('`') || known.contains("${") {
            return Some(REASON);
        }
        let declares = matches!(name, "declare" | "typeset" | "local" | "readonly" | "export");
        if declares && word.text.starts_with('-') && word.text.contains(['n', 'i', 'f']) {
            return Some(REASON);
        }
        let sets = declares
            || matches!(name, "read" | "printf" | "unset" | "getopts" | "mapfile" | "readarray");
        let variable = known.split(['=', '[', '+']).next().unwrap_or_default();
        let is_variable =
            name != "printf" || words.get(1).is_some_and(|word| word.text.starts_with("-v"));
        if sets && is_variable {
            if is_powerful(variable.trim_start_matches("-v")) {
                return Some(VARIABLE);
            }
            if word.is_unknown && name != "printf" && !known_before_equals(word) {
                return Some(VARIABLE);
            }
        }
    }
    None
}

fn known_before_equals(word: &Word) -> bool {
    word.known_prefix().contains('=')
}

fn known_parts(text: &str) -> String {
    let mut known = String::new();
    let mut is_unknown = false;
    for character in text.chars() {
        match character {
            crate::shell::UNKNOWN_START => is_unknown = true,
            crate::shell::UNKNOWN_END => is_unknown = false,
            character if !is_unknown => known.push(character),
            _ => {}
        }
    }
    known
}

fn is_evaluator(name: &str) -> bool {
    matches!(
        name,
        "test"
            | "["
            | "[["
            | "(("
            | "let"
            | "declare"
            | "typeset"
            | "local"
            | "export"
            | "readonly"
            | "unset"
            | "read"
            | "printf"
            | "mapfile"
            | "readarray"
            | "wait"
            | "getopts"
            | "shift"
            | "return"
            | "exit"
            | "break"
            | "continue"
    )
}

/// Returns why an assignment may do more than it shows.
pub(super) fn assignment(name: &str, value: &Word) -> Option<&'static str> {
    if is_powerful(name) {
        return Some("a variable that changes how commands run is set");
    }
    let known = known_parts(&value.text);
    (known.contains("$(") || known.contains('`'))
        .then_some("a variable contains a command, which arithmetic would run")
}
