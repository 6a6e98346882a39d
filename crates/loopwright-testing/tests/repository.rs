//! Rules about the files of the repository.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::WORKSPACE;

/// The longest a source file may be without a reason.
const LINES: usize = 600;

/// How many lines an example must not have.
const EXAMPLE_LINES: usize = 60;

#[test]
fn a_long_source_file_says_why() {
    let mut sources = Vec::new();
    for member in crates().unwrap() {
        files(&member.join("src"), &mut sources).unwrap();
        let mut tests = Vec::new();
        if member.join("tests").exists() {
            files(&member.join("tests"), &mut tests).unwrap();
        }
        // What tests compare with is not read from top to bottom.
        sources.extend(tests.into_iter().filter(|path| is_rust(path)));
    }
    assert!(!sources.is_empty());
    let problems: Vec<String> = sources
        .iter()
        .filter(|path| is_too_long(&String::from_utf8_lossy(&fs::read(path).unwrap())))
        .map(|path| format!("{}: over {LINES} lines", path.display()))
        .collect();
    assert!(
        problems.is_empty(),
        "\n{}\nSplit it by its ideas, or say `long because …` within its first five lines.",
        problems.join("\n")
    );
}

#[test]
fn every_example_is_read_in_a_minute() {
    let mut examples = Vec::new();
    files(&Path::new(WORKSPACE).join("examples"), &mut examples).unwrap();
    examples.retain(|path| is_rust(path));
    assert!(!examples.is_empty());
    examples.retain(|path| fs::read_to_string(path).unwrap().lines().count() >= EXAMPLE_LINES);
    assert!(examples.is_empty(), "{EXAMPLE_LINES} lines or more: {examples:#?}");
}

#[test]
fn every_test_file_is_part_of_its_binary() {
    let mut problems = Vec::new();
    for member in crates().unwrap() {
        let tests = member.join("tests");
        let Ok(main) = fs::read_to_string(tests.join("main.rs")) else { continue };
        for entry in fs::read_dir(&tests).unwrap() {
            let path = entry.unwrap().path();
            if is_forgotten(&path, &main) {
                problems.push(format!("{}: no `mod` in main.rs names it", path.display()));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn every_process_test_is_a_module_of_tests() {
    let list = fs::read_to_string(Path::new(WORKSPACE).join("scripts/process-tests")).unwrap();
    let lines: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(!lines.is_empty());
    for line in lines {
        let (package, module) = line.split_once(' ').unwrap();
        let member = match package {
            "loopwright-survival" => Path::new(WORKSPACE).join("tests/survival"),
            _ => Path::new(WORKSPACE).join("crates").join(package),
        };
        let file = member.join("tests").join(module.replace("::", "/")).with_extension("rs");
        assert!(file.exists(), "{line}: there is no {}", file.display());
    }
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let without: Vec<PathBuf> = crates()
        .unwrap()
        .into_iter()
        .map(|member| member.join("Cargo.toml"))
        .filter(|path| !fs::read_to_string(path).unwrap().contains("\n[lints]\nworkspace = true\n"))
        .collect();
    assert!(without.is_empty(), "without `[lints] workspace = true`: {without:#?}");
}

#[test]
fn a_file_at_the_limit_is_not_too_long() {
    assert!(!is_too_long(&"//\n".repeat(LINES)));
    assert!(is_too_long(&"//\n".repeat(LINES + 1)));
}

#[test]
fn only_a_reason_near_the_top_excuses_a_long_file() {
    let long = |before: &str| is_too_long(&(before.to_owned() + &"//\n".repeat(LINES)));
    assert!(!long("//! The table of flags.\n//!\n//! It is long because it lists every flag.\n"));
    assert!(long("// long because\n"));
    assert!(long("// long because.\n"));
    assert!(long("\n\n\n\n\n// long because it lists every flag\n"));
}

#[test]
fn a_test_file_without_a_mod_is_forgotten() {
    let main = "//! All of them.\nmod ladder;\npub(crate) mod map;\n// mod gone;\n";
    let is_forgotten = |name: &str| is_forgotten(Path::new(name), main);
    assert!(!is_forgotten("tests/ladder.rs"));
    assert!(!is_forgotten("tests/map.rs"));
    assert!(!is_forgotten("tests/main.rs"));
    assert!(!is_forgotten("tests/fixtures"));
    assert!(is_forgotten("tests/ladders.rs"));
    assert!(is_forgotten("tests/gone.rs"));
}

fn is_too_long(text: &str) -> bool {
    let reason =
        text.lines().take(5).find_map(|line| Some(line.split_once("long because")?.1.trim()));
    text.lines().count() > LINES
        && !reason.is_some_and(|reason| reason.contains(char::is_alphabetic))
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// Whether a file beside `main.rs` would never be compiled.
fn is_forgotten(path: &Path, main: &str) -> bool {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return true };
    let declaration = format!("mod {stem};");
    is_rust(path)
        && stem != "main"
        && !main.lines().any(|line| {
            let line = line.trim();
            line.ends_with(&declaration) && !line.starts_with("//")
        })
}

/// The folders of the workspace's crates.
fn crates() -> io::Result<Vec<PathBuf>> {
    fs::read_dir(Path::new(WORKSPACE).join("crates"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().map_or(true, |path| path.join("Cargo.toml").exists()))
        .collect()
}

/// Adds every file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}
