//! What only Unix or Linux has is used behind a `cfg`, in the crates that exist on other systems too.
//!
//! No other system builds the workspace, so the sources are read instead.

use std::{fs, path::Path};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::WORKSPACE;

/// The crates that README lists for all systems.
const CRATES: &[&str] = &[
    "agent",
    "broadcast",
    "capabilities",
    "core",
    "macros",
    "messages",
    "models",
    "permissions",
    "sandbox",
    "sessions",
    "testing",
];

/// Paths that begin like this exist on Unix or Linux only.
const SPECIAL: &[&str] =
    &["std::os::unix", "std::os::linux", "std::os::fd", "tokio::net::Unix", "libc::", "rustix::"];

#[test]
fn paths_of_one_system_are_gated_in_crates_for_all_systems() {
    let mut found = Vec::new();
    let mut files = 0;
    for name in CRATES {
        let folder = Path::new(WORKSPACE).join(format!("crates/loopwright-{name}/src"));
        let read = |path: &str| fs::read_to_string(folder.join(path)).ok();
        let mut scan = Scan { read: &read, found: Vec::new(), files: 0 };
        scan.file("lib.rs", "");
        files += scan.files;
        found.extend(scan.found.into_iter().map(|it| format!("{name}/src/{it}")));
    }
    assert!(files > 300, "{files} files");
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_gate_covers_its_item_with_all_that_is_in_it_and_no_other() {
    let found = |files: &[(&str, &str)]| {
        let read = |path: &str| files.iter().find(|it| it.0 == path).map(|it| it.1.to_owned());
        let mut scan = Scan { read: &read, found: Vec::new(), files: 0 };
        scan.file("lib.rs", "");
        scan.found
    };
    let path = "use std::os::unix::fs::MetadataExt as _;";
    let bare = ["lib.rs: std::os::unix"];
    assert_eq!(found(&[("lib.rs", path)]), bare);
    assert_eq!(found(&[("lib.rs", "fn f() { { libc::close(1) } }")]), ["lib.rs: libc::"]);
    assert_eq!(found(&[("lib.rs", "use std::{io, os::unix::fs::OpenOptionsExt};")]), bare);
    for gate in
        ["#[cfg(unix)]", "#[cfg(all(feature = \"a\", target_os = \"linux\"))]", "#[cfg(test)]"]
    {
        assert_eq!(found(&[("lib.rs", &format!("{gate} {path}"))]), [""; 0]);
        assert_eq!(found(&[("lib.rs", &format!("{gate} mod a;")), ("a.rs", path)]), [""; 0]);
        let after = format!("{gate} fn f(a: u8) -> u8 {{ a }} {path}");
        assert_eq!(found(&[("lib.rs", &after)]), bare);
    }
    for gate in ["#[cfg(not(unix))]", "#[cfg_attr(unix, must_use)]", "#[must_use]"] {
        assert_eq!(found(&[("lib.rs", &format!("{gate} {path}"))]), bare);
    }
    let nested = [("lib.rs", "mod a;"), ("a.rs", "mod b;"), ("a/b.rs", path)];
    assert_eq!(found(&nested), ["a/b.rs: std::os::unix"]);
}

/// Reads the files of a crate that exist on all systems.
struct Scan<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    found: Vec<String>,
    files: usize,
}

impl Scan<'_> {
    /// Reads a file, whose modules are in a folder.
    fn file(&mut self, file: &str, folder: &str) {
        let text = (self.read)(file).unwrap_or_else(|| panic!("no file {file}"));
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.files += 1;
        self.tokens(file, folder, tokens);
    }

    fn tokens(&mut self, file: &str, folder: &str, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match (token, tokens.get(at + 1), tokens.get(at + 2)) {
                (TokenTree::Punct(mark), Some(TokenTree::Group(attribute)), _)
                    if mark.as_char() == '#' =>
                {
                    at += 2;
                    if is_gate(attribute) {
                        at = after_item(&tokens, at);
                    }
                    continue;
                }
                (
                    TokenTree::Ident(word),
                    Some(TokenTree::Ident(name)),
                    Some(TokenTree::Punct(_)),
                ) if word == "mod" => {
                    self.module(&format!("{folder}{name}"));
                }
                (TokenTree::Ident(word), ..) if word == "use" => {
                    let end = after_item(&tokens, at);
                    let item: String = tokens[at + 1..end].iter().map(text).collect();
                    self.import(file, &item);
                    at = end;
                    continue;
                }
                (TokenTree::Ident(_), ..) => {
                    let path: String = tokens[at..].iter().take(8).map(text).collect();
                    self.path(file, &path);
                }
                (TokenTree::Group(group), ..) => self.tokens(file, folder, group.stream()),
                _ => {}
            }
            at += 1;
        }
    }

    fn module(&mut self, path: &str) {
        let file = format!("{path}.rs");
        self.file(&file, &format!("{path}/"));
    }

    /// Notes an import, with what it takes from `std` in braces.
    fn import(&mut self, file: &str, item: &str) {
        self.path(file, item);
        if let Some((_, rest)) = item.split_once("std::{") {
            for part in rest.split([',', '{']) {
                self.path(file, &format!("std::{part}"));
            }
        }
    }

    fn path(&mut self, file: &str, path: &str) {
        if let Some(special) = SPECIAL.iter().find(|it| path.starts_with(**it)) {
            self.found.push(format!("{file}: {special}"));
        }
    }
}

fn text(token: &TokenTree) -> String {
    token.to_string().split_whitespace().collect()
}

/// Returns `true` for an attribute that leaves its item out on other systems, or outside of tests.
fn is_gate(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    let words = ["unix", "target_os=\"linux\"", "test"];
    text.starts_with("cfg(")
        && !text.contains("not(")
        && words.iter().any(|word| text.contains(word))
}

/// Returns the place after an item, a statement, a field or an arm.
fn after_item(tokens: &[TokenTree], at: usize) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(it) => matches!(it.as_char(), ';' | ','),
        TokenTree::Group(it) => it.delimiter() == Delimiter::Brace,
        _ => false,
    };
    // An import and an initialiser have braces before their end.
    let is_long = tokens[at..].iter().take(3).any(|it| ["use", "let"].contains(&&*it.to_string()));
    let is_end = |token: &TokenTree| {
        if is_long { token.to_string() == ";" } else { is_end(token) }
    };
    tokens[at..].iter().position(is_end).map_or(tokens.len(), |length| at + length + 1)
}
