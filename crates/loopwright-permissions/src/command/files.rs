//! Files in the arguments of well-known programs. Deny and ask rules for files apply to them. This
//! is not a confinement: any other program can use any file.

use super::part::{PathUse, Scope};
use crate::call::Access;
use crate::shell::{UNKNOWN_END, UNKNOWN_START, Word};

/// How a program uses its operands. All texts are lists, separated by blanks.
struct Files {
    names: &'static str,
    /// The access to the operands, unless a field below says otherwise.
    access: Access,
    /// With one of these options, the operands are written. Empty if none is needed.
    writes_with: &'static str,
    /// With one of these options, everything in a folder is used. `*` means that it always is.
    deep_with: &'static str,
    /// The first operand is no file, unless one of these options is given.
    code: Option<&'static str>,
    /// The last operand is written, or the folder that an option names.
    has_target: bool,
    /// Options whose value is written.
    outputs: &'static str,
    /// Without an operand, the working directory is used.
    is_here: bool,
}

impl Files {
    const fn new(names: &'static str, access: Access) -> Self {
        Self {
            names,
            access,
            writes_with: "",
            deep_with: "",
            code: None,
            has_target: false,
            outputs: "",
            is_here: false,
        }
    }

    const fn writes_with(self, writes_with: &'static str) -> Self {
        Self { writes_with, ..self }
    }

    const fn deep(self, deep_with: &'static str) -> Self {
        Self { deep_with, ..self }
    }

    const fn code(self, unless: &'static str) -> Self {
        Self { code: Some(unless), ..self }
    }

    const fn target(self) -> Self {
        Self { has_target: true, ..self }
    }

    const fn outputs(self, outputs: &'static str) -> Self {
        Self { outputs, ..self }
    }

    const fn here(self) -> Self {
        Self { is_here: true, ..self }
    }
}

use Access::{Read, Write};

#[rustfmt::skip]
const FILES: &[Files] = &[
    Files::new("cat tac head tail more nl od rev paste fold expand comm cmp join pr strings wc cut tr hexdump stat file bat view \
        md5sum sha1sum sha256sum base32 base64 zcat . source open node php python python3", Read),
    Files::new("less", Read).outputs("-o -O --log-file"),
    Files::new("sort", Read).outputs("-o --output"),
    Files::new("shuf iconv", Read).outputs("-o --output"),
    Files::new("uniq xxd", Read).target(),
    Files::new("split csplit", Read).target(),
    Files::new("sed gsed", Read).writes_with("-i --in-place").code("-e -f --expression --file"),
    Files::new("perl ruby", Read).writes_with("-i"),
    Files::new("awk gawk mawk nawk", Read).outputs("-i"),
    Files::new("jq", Read),
    Files::new("yq", Read).writes_with("-i --inplace"),
    Files::new("grep egrep fgrep zgrep", Read).deep("-r -R --recursive --dereference-recursive"),
    Files::new("rg ag ack", Read).deep("*"),
    Files::new("diff", Read).deep("-r --recursive").outputs("--output"),
    Files::new("curl", Read).outputs("-o --output --output-dir -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr"),
    Files::new("wget", Read).outputs("-O -o -a -P --output-document --output-file --append-output --directory-prefix"),
    Files::new("gpg openssl", Read).outputs("-o --output -out -keyout"),
    Files::new("tar gtar bsdtar", Read).deep("*"),
    Files::new("zip 7z", Read).deep("-r"),
    Files::new("unzip", Read).outputs("-d"),
    Files::new("gzip gunzip bzip2 bunzip2 xz unxz zstd lzma", Write).deep("-r"),
    Files::new("gcc g++ cc c++ clang clang++ rustc ld", Read).outputs("-o"),
    Files::new("chgrp chmod chown setfacl chattr", Write).deep("-R --recursive"),
    Files::new("rm", Write).deep("-r -R --recursive"),
    Files::new("mv rename", Write).deep("*").target(),
    Files::new("mkdir mkfifo mknod rmdir unlink tee touch truncate fallocate", Write),
    Files::new("shred", Write),
    Files::new("patch", Write).outputs("-o --output -d --directory").here(),
    Files::new("code ed emacs nano vi vim nvim ex", Write),
    Files::new("cp install scp", Read).deep("-r -R -a --recursive --archive").target(),
    Files::new("ln link", Write).deep("*").target(),
    Files::new("rsync", Read).deep("*").target(),
    Files::new("prettier eslint standard biome stylelint", Read).writes_with("-w --write --fix").deep("*"),
    Files::new("black isort autopep8 yapf rustfmt", Write).deep("*"),
    Files::new("ruff", Read).writes_with("--fix format").deep("*"),
    Files::new("gofmt goimports clang-format shfmt", Read).writes_with("-w -i").deep("*"),
];

