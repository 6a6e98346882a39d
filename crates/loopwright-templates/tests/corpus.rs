//! Files as people and other programs write them. Beside each is what becomes of it: the definition
//! with what is odd about it, or everything that is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use loopwright_templates::{DefinitionFormat, DefinitionLoader, Diagnostic, LoadedDefinition};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
const KINDS: [&str; 5] = ["good", "odd", "claude", "hooks", "broken"];

/// The loader of a file: in the folder `hooks`, the program runs hooks and keeps memories.
fn loader(path: &Path) -> DefinitionLoader {
    let loader = DefinitionLoader::new().with_providers(["acme"]).with_model("fast", "acme/small");
    let has_hooks = path.parent().is_some_and(|it| it.ends_with("hooks"));
    if has_hooks { loader.with_hooks(["PreToolUse", "Stop"]).with_memory() } else { loader }
}

fn files() -> Vec<PathBuf> {
    let folder = |kind: &str| fs::read_dir(Path::new(CORPUS).join(kind)).unwrap();
    let entries = KINDS.into_iter().flat_map(folder).map(|it| it.unwrap().path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    files
}

fn is_expectation(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "expected")
}

fn expectation(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".expected");
    name.into()
}

fn outcome(path: &Path) -> String {
    match loader(path).load(path) {
        Ok(LoadedDefinition { definition, warnings }) => {
            told("warning", &warnings) + &DefinitionFormat::Markdown.write(&definition)
        }
        Err(error) => told("error", &error.problems),
    }
}

fn told(kind: &str, problems: &[Diagnostic]) -> String {
    let lines: Vec<String> = problems.iter().map(|it| format!("{kind}: {it}\n")).collect();
    lines.concat()
}

#[test]
fn every_file_becomes_what_is_expected_of_it() {
    let files: Vec<PathBuf> = files().into_iter().filter(|it| !is_expectation(it)).collect();
    assert!(files.len() >= 60, "{}", files.len());
    let mut differences = Vec::new();
    for path in &files {
        let (expected, outcome) = (fs::read_to_string(expectation(path)), outcome(path));
        match expected {
            Ok(expected) if expected == outcome => {}
            Ok(expected) => differences.push(format!(
                "=== {}\n--- expected\n{expected}--- became\n{outcome}",
                path.display()
            )),
            Err(_) => differences
                .push(format!("=== {}\n--- without expectation\n{outcome}", path.display())),
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

#[test]
fn every_expectation_has_its_file() {
    let files = files();
    let lost = files.iter().filter(|it| is_expectation(it) && !it.with_extension("").exists());
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}

#[test]
fn a_valid_definition_round_trips_in_every_format() {
    for path in files().into_iter().filter(|it| !is_expectation(it)) {
        let Ok(loaded) = loader(&path).load(&path) else { continue };
        for format in DefinitionFormat::ALL {
            let text = format.write(&loaded.definition);
            let again = loader(&path).read(format.extension(), &text).unwrap();
            let expect = LoadedDefinition { warnings: Vec::new(), ..loaded.clone() };
            assert_eq!(again, expect, "{}\n{text}", path.display());
        }
    }
}

#[test]
fn files_are_good_or_broken_as_their_folder_says() {
    for path in files().into_iter().filter(|it| !is_expectation(it)) {
        let loaded = loader(&path).load(&path).map(|it| it.warnings.len());
        let fits = match path.parent().and_then(Path::file_name).and_then(|it| it.to_str()) {
            Some("good") => loaded == Ok(0),
            Some("broken") => loaded.is_err(),
            Some("hooks") => true,
            _ => loaded.is_ok(),
        };
        assert!(fits, "{}: {loaded:?}", path.display());
    }
}

/// What is JSON is YAML too.
#[test]
fn json_is_read_as_strictly_as_yaml() {
    let text = |metadata: &str| {
        format!(
            "{{\n\"name\": \"a\", \"description\": \"A\", \"systemPrompt\": \"Go.\",\n\"metadata\": {{\n\
             \"in\": {metadata}}}}}"
        )
    };
    let read = |extension: &str, metadata: &str| {
        let read = loader(Path::new("text")).read(extension, &text(metadata));
        read.map(|it| it.definition).map_err(|it| it.to_string().replace("YAML", "JSON"))
    };
    for levels in [1, 29, 30, 31, 32, 126, 200] {
        let lists = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let maps = format!("{}1{}", "{\"k\": ".repeat(levels), "}".repeat(levels));
        for metadata in [lists, maps] {
            let json = read("json", &metadata);
            assert_eq!(json, read("yaml", &metadata), "{levels}");
            assert_eq!(json.is_ok(), levels <= 30, "{levels}");
        }
    }
    let repeated = "[1, [{ \"k\": 1,\n\"l\": 1, \"k\": 2 }]]";
    let expect = "text: line 5: `k` occurs more than once; keep one";
    assert_eq!(read("json", repeated), Err(expect.to_owned()));
    assert_eq!(read("yaml", repeated), Err(expect.to_owned()));
}
