//! A crate that only has tools compiles little.

use std::{collections::BTreeSet, env, process::Command};

use crate::WORKSPACE;

/// The most packages that the author of a tool compiles.
const MAX_PACKAGES: usize = 60;

#[test]
fn the_author_of_a_tool_compiles_at_most_sixty_packages_and_no_schema_validator() {
    let mut packages = tree("loopwright-core");
    packages.extend(tree("loopwright-macros"));
    assert!(packages.iter().any(|it| it.starts_with("loopwright-core ")), "{packages:#?}");
    let heavy: Vec<&String> = packages.iter().filter(|it| it.starts_with("jsonschema")).collect();
    assert_eq!(heavy, Vec::<&String>::new());
    assert!(packages.len() <= MAX_PACKAGES, "{} packages: {packages:#?}", packages.len());
}

/// Returns what a crate compiles without its default features.
fn tree(package: &str) -> BTreeSet<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "-p", package, "--no-default-features"])
        .args(["-e", "normal", "--prefix", "none"])
        .current_dir(WORKSPACE)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}
