//! Words that messages, pages and documentation do not use, each with what to write instead.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::WORKSPACE;

/// Words for people who are not there. Name the caller, the process, the user or the model.
const EVERYWHERE: &[(&str, &str)] = &[
    ("whoever", "the caller, the process, the user"),
    ("nobody", "no caller; `None`"),
    ("no one", "no caller; `None`"),
    ("somebody", "a caller, another process"),
    ("someone", "a caller, another process"),
    ("everybody", "every caller"),
    ("tells whether", "returns `true` if"),
    ("says whether", "returns `true` if"),
];

/// Phrases that are wrong in what users and models read.
const READ: &[(&str, &str)] = &[
    ("is told", "receives, sees"),
    ("are told", "receive, see"),
    ("was told", "received"),
    ("so many", "this number of"),
    ("so much", "this amount of"),
    ("anew", "again; rebuilt"),
    ("makes no sense", "is malformed, is invalid"),
    ("make no sense", "are malformed, are invalid"),
    ("is not understood", "is not supported, cannot be parsed"),
    ("cannot be understood", "cannot be parsed"),
    ("broke off", "was cut off, was lost"),
    ("goes on with", "continues with"),
    ("go on with", "continue with"),
    ("summed up", "summarized"),
    ("sums up", "summarizes"),
    ("put together", "built, composed"),
    ("in the place of", "instead of; replaces"),
    ("let go", "ignored, released"),
    ("used up", "reached"),
    ("is not known", "is unknown"),
    ("are not known", "are unknown"),
    ("asked for no", "requested no"),
    ("not asked for", "not requested"),
    ("there has to be", "there must be"),
    ("it has to be", "it must be"),
    ("is no list", "is not a list"),
    ("is no object", "is not an object"),
    ("is no number", "is not a number"),
    ("is no text", "is not a string"),
    ("is no file", "is not a file"),
    ("is no directory", "is not a directory"),
    ("is no host", "is not a host"),
    ("is no status", "is not a status"),
    ("is no session", "is not a session"),
    ("is no recording", "is not a recording"),
    ("are no object", "are not an object"),
    ("there is no tool named", "unknown tool"),
    ("there is no session named", "unknown session"),
    ("what becomes of", "the status of, the effect of"),
];

/// Pages outside of `docs` and the root.
const ELSEWHERE: [&str; 5] = [
    "benches/peers/README.md",
    "crates/loopwright-macros/src/tool.md",
    "crates/loopwright-permissions/README.md",
    "crates/loopwright-sandbox/README.md",
    "crates/loopwright-testing/scenarios/README.md",
];

/// Pages that quote others, or list what changed.
const OTHERS: &[&str] = &["docs/seed-map.md"];

