//! The recipes of CONTRIBUTING.md name files that exist. `NAME` stands for any file or folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use loopwright_models::WireApi;

use crate::WORKSPACE;

#[test]
fn recipes_name_files_that_exist() {
    let page = fs::read_to_string(Path::new(WORKSPACE).join("CONTRIBUTING.md")).unwrap();
    let recipes: Vec<&str> = page.split("\n### Add ").skip(1).collect();
    assert_eq!(recipes.len(), 4);
    for recipe in recipes {
        // The text up to the next heading.
        let recipe = recipe.split("\n## ").next().unwrap();
        let paths = paths(recipe);
        assert!(paths.len() > 5, "{recipe}");
        let home = paths.iter().find_map(|it| Some(it.split_once("/src")?.0)).unwrap();
        let bases = ["", home, &format!("{home}/src"), &format!("{home}/src/NAME")];
        let exists = |path: &&str| {
            let mut bases = bases.iter();
            bases.any(|base| !matching(Path::new(WORKSPACE), &format!("{base}/{path}")).is_empty())
        };
        let missing: Vec<&&str> = paths.iter().filter(|path| !exists(path)).collect();
        assert_eq!(missing, Vec::<&&str>::new(), "Add {}", recipe.lines().next().unwrap());
    }
}

#[test]
fn name_stands_for_one_part_of_a_path() {
    let src = Path::new(WORKSPACE).join("crates/loopwright-models/src");
    assert!(matching(&src, "NAME/decode/tests.rs").contains(&src.join("cohere/decode/tests.rs")));
    assert_eq!(matching(&src, "NAME.toml").len(), 2);
    assert_eq!(matching(&src, "decode/tests.rs"), Vec::<PathBuf>::new());
}

#[test]
fn each_wire_has_a_fuzz_target_and_a_stream_in_the_bench() {
    let read = |path: &str| fs::read_to_string(Path::new(WORKSPACE).join(path)).unwrap();
    let (manifest, script) = (read("fuzz/Cargo.toml"), read("scripts/fuzz"));
    let bench = read("crates/loopwright-models/benches/wires.rs");
    let targets: Vec<&str> =
        script.lines().filter(|line| line.starts_with("targets=")).flat_map(words).collect();
    let mut missing = Vec::new();
    for wire in WireApi::ALL.iter().map(|wire| wire.name()) {
        let path = format!("fuzz_targets/{wire}.rs");
        let has_target = Path::new(WORKSPACE).join("fuzz").join(&path).exists();
        // The bench does not build the frames of Bedrock.
        let has_stream = wire == "bedrock-converse" || bench.contains(&format!("{wire:?} => ("));
        let found = [
            (has_target, "a file in fuzz/fuzz_targets"),
            (manifest.contains(&format!("path = {path:?}")), "a [[bin]] in fuzz/Cargo.toml"),
            (targets.contains(&wire), "a target in scripts/fuzz"),
            (has_stream, "a stream in benches/wires.rs"),
        ];
        let lacking = found.into_iter().filter(|(is_there, _)| !is_there);
        missing.extend(lacking.map(|(_, what)| format!("{wire}: {what}")));
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Returns the words of a line of a script.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '}'])
}

/// Returns what is written as code and is a path to a file or a folder.
fn paths(text: &str) -> Vec<&str> {
    let is_path = |it: &&str| {
        let is_file = [".rs", ".md", ".toml", "/"].iter().any(|end| it.ends_with(end));
        is_file && !it.contains([' ', ':'])
    };
    text.split('`').skip(1).step_by(2).filter(is_path).collect()
}

/// Returns the files and folders below a folder that a path with `NAME` in it can mean.
fn matching(folder: &Path, path: &str) -> Vec<PathBuf> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(vec![folder.to_owned()], |found, part| {
        let Some((start, end)) = part.split_once("NAME") else {
            return found.iter().map(|it| it.join(part)).filter(|it| it.exists()).collect();
        };
        let entries = found.iter().filter_map(|it| fs::read_dir(it).ok()).flatten().flatten();
        let is_meant = |path: &PathBuf| {
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        };
        entries.map(|entry| entry.path()).filter(is_meant).collect()
    })
}
