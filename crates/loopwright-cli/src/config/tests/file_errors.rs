//! Files that cannot be used.

use super::*;

const FILE: &str = "/repo/loopwright.toml";

fn wrong_type(project: &str, expect: &str) {
    assert_eq!(World::new().project(project).error(), expect.replace("FILE", FILE));
}

#[test]
fn a_link_that_leads_to_no_file_is_not_an_absent_file() {
    for name in ["repo/loopwright.toml", "home/.config/loopwright/config.toml"] {
        let world = World::new();
        std::os::unix::fs::symlink("gone.toml", world.path(name)).unwrap();
        let told = format!("cannot read /{name}; make it a readable text file, or remove it");
        assert_eq!(world.error(), told);
    }
}

#[test]
fn a_wrong_type_is_named_with_the_file_the_key_and_the_right_one() {
    wrong_type(
        "model = 5",
        "`model` in FILE must be a provider and the name of a model, joined by `/`, or a short name, not an integer; write, for example, `model = \"openai/gpt-5-mini\"`",
    );
    wrong_type(
        "system_prompt = ['be', 'brief']",
        "`system_prompt` in FILE must be a string, not an array; write, for example, `system_prompt = \"…\"`",
    );
    wrong_type(
        "output_format = true",
        "`output_format` in FILE must be `text`, `json`, `stream-json` or `events`, not a boolean; write, for example, `output_format = \"json\"`",
    );
    wrong_type(
        "stream = 'yes'",
        "`stream` in FILE must be `true` or `false`, not a string; write, for example, `stream = false`",
    );
    wrong_type(
        "limits = 5",
        "`limits` in FILE must be a table, not an integer; write, for example, `[limits]`",
    );
    wrong_type(
        "limits.steps = 1.5",
        "`limits.steps` in FILE must be a whole number from 1 to 4294967295, not a float; write, for example, `steps = 20`",
    );
    wrong_type(
        "limits.tokens = '9'",
        "`limits.tokens` in FILE must be a whole number of at least 1, not a string; write, for example, `tokens = 100000`",
    );
    wrong_type(
        "limits.seconds = 10:00:00",
        "`limits.seconds` in FILE must be a number of seconds above 0, not a date or time; write, for example, `seconds = 300`",
    );
    wrong_type(
        "limits.cost = '$1'",
        "`limits.cost` in FILE must be an amount of US dollars above 0, not a string; write, for example, `cost = 0.50`",
    );
    wrong_type(
        "providers.local = 'x'",
        "`providers.local` in FILE must be a table, not a string; write, for example, `[providers.local]`",
    );
    wrong_type(
        "providers.local.wire_api = {}",
        "`providers.local.wire_api` in FILE must be a string, not a table; write, for example, `wire_api = \"…\"`",
    );
    wrong_type(
        "[[providers.local.model]]",
        "`providers.local.model` in FILE must be a string, not an array; write, for example, `model = \"…\"`",
    );
}

#[test]
fn a_wrong_value_is_named_without_being_repeated() {
    wrong_type(
        "model = 'openai/'",
        "`model` in FILE must be a provider and the name of a model, joined by `/`, or a short name; write, for example, `model = \"openai/gpt-5-mini\"`",
    );
    wrong_type(
        "output_format = 'yaml'",
        "`output_format` in FILE must be `text`, `json`, `stream-json` or `events`; write, for example, `output_format = \"json\"`",
    );
    wrong_type(
        "limits.steps = 0",
        "`limits.steps` in FILE must be a whole number from 1 to 4294967295; write, for example, `steps = 20`",
    );
    wrong_type(
        "limits.cost = -1",
        "`limits.cost` in FILE must be an amount of US dollars above 0; write, for example, `cost = 0.50`",
    );
}

#[test]
fn the_keys_of_the_user_are_checked_too() {
    let check = |user: &str, expect: &str| {
        let expect = expect.replace("FILE", "/home/.config/loopwright/config.toml");
        assert_eq!(World::new().user(user).error(), expect);
    };
    check(
        "base_url = 'localhost:8080'",
        "`base_url` in FILE must be an `http://` or `https://` address without a user name, password, query or fragment; write, for example, `base_url = \"http://localhost:11434/v1\"`",
    );
    check(
        "providers.local.key = 1",
        "`providers.local.key` in FILE must be a reference to an environment variable, not an integer; write, for example, `key = \"env:MY_KEY\"`",
    );
    check(
        "providers.local.headers = 'x: y'",
        "`providers.local.headers` in FILE must be a table, not a string; write, for example, `[providers.local.headers]`",
    );
    check(
        "providers.local.headers.x = 1",
        "`providers.local.headers.x` in FILE must be a line of text, or a reference to an environment variable such as `env:NAME`, not an integer; write, for example, `x = \"env:NAME\"`",
    );
    check(
        "sandbox.backend = 1",
        "`sandbox.backend` in FILE must be `auto`, `namespaces`, `bubblewrap`, `landlock`, `docker`, `podman` or `host`, not an integer; write, for example, `backend = \"auto\"`",
    );
    check(
        "store = 1",
        "`store` in FILE must be a table, not an integer; write, for example, `[store]`",
    );
}

#[test]
fn a_syntax_error_names_line_and_column() {
    let check = |project: &str, expect: &str| {
        assert_eq!(
            World::new().project(project).error(),
            format!("{FILE}, {expect}; correct this line")
        );
    };
    check("model = ", "line 1, column 9: string values must be quoted, expected literal string");
    check("model = 'a/b'\n\nstream = tru\n", "line 3, column 10: invalid boolean, expected `true`");
    check(
        "system_prompt = 'ü' 'x'",
        "line 1, column 21: unexpected key or value, expected newline, `#`",
    );
    check("model = 'a/b'\r\nmodel = 'a/c'", "line 2, column 1: duplicate key");
    check("[limits", "line 1, column 8: unclosed table, expected `]`");
}

#[test]
fn a_file_that_is_not_text_cannot_be_read() {
    let world = World::new().file("repo/loopwright.toml", b"model = '\xff'");
    assert_eq!(
        world.error(),
        "cannot read /repo/loopwright.toml; make it a readable text file, or remove it"
    );
}

#[test]
fn a_project_file_that_would_block_or_is_a_directory_is_not_opened() {
    let world = World::new().file("repo/loopwright.toml/x", "");
    let error = world.load().unwrap_err();
    assert_eq!(
        world.shown(&error),
        "cannot read /repo/loopwright.toml; make it a readable text file, or remove it"
    );
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "not a regular file");
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_key() {
    let world = World::new().project("\u{feff}model = 'a/b'");
    assert_eq!(world.origin_of_the_model(), "a/b from the project file /repo/loopwright.toml");
}