const GIT: &[Files] = &[
    Files::new("annotate blame cat-file hash-object show", Read),
    Files::new("diff difftool log grep archive", Read).deep("*").outputs("--output -o"),
    Files::new("apply", Read),
    Files::new("checkout restore rm mv", Write).deep("*"),
    Files::new("clean", Write).deep("*").here(),
    Files::new("stash", Write).deep("*").here(),
];

/// Options of git before the command, with a value.
const GIT_VALUES: &str = "-C -c --namespace --git-dir --work-tree";

fn has(list: &str, text: &str) -> bool {
    list.split_ascii_whitespace().any(|entry| entry == text)
}

/// Returns `true` if a word is one of the options, alone, with `=`, or among letters.
fn is_any(list: &str, word: &Word) -> bool {
    list.split_ascii_whitespace().any(|option| value(option, word).is_some())
}

/// Returns the value of an option in a word; it is empty if the option stands alone.
fn value<'a>(option: &str, word: &'a Word) -> Option<&'a str> {
    let text = &*word.text;
    if !option.starts_with('-') {
        return (text == option).then_some("");
    }
    if option.starts_with("--") || option.len() > 2 {
        let rest = text.strip_prefix(option)?;
        return if rest.is_empty() { Some("") } else { rest.strip_prefix('=') };
    }
    let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    let at = letters.find(&option[1..])?;
    letters[..at].chars().all(|c| c.is_ascii_alphanumeric()).then(|| &letters[at + 1..])
}

/// Returns the files that a command names.
pub(super) fn named(name: &str, words: &[Word]) -> Vec<PathUse> {
    let mut uses = Vec::new();
    match name {
        "git" => return git(words),
        "find" | "gfind" => return find(words),
        "dd" => {
            for word in &words[1..] {
                let (access, path) = match word.text.split_once('=') {
                    Some(("of", path)) => (Write, path),
                    Some(("if", path)) => (Read, path),
                    _ => continue,
                };
                push(&mut uses, access, Scope::File, word, path);
            }
        }
        _ if super::opaque::is_shell(name) => {
            all(&Files::new("", Read), &words[1..], &mut uses);
        }
        _ => {
            if let Some(files) = FILES.iter().find(|files| has(files.names, name)) {
                all(files, &words[1..], &mut uses);
                also(name, &words[1..], &mut uses);
            }
        }
    }
    uses
}

/// Programs that read what they write.
const READ_TOO: &str = "vi vim nvim ex ed nano emacs code ln link gzip gunzip bzip2 bunzip2 xz unxz zstd lzma sed gsed perl ruby";

/// Returns the further uses of files by some programs.
fn also(name: &str, words: &[Word], uses: &mut Vec<PathUse>) {
    let here = Word::from_literal(".");
    let unpacks = match name {
        "tar" | "gtar" | "bsdtar" => {
            let is_old = words.first().is_some_and(|word| {
                !word.text.starts_with(['-', '.', '/']) && word.text.contains('x')
            });
            is_old || words.iter().any(|word| is_any("-x --extract --get", word))
        }
        "unzip" => !words.iter().any(|word| is_any("-l -p -t -v -Z", word)),
        _ => false,
    };
    if unpacks {
        let option = if name == "unzip" { "-d" } else { "-C --directory" };
        let at = words.iter().position(|word| is_any(option, word));
        let folder = at.and_then(|at| words.get(at + 1)).unwrap_or(&here);
        push(uses, Write, Scope::Some, folder, &folder.text);
    }
    if has(READ_TOO, name) {
        let writes = uses.iter().filter(|used| used.access == Write).cloned();
        let reads: Vec<PathUse> = writes.map(|used| PathUse { access: Read, ..used }).collect();
        uses.extend(reads);
    }
}

