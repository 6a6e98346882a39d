//! How much is compiled and imported: a crate that only has tools, a program with the default features, and the prelude.
//!
//! Lines that begin with `figure:` are those of `scripts/figures`.

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

use crate::WORKSPACE;

/// The most packages that the author of a tool compiles.
const MAX_PACKAGES: usize = 60;

/// The most packages that a program with the default features compiles.
const MAX_DEFAULT_PACKAGES: usize = 130;

/// The most names that the prelude imports.
const MAX_PRELUDE_NAMES: usize = 30;

#[test]
fn a_program_with_the_default_features_compiles_neither_a_second_http_client_nor_a_schema_validator()
 {
    let packages = tree("loopwright", &[]);
    let heavy = ["reqwest ", "hyper ", "jsonschema "];
    let heavy: Vec<&String> =
        packages.iter().filter(|it| heavy.iter().any(|name| it.starts_with(name))).collect();
    assert_eq!(heavy, Vec::<&String>::new());
    println!("figure: packages of the default features: {}", packages.len());
    assert!(packages.len() <= MAX_DEFAULT_PACKAGES, "{} packages: {packages:#?}", packages.len());
}

#[test]
fn the_author_of_a_tool_compiles_at_most_sixty_packages_and_no_schema_validator() {
    let mut packages = tree("loopwright-core", &["--no-default-features"]);
    packages.extend(tree("loopwright-macros", &["--no-default-features"]));
    assert!(packages.iter().any(|it| it.starts_with("loopwright-core ")), "{packages:#?}");
    let heavy: Vec<&String> = packages.iter().filter(|it| it.starts_with("jsonschema")).collect();
    assert_eq!(heavy, Vec::<&String>::new());
    println!("figure: packages of a tool's author: {}", packages.len());
    assert!(packages.len() <= MAX_PACKAGES, "{} packages: {packages:#?}", packages.len());
}

#[test]
fn the_prelude_imports_at_most_thirty_names() {
    let library = Path::new(WORKSPACE).join("crates/loopwright/src/lib.rs");
    let text = fs::read_to_string(library).unwrap();
    let (_, prelude) = text.split_once("\npub mod prelude {\n").unwrap();
    let names = imported(prelude.split("\n}\n").next().unwrap());
    println!("figure: names of the prelude: {}", names.len());
    assert!(names.contains(&"AgentBuilder".to_owned()), "{names:?}");
    assert!(names.len() <= MAX_PRELUDE_NAMES, "{} names: {names:?}", names.len());
}

#[test]
fn names_in_groups_and_behind_features_are_counted() {
    let text =
        "pub use a::b;\n#[cfg(feature = \"x\")]\npub use c::{d, e::{F, g::H}};\nuse not::this;";
    assert_eq!(imported(text), ["b", "d", "F", "H"]);
}

/// Returns the names that `pub use` brings in, in order.
fn imported(text: &str) -> Vec<String> {
    let statements = text.split("pub use ").skip(1);
    let trees = statements.map(|it| it.split(';').next().unwrap());
    let leaves = trees.flat_map(|tree| tree.split([',', '{', '}']));
    // What leads to a group ends with `::`.
    let names = leaves.map(str::trim).filter(|leaf| !leaf.is_empty() && !leaf.ends_with("::"));
    names.map(|leaf| leaf.rsplit("::").next().unwrap().to_owned()).collect()
}

/// Returns what a crate compiles.
fn tree(package: &str, features: &[&str]) -> BTreeSet<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "-p", package, "-e", "normal", "--prefix", "none"])
        .args(features)
        .current_dir(WORKSPACE)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect()
}