#[test]
fn messages_name_who_acts_and_use_plain_words() {
    let mut found = String::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (line, message) in messages(without_tests(&text)) {
            report(&mut found, &path, line, &message, &[EVERYWHERE, READ]);
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn pages_name_who_acts_and_use_plain_words() {
    let mut found = String::new();
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let mut in_code = false;
        for (number, line) in text.lines().enumerate() {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            if !in_code && !is_fence {
                report(&mut found, &path, number + 1, line, &[EVERYWHERE, READ]);
            }
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn documentation_of_code_names_who_acts() {
    let mut found = String::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in without_tests(&text).lines().enumerate() {
            let line = line.trim_start();
            if let Some(said) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
                report(&mut found, &path, number + 1, said, &[EVERYWHERE]);
            }
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn a_phrase_is_found_as_whole_words_in_messages_only() {
    let source = "//! nobody\nfn f() { \"Nobody is\\\n    here\"; r#\"so \"many\"\"#; 'x'; \"manyana\" }\n// somebody\n";
    let messages = messages(source);
    assert_eq!(
        messages,
        [
            (2, "Nobody is here".to_owned()),
            (3, "so \"many\"".to_owned()),
            (3, "manyana".to_owned())
        ]
    );
    let mut found = String::new();
    for (line, message) in &messages {
        report(
            &mut found,
            Path::new("f.rs"),
            *line,
            message,
            &[EVERYWHERE, &[("many", "several")]],
        );
    }
    let expect = "f.rs:2: not `nobody` but: no caller; `None`\nf.rs:3: not `many` but: several\n";
    assert_eq!(found, expect);
}

#[test]
fn only_a_module_of_tests_in_the_file_itself_is_left_out() {
    let declared = "#[cfg(test)]\nmod tests;\n\nfn f() {}\n";
    assert_eq!(without_tests(declared), declared);
    let inline = "fn f() {}\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(without_tests(inline), "fn f() {}\n");
}

/// Adds a line for each phrase that a text contains as whole words.
fn report(found: &mut String, path: &Path, line: usize, text: &str, tables: &[&[(&str, &str)]]) {
    let text = text.to_lowercase();
    for (phrase, instead) in tables.iter().flat_map(|table| table.iter()) {
        if contains(&text, phrase) {
            let path = path.strip_prefix(WORKSPACE).unwrap_or(path).display();
            writeln!(found, "{path}:{line}: not `{phrase}` but: {instead}").unwrap();
        }
    }
}

fn contains(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Returns the string literals of a source with their lines. Literals that span lines are joined.
fn messages(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut line, mut rest) = (1, source);
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some((literal, length)) = raw(rest) {
            push(&mut found, line, literal);
            length
        } else if first == '"' {
            let length = quoted(rest);
            push(&mut found, line, &joined(&rest[1..length - 1]));
            length
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphanumeric() || first == '_' {
            rest.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (passed, left) = rest.split_at(skipped);
        line += passed.matches('\n').count();
        rest = left;
    }
    found
}

fn push(found: &mut Vec<(usize, String)>, line: usize, literal: &str) {
    if !literal.is_empty() {
        found.push((line, literal.to_owned()));
    }
}

/// Returns the content and the length of a raw string at the beginning of a text.
fn raw(text: &str) -> Option<(&str, usize)> {
    let hashes = text.strip_prefix('r').or_else(|| text.strip_prefix("br"))?;
    let opened = hashes.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(hashes.len() - opened.len()));
    let content = opened.strip_prefix('"')?;
    let length = content.find(&end)?;
    let start = text.len() - content.len();
    Some((&content[..length], start + length + end.len()))
}

/// Returns the length of a quoted string at the beginning of a text.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Joins a string that continues on the next line.
fn joined(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{} {}", text.trim_end(), part.trim_start()))
}

/// Returns the length of a character literal, or of the mark of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => text[3..].find('\'').map_or(text.len(), |at| at + 4),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns a source without its module of tests, where that is the end of the file.
fn without_tests(source: &str) -> &str {
    let is_inline = |at: &usize| {
        let declaration = source[*at..].lines().nth(1).unwrap_or_default();
        declaration.ends_with('{')
    };
    let mut modules = source.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at);
    modules.find(is_inline).map_or(source, |at| &source[..at])
}

/// The sources of all crates, without tests.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(WORKSPACE).join("crates")).unwrap() {
        files(&entry.unwrap().path().join("src"), "rs", &mut found);
    }
    found.retain(|path| {
        const TESTS: [&str; 5] =
            ["tests", "tests.rs", "conformance", "conformance.rs", "fake_server.rs"];
        !path.iter().any(|part| part.to_str().is_some_and(|part| TESTS.contains(&part)))
    });
    assert!(found.len() > 500, "{}", found.len());
    found
}

/// The pages of the documentation, and those at the root.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(WORKSPACE);
    let mut found: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect();
    found.extend(ELSEWHERE.iter().map(|page| root.join(page)));
    files(&root.join("docs"), "md", &mut found);
    found.retain(|path| !OTHERS.iter().any(|other| path.ends_with(other)));
    assert!(found.len() > 60, "{}", found.len());
    found
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
}
