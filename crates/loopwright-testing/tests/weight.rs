//! How much is compiled: a crate that only has tools, and a program with the default features.

use std::{collections::BTreeSet, env, process::Command};

use crate::WORKSPACE;

/// The most packages that the author of a tool compiles.
const MAX_PACKAGES: usize = 60;

/// The most packages that a program with the default features compiles.
const MAX_DEFAULT_PACKAGES: usize = 130;

#[test]
fn a_program_with_the_default_features_compiles_neither_a_second_http_client_nor_a_schema_validator()
 {
    let packages = tree("loopwright", &[]);
    let heavy = ["reqwest ", "hyper ", "jsonschema "];
    let heavy: Vec<&String> =
        packages.iter().filter(|it| heavy.iter().any(|name| it.starts_with(name))).collect();
    assert_eq!(heavy, Vec::<&String>::new());
    assert!(packages.len() <= MAX_DEFAULT_PACKAGES, "{} packages: {packages:#?}", packages.len());
}

#[test]
fn the_author_of_a_tool_compiles_at_most_sixty_packages_and_no_schema_validator() {
    let mut packages = tree("loopwright-core", &["--no-default-features"]);
    packages.extend(tree("loopwright-macros", &["--no-default-features"]));
    assert!(packages.iter().any(|it| it.starts_with("loopwright-core ")), "{packages:#?}");
    let heavy: Vec<&String> = packages.iter().filter(|it| it.starts_with("jsonschema")).collect();
    assert_eq!(heavy, Vec::<&String>::new());
    assert!(packages.len() <= MAX_PACKAGES, "{} packages: {packages:#?}", packages.len());
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