/// Returns the files that `find` removes, or that a command uses for each of them.
fn find(words: &[Word]) -> Vec<PathUse> {
    let mut uses = Vec::new();
    let mut accesses = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match &*word.text {
            "-delete" => accesses.push(Write),
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                if let Some(word) = words.get(at + 1) {
                    push(&mut uses, Write, Scope::File, word, &word.text);
                }
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let command = &words[at + 1..];
                let end = command.iter().position(|word| matches!(&*word.text, ";" | "+"));
                let command = &command[..end.unwrap_or(command.len())];
                let name = command.first().and_then(Word::literal).map(super::analysis::base_name);
                if let Some(name) = name.filter(|name| *name != "find") {
                    accesses.extend(named(name, command).iter().map(|used| used.access));
                }
            }
            _ => {}
        }
    }
    let is_start = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
    let mut starts: Vec<&Word> = words[1..].iter().take_while(is_start).collect();
    let here = Word::from_literal(".");
    if starts.is_empty() {
        starts.push(&here);
    }
    for access in accesses {
        for start in &starts {
            push(&mut uses, access, Scope::Some, start, &start.text);
        }
    }
    uses
}

fn all(files: &Files, words: &[Word], uses: &mut Vec<PathUse>) {
    let is_written = files.access == Write
        || !files.writes_with.is_empty()
            && words.iter().any(|word| is_any(files.writes_with, word));
    let access = if is_written { Write } else { Read };
    let is_deep = files.deep_with == "*" || words.iter().any(|word| is_any(files.deep_with, word));
    // What reads or formats the files in a folder may leave some out.
    let scope = match (is_deep, is_written && files.writes_with.is_empty()) {
        (false, _) => Scope::File,
        (true, false) => Scope::Some,
        (true, true) => Scope::All,
    };
    let mut is_after_options = false;
    let is_operand = |word: &&Word| {
        let is_option = !is_after_options && word.text.starts_with('-') && word.text.len() > 1;
        is_after_options |= word.text == "--";
        !is_option
    };
    let mut operands: Vec<&Word> = words.iter().filter(is_operand).collect();
    let has_code = files.code.is_some_and(|unless| {
        !words.iter().any(|word| !word.text.starts_with("-i") && is_any(unless, word))
    });
    if has_code {
        let code = operands.iter().position(|word| !word.text.is_empty());
        code.map(|at| operands.remove(at));
    }
    let names_folder = |word: &&Word| is_any("-t --target-directory", word);
    let folder = words.iter().find(names_folder).filter(|_| files.has_target);
    let has_target = files.has_target && folder.is_none() && operands.len() > 1;
    let count = operands.len() - usize::from(has_target);
    for word in &operands[..count] {
        push(uses, access, scope, word, &word.text);
    }
    let target = operands.last().filter(|_| has_target);
    if let Some(target) = target {
        into(uses, target, &operands[..count], scope);
    }
    if let Some(folder) = folder {
        let at = words.iter().position(|word| std::ptr::eq(word, folder)).unwrap_or_default();
        let named = value("-t", folder).or_else(|| value("--target-directory", folder));
        let word = match named.filter(|path| !path.is_empty()) {
            Some(path) => Some(Word { text: path.to_owned(), ..folder.clone() }),
            None => words.get(at + 1).cloned(),
        };
        if let Some(word) = word {
            into(uses, &word, &operands, scope);
        }
    }
    for (at, word) in words.iter().enumerate() {
        for option in files.outputs.split_ascii_whitespace() {
            match value(option, word) {
                Some("") => {
                    if let Some(word) = words.get(at + 1) {
                        push(uses, Write, Scope::File, word, &word.text);
                    }
                }
                Some(path) => push(uses, Write, Scope::File, word, path),
                None => {}
            }
        }
    }
    if files.is_here {
        let here = Word::from_literal(".");
        push(uses, Write, Scope::Some, &here, ".");
    }
    let is_looking_here = (has(files.names, "grep") || has(files.names, "rg")) && is_deep;
    if is_looking_here && operands.len() < 2 {
        let here = Word::from_literal(".");
        push(uses, Read, Scope::Some, &here, ".");
    }
    // `-fFILE`, `--file=FILE` and `-t FOLDER`
    for word in words {
        if let Some((_, path)) = word.text.split_once('=').filter(|(o, _)| o.starts_with("--")) {
            push(uses, access, Scope::File, word, path);
        } else if let Some(path) = word.text.get(2..).filter(|path| !path.is_empty())
            && word.text.starts_with('-')
        {
            push(uses, access, Scope::File, word, path);
        }
    }
}

