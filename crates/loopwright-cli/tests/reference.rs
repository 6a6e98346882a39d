//! The pages that are made from the program are what the program says.

use std::fs;
use std::path::Path;

use loopwright_cli::reference;

/// Compares a page with what the program says, or writes it.
fn check(name: &str, expect: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("LOOPWRIGHT_WRITE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, expect).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expect, "docs/reference/{name} is stale: run scripts/reference");
}

#[test]
fn the_page_of_the_command_line_is_what_can_be_typed() {
    check("cli.md", &reference::cli());
}

#[test]
fn the_page_of_the_configuration_is_what_can_be_configured() {
    check("config.md", &reference::config());
}
