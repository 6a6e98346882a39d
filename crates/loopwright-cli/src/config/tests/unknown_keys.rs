//! Keys that nothing knows are ignored, but not in silence.

use super::*;

#[test]
fn a_misspelled_key_is_ignored_with_a_suggestion() {
    let world = World::new().project("modle = 'a/b'\nmodel = 'a/c'");
    assert_eq!(
        world.warnings(),
        ["unknown key `modle` in /repo/loopwright.toml: did you mean `model`?"]
    );
    assert_eq!(world.origin_of_the_model(), "a/c from the project file /repo/loopwright.toml");
}

#[test]
fn every_table_is_looked_through() {
    let world = World::new().user(
        "max_steps = 1\nlimits.step = 1\nproviders.local.url = 'x'\nsandbox.bakcend = 'x'\nstore.somewhere = 'x'",
    );
    assert_eq!(
        world.warnings(),
        [
            "unknown key `max_steps` in FILE: did you mean `limits.steps`?",
            "unknown key `limits.step` in FILE: did you mean `limits.steps`?",
            "unknown key `providers.local.url` in FILE: did you mean `providers.local.base_url`?",
            "unknown key `sandbox.bakcend` in FILE: did you mean `sandbox.backend`?",
            "unknown key `store.somewhere` in FILE: ignored; remove it",
        ]
        .map(|line| line.replace("FILE", "/home/.config/loopwright/config.toml"))
    );
}

#[test]
fn both_files_are_warned_about_and_the_project_comes_first() {
    let world = World::new().user("colour = 1").project("[tools]");
    assert_eq!(
        world.warnings(),
        [
            "unknown key `tools` in /repo/loopwright.toml: ignored; remove it",
            "unknown key `colour` in /home/.config/loopwright/config.toml: ignored; remove it",
        ]
    );
}

#[test]
fn names_of_providers_and_headers_are_free() {
    let world = World::new().user("[providers.modle.headers]\nkee = 'x'");
    assert_eq!(world.warnings(), Vec::<String>::new());
}

#[test]
fn a_key_cannot_write_to_the_terminal() {
    let world = World::new().project("\"\\u001b[31m\\n\" = 1");
    assert_eq!(
        world.warnings(),
        ["unknown key `\"\\u{1b}[31m\\n\"` in /repo/loopwright.toml: ignored; remove it"]
    );
}
