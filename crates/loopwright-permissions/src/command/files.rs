//! Files that the arguments of well-known programs name. Deny and ask rules for files see them. It is no confinement:
//! any other program can use any file.

use super::part::PathUse;
use crate::call::Access;
use crate::shell::Word;

const READERS: &[&str] = &[
    "awk",
    "base32",
    "base64",
    "bat",
    "cat",
    "cmp",
    "comm",
    "cut",
    "diff",
    "egrep",
    "expand",
    "fgrep",
    "file",
    "fold",
    "grep",
    "head",
    "hexdump",
    "join",
    "jq",
    "less",
    "md5sum",
    "more",
    "nl",
    "od",
    "open",
    "paste",
    "pr",
    "rg",
    "rev",
    "sed",
    "sha1sum",
    "sha256sum",
    "sort",
    "stat",
    "strings",
    "tac",
    "tail",
    "tr",
    "uniq",
    "wc",
    "xxd",
    "yq",
    "zcat",
];

const WRITERS: &[&str] = &[
    "chgrp", "chmod", "chown", "mkdir", "mkfifo", "mknod", "rm", "rmdir", "shred", "tee", "touch",
    "truncate", "unlink",
];

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
    for (index, word) in operands.iter().enumerate() {
        let is_target = COPIERS.contains(&name) && index + 1 == operands.len() && index > 0;
        push(&mut uses, if is_target { Access::Write } else { access }, word, &word.text);
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

fn push(uses: &mut Vec<PathUse>, access: Access, word: &Word, path: &str) {
    let path = (!word.is_unknown && !path.is_empty()).then(|| super::analysis::tilde(word, path));
    uses.push(PathUse { access, path });
}
