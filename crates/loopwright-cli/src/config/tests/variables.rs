//! Environment variables that are wrong.

use super::*;

fn check(name: &str, value: impl Into<OsString>, expect: &str) {
    assert_eq!(World::new().env(name, value).error(), expect);
}

#[test]
fn the_error_names_the_variable_and_a_value_that_is_right() {
    check(
        "LOOPWRIGHT_MODEL",
        "/gpt-5",
        "environment variable `LOOPWRIGHT_MODEL` must be a provider and the name of a model, joined by `/`, or a short name; set it to, for example, `openai/gpt-5-mini`, or unset it",
    );
    check(
        "LOOPWRIGHT_OUTPUT_FORMAT",
        "yaml",
        "environment variable `LOOPWRIGHT_OUTPUT_FORMAT` must be `text`, `json`, `stream-json` or `events`; set it to, for example, `json`, or unset it",
    );
    check(
        "LOOPWRIGHT_MAX_STEPS",
        "0",
        "environment variable `LOOPWRIGHT_MAX_STEPS` must be a whole number from 1 to 4294967295; set it to, for example, `20`, or unset it",
    );
    check(
        "LOOPWRIGHT_MAX_TOKENS",
        "-1",
        "environment variable `LOOPWRIGHT_MAX_TOKENS` must be a whole number of at least 1; set it to, for example, `100000`, or unset it",
    );
    check(
        "LOOPWRIGHT_MAX_SECONDS",
        "soon",
        "environment variable `LOOPWRIGHT_MAX_SECONDS` must be a number of seconds above 0; set it to, for example, `300`, or unset it",
    );
    check(
        "LOOPWRIGHT_MAX_COST",
        "inf",
        "environment variable `LOOPWRIGHT_MAX_COST` must be an amount of US dollars above 0; set it to, for example, `0.50`, or unset it",
    );
}

#[test]
fn a_password_in_an_address_is_refused_and_not_repeated() {
    check(
        "LOOPWRIGHT_BASE_URL",
        "https://me:hidden@example.com",
        "environment variable `LOOPWRIGHT_BASE_URL` must be an `http://` or `https://` address without a user name, password, query or fragment; set it to, for example, `http://localhost:11434/v1`, or unset it",
    );
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStringExt as _;
    check(
        "LOOPWRIGHT_SYSTEM_PROMPT",
        OsString::from_vec(vec![0xff]),
        "environment variable `LOOPWRIGHT_SYSTEM_PROMPT` must be a string; set it to, for example, `…`, or unset it",
    );
}

#[test]
fn the_mode_unconfined_is_refused_under_each_of_its_names() {
    for name in ["unconfined", "bypassPermissions"] {
        check(
            "LOOPWRIGHT_PERMISSION_MODE",
            name,
            "environment variable `LOOPWRIGHT_PERMISSION_MODE` cannot select the mode `unconfined`, because every program inherits it; unset it, and pass `--permission-mode unconfined`",
        );
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let world = World::new().user("model = 'a/user'").env("LOOPWRIGHT_MODEL", "");
    assert_eq!(
        world.origin_of_the_model(),
        "a/user from the user file /home/.config/loopwright/config.toml"
    );
}
