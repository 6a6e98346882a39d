//! The map of the code names what exists: all of the core, and the modules of every other crate.

use std::{collections::BTreeSet, fs, path::Path};

use crate::WORKSPACE;

const PAGE: &str = "ARCHITECTURE.md";

/// The longest line of the page, in characters. A longer one is an unreadable row.
const MAX_LINE: usize = 350;

#[test]
fn every_crate_has_a_row_in_the_table_of_floors() {
    let page = page();
    let missing: Vec<String> = fs::read_dir(Path::new(WORKSPACE).join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !page.lines().any(|line| line.starts_with("| ") && has_code(line, name)))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_file_that_the_code_map_names_exists() {
    let page = page();
    let unknown = unknown(code_map(&page));
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn every_module_of_the_core_is_in_the_code_map() {
    let page = page();
    let section = code_map(&page);
    let source = Path::new(WORKSPACE).join("crates/loopwright-core/src");
    let mut files = files(&source);
    // Parts of a tool and of a hook are told of as a whole.
    files.retain(|it| !it.starts_with("contract/tool/") && !it.starts_with("contract/hook/"));
    files.remove("lib.rs");
    let missing: Vec<String> = files
        .into_iter()
        .filter(|file| !file.ends_with("tests.rs"))
        .filter(|file| {
            let name = file.rsplit('/').next().unwrap();
            !has_code(section, name) && !section.contains(&format!("src/{file}"))
        })
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_module_of_a_crate_is_in_its_section_of_the_code_map() {
    let page = page();
    let map = code_map(&page);
    let mut missing = Vec::new();
    for entry in fs::read_dir(Path::new(WORKSPACE).join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let section = section(map, name);
        for module in modules(&folder.join("src")) {
            if !has_code(section, &module) {
                missing.push(format!("{name}: {module}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn no_line_is_a_paragraph_of_files() {
    let page = page();
    let long: Vec<&str> = page.lines().filter(|line| line.chars().count() > MAX_LINE).collect();
    assert_eq!(long, Vec::<&str>::new());
}

#[test]
fn a_module_that_only_another_section_names_is_missing() {
    let map = "\n### `one`\n\n| `a.rs` | x |\n\n### `two`\n\n| `b.rs` | y |\n";
    assert!(has_code(section(map, "one"), "a.rs"));
    assert!(!has_code(section(map, "one"), "b.rs"));
    assert!(!has_code(section(map, "three"), "b.rs"));
}

#[test]
fn a_file_that_does_not_exist_is_unknown() {
    let map =
        "`crates/loopwright-core/src`: `value/clock.rs`, `run/`, `gone.rs`, `state/clock.rs`.";
    assert_eq!(unknown(map), ["gone.rs", "state/clock.rs"]);
    assert_eq!(unknown("`crates/gone/src`: `lib.rs`"), ["crates/gone/src", "lib.rs"]);
}

fn page() -> String {
    fs::read_to_string(Path::new(WORKSPACE).join(PAGE)).unwrap()
}

fn code_map(page: &str) -> &str {
    let (_, after) = page.split_once("## Code map").unwrap();
    after.split("\n## ").next().unwrap()
}

/// Returns the section of a crate, which is empty if the map has none.
fn section<'a>(map: &'a str, name: &str) -> &'a str {
    let (_, after) = map.split_once(&format!("\n### `{name}`\n")).unwrap_or_default();
    after.split("\n### ").next().unwrap_or_default()
}

/// Returns the files directly below a folder of sources that are modules with an idea of their own. In the
/// core, these are the layers, which are linked by their folders.
fn modules(source: &Path) -> Vec<String> {
    let entries = fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path());
    let is_layer =
        |path: &Path| source.ends_with("loopwright-core/src") && path.with_extension("").is_dir();
    entries
        .filter(|path| path.is_file() && !is_layer(path))
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .filter(|name| !["lib.rs", "main.rs", "tests.rs"].contains(&name.as_str()))
        .collect()
}

fn has_code(text: &str, name: &str) -> bool {
    text.contains(&format!("`{name}`"))
}

/// Returns the files and folders that a map names and that do not exist. They are below the folder of
/// sources that was named last, at any depth.
fn unknown(map: &str) -> Vec<String> {
    let mut below = BTreeSet::new();
    let mut unknown = Vec::new();
    for code in map.split('`').skip(1).step_by(2) {
        let path = Path::new(WORKSPACE).join(code);
        if code.starts_with("crates/") && !path.exists() {
            unknown.push(code.to_owned());
            below.clear();
            continue;
        }
        if code.contains('/') && path.exists() {
            // A folder of sources belongs to its crate, whose tests and other files are named as well.
            let base = path.ancestors().find(|it| it.join("Cargo.toml").exists()).unwrap();
            below = if base.ends_with("..") { BTreeSet::new() } else { files(base) };
            continue;
        }
        let is_path = [".rs", ".toml", "/"].iter().any(|end| code.ends_with(end));
        if !is_path || code.contains(' ') {
            continue;
        }
        let is_named = |file: &String| {
            let file = format!("/{file}");
            let code = format!("/{code}");
            if code.ends_with('/') { file.contains(&code) } else { file.ends_with(&code) }
        };
        if !below.iter().any(is_named) {
            unknown.push(code.to_owned());
        }
    }
    unknown
}

/// Returns the files below a folder, by their paths from there.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let path = path.strip_prefix(folder).unwrap();
                found.insert(path.to_str().unwrap().to_owned());
            }
        }
    }
    found
}