/// Adds what is written at a target: a file, or a folder that gets files with the names of others.
fn into(uses: &mut Vec<PathUse>, target: &Word, files: &[&Word], scope: Scope) {
    push(uses, Write, Scope::File, target, &target.text);
    for file in files {
        let name = file.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        // `x/` and `x/.` can be the files in `x`.
        let is_content = file.text.ends_with('/') || matches!(name, "" | "." | "..");
        if is_content || file.is_unknown {
            push(uses, Write, Scope::Some, target, &target.text);
        }
        if !name.is_empty() && !file.is_unknown {
            push(uses, Write, scope, target, &format!("{}/{name}", target.text));
        }
    }
}

/// Returns the files that a command of git names, also in the form `COMMIT:FILE`.
fn git(words: &[Word]) -> Vec<PathUse> {
    let mut uses = Vec::new();
    let (mut at, mut folder) = (1, None);
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        if matches!(&*word.text, "-C" | "--work-tree") {
            folder = words.get(at + 1);
        }
        at += 1 + usize::from(has(GIT_VALUES, &word.text));
    }
    let Some(command) = words.get(at).and_then(Word::literal) else { return uses };
    let rest = &words[at + 1..];
    let here = Word::from_literal(folder.map_or(".", |folder| &*folder.text));
    let is_resetting = |word: &Word| matches!(&*word.text, "--hard" | "--merge" | "--keep");
    if matches!(command, "apply" | "am") || command == "reset" && rest.iter().any(is_resetting) {
        push(&mut uses, Write, Scope::Some, &here, &here.text);
    }
    let Some(files) = GIT.iter().find(|files| has(files.names, command)) else { return uses };
    let mut scope = match (files.deep_with, files.access) {
        // An operand can be a branch.
        ("*", Write) if command != "checkout" => Scope::All,
        ("*", _) => Scope::Inside,
        _ => Scope::File,
    };
    if files.is_here && !rest.iter().any(|word| matches!(&*word.text, "list" | "show")) {
        push(&mut uses, Write, Scope::Some, &here, &here.text);
    }
    for word in rest {
        if command == "checkout" && matches!(&*word.text, "--" | ".") {
            scope = Scope::All;
        }
        let value = word.text.strip_prefix('-').map(|option| option.split_once('=').unzip());
        let (text, access) = match value {
            Some((_, None)) => continue,
            Some((Some("-output"), Some(value))) => (value, Write),
            Some((_, Some(value))) => (value, files.access),
            None => (&*word.text, files.access),
        };
        let path = text.split_once(':').map_or(text, |(_, path)| path);
        match folder.filter(|_| !path.starts_with(['/', '~'])) {
            Some(folder) if folder.is_unknown => {
                uses.push(PathUse { access, path: None, glob: None, scope });
            }
            Some(folder) => {
                push(&mut uses, access, scope, word, &format!("{}/{path}", folder.text));
            }
            None => push(&mut uses, access, scope, word, path),
        }
    }
    if command == "mv"
        && let [files @ .., target] = rest
    {
        let files: Vec<&Word> = files.iter().filter(|word| !word.text.starts_with('-')).collect();
        into(&mut uses, target, &files, scope);
    }
    uses
}

fn push(uses: &mut Vec<PathUse>, access: Access, scope: Scope, word: &Word, path: &str) {
    uses.push(used(access, scope, word, path));
}

fn used(access: Access, scope: Scope, word: &Word, path: &str) -> PathUse {
    // `curl -d @FILE`
    let path = path.strip_prefix('@').unwrap_or(path);
    let is_known = !word.is_unknown && !path.is_empty();
    let known = is_known.then(|| super::analysis::tilde(word, path));
    let glob = if word.is_unknown { pattern(word) } else { None };
    PathUse { access, path: known, glob, scope }
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
