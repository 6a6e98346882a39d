//! Files in the arguments of well-known programs. Deny and ask rules for files apply to them. This
//! is not a confinement: any other program can use any file.

use super::part::PathUse;
use crate::call::Access;
use crate::shell::{UNKNOWN_END, UNKNOWN_START, Word};

#[rustfmt::skip]
const READERS: &[&str] = &[
    ".", "7z", "awk", "base32", "base64", "bat", "bzip2", "cat", "cmp", "comm", "curl", "cut",
    "diff", "egrep", "expand", "fgrep", "file", "fold", "gpg", "grep", "gzip", "head", "hexdump",
    "join", "jq", "less", "md5sum", "more", "nl", "node", "od", "open", "openssl", "paste",
    "perl", "php", "pr", "python", "python3", "rev", "rg", "ruby", "sed", "sha1sum", "sha256sum",
    "sort", "source", "stat", "strings", "tac", "tail", "tar", "tr", "uniq", "view", "wc", "wget",
    "xxd", "xz", "yq", "zcat", "zip", "zstd",
];

#[rustfmt::skip]
const WRITERS: &[&str] = &[
    "chgrp", "chmod", "chown", "mkdir", "mkfifo", "mknod", "patch", "rm", "rmdir", "shred", "tee",
    "touch", "truncate", "unlink",
];

/// Programs that read and write their files.
const EDITORS: &[&str] = &["code", "ed", "emacs", "nano", "vi", "vim"];

/// Programs whose last argument is written, and whose others are read.
const COPIERS: &[&str] = &["cp", "install", "ln", "rsync", "scp"];

/// Returns the files that a command names.
pub(super) fn named(name: &str, words: &[Word]) -> Vec<PathUse> {
    let mut uses = Vec::new();
    let is_in_place = name == "sed"
        && words
            .iter()
            .any(|word| word.text.starts_with("-i") || word.text.starts_with("--in-place"));
    let access = match name {
        "mv" | "rename" => Access::Write,
        _ if is_in_place || WRITERS.contains(&name) => Access::Write,
        _ if READERS.contains(&name) || COPIERS.contains(&name) => Access::Read,
        _ if EDITORS.contains(&name) => Access::Read,
        _ if super::opaque::is_shell(name) => Access::Read,
        "git" => return git(words),
        "dd" => {
            for word in &words[1..] {
                let (access, path) = match word.text.split_once('=') {
                    Some(("of", path)) => (Access::Write, path),
                    Some(("if", path)) => (Access::Read, path),
                    _ => continue,
                };
                push(&mut uses, access, word, path);
            }
            return uses;
        }
        _ => return uses,
    };
    let mut is_after_options = false;
    let operands: Vec<&Word> = words[1..]
        .iter()
        .filter(|word| {
            let is_option = !is_after_options && word.text.starts_with('-') && word.text.len() > 1;
            is_after_options |= word.text == "--";
            !is_option
        })
        .collect();
    let names_folder =
        |word: &Word| word.text.starts_with("-t") || word.text.starts_with("--target");
    let has_target = COPIERS.contains(&name) && !words.iter().any(names_folder);
    for (index, word) in operands.iter().enumerate() {
        let is_target = has_target && index + 1 == operands.len() && index > 0;
        push(&mut uses, if is_target { Access::Write } else { access }, word, &word.text);
    }
    if EDITORS.contains(&name) {
        for word in &operands {
            push(&mut uses, Access::Write, word, &word.text);
        }
    }
    // `-fFILE`, `--file=FILE` and `-t FOLDER`
    for word in &words[1..] {
        if let Some((option, path)) = word.text.split_once('=').filter(|(o, _)| o.starts_with("--"))
        {
            let is_target = option == "--target-directory";
            push(&mut uses, if is_target { Access::Write } else { access }, word, path);
        } else if let Some(path) = word.text.get(2..).filter(|path| !path.is_empty())
            && word.text.starts_with('-')
        {
            push(&mut uses, access, word, path);
        }
    }
    uses
}

/// Commands of git whose operands are files that they show, or whose content they take.
const GIT_READERS: [&str; 11] = [
    "annotate",
    "apply",
    "archive",
    "blame",
    "cat-file",
    "diff",
    "difftool",
    "grep",
    "hash-object",
    "log",
    "show",
];

/// Commands of git whose operands are files that they change.
const GIT_WRITERS: [&str; 5] = ["checkout", "clean", "mv", "restore", "rm"];

/// Returns the files that a command of git names, also in the form `COMMIT:FILE`.
fn git(words: &[Word]) -> Vec<PathUse> {
    let mut uses = Vec::new();
    let (mut at, mut folder) = (1, None);
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        let takes_value = matches!(&*word.text, "-C" | "-c" | "--namespace");
        if word.text == "-C" {
            folder = words.get(at + 1);
        }
        at += 1 + usize::from(takes_value);
    }
    let Some(command) = words.get(at).and_then(Word::literal) else { return uses };
    let access = match command {
        name if GIT_READERS.contains(&name) => Access::Read,
        name if GIT_WRITERS.contains(&name) => Access::Write,
        _ => return uses,
    };
    for word in &words[at + 1..] {
        let value = word.text.strip_prefix('-').map(|option| option.split_once('=').unzip().1);
        let text = match value {
            Some(None) => continue,
            Some(Some(value)) => value,
            None => &word.text,
        };
        let path = text.split_once(':').map_or(text, |(_, path)| path);
        match folder.filter(|_| !path.starts_with(['/', '~'])) {
            Some(folder) if folder.is_unknown => {
                uses.push(PathUse { access, path: None, glob: None });
            }
            Some(folder) => push(&mut uses, access, word, &format!("{}/{path}", folder.text)),
            None => push(&mut uses, access, word, path),
        }
    }
    uses
}

fn push(uses: &mut Vec<PathUse>, access: Access, word: &Word, path: &str) {
    // `curl -d @FILE`
    let path = path.strip_prefix('@').unwrap_or(path);
    let is_known = !word.is_unknown && !path.is_empty();
    let known = is_known.then(|| super::analysis::tilde(word, path));
    let glob = if word.is_unknown { pattern(word) } else { None };
    uses.push(PathUse { access, path: known, glob });
}

/// Returns a word that is a pattern of file names as it is written, or `None` if it has other
/// unknown parts.
fn pattern(word: &Word) -> Option<String> {
    let mut text = String::new();
    for part in word.text.split(UNKNOWN_END) {
        let (known, unknown) = part.split_once(UNKNOWN_START).unwrap_or((part, ""));
        if unknown.contains(['$', '`', '<', '…']) {
            return None;
        }
        text.push_str(known);
        text.push_str(unknown);
    }
    Some(text)
}
