//! Secrets never stand in a file, and what stands there by mistake is never repeated.

use super::*;

const FILE: &str = "/home/.config/loopwright/config.toml";

fn check(user: &str, key: &str, example: &str) {
    assert_eq!(
        World::new().user(user).error(),
        format!(
            "`{key}` in {FILE} must not contain a secret; put the secret into an environment variable and write a reference, such as `{example}`"
        )
    );
}

#[test]
fn a_literal_key_is_refused_with_a_variable_to_use() {
    check(
        "providers.openai.key = 'sk-hidden'",
        "providers.openai.key",
        "key = \"env:OPENAI_API_KEY\"",
    );
    check(
        "providers.my-host.key = 'OPENAI_API_KEY'",
        "providers.my-host.key",
        "key = \"env:MY_HOST_API_KEY\"",
    );
}

#[test]
fn the_variable_of_the_remedy_is_one_that_would_be_accepted() {
    check(
        "providers.302ai.key = 'sk-hidden'",
        "providers.302ai.key",
        "key = \"env:LOOPWRIGHT_302AI_API_KEY\"",
    );
    check(
        "providers.'ä.b'.key = 'sk-hidden'",
        "providers.\"ä.b\".key",
        "key = \"env:__B_API_KEY\"",
    );
}

#[test]
fn a_header_that_carries_a_secret_is_a_reference() {
    check(
        "providers.openai.headers.Authorization = 'hidden'",
        "providers.openai.headers.Authorization",
        "Authorization = \"env:OPENAI_AUTHORIZATION\"",
    );
    check(
        "providers.openai.headers.X-Custom = 'Bearer hidden'",
        "providers.openai.headers.X-Custom",
        "X-Custom = \"env:OPENAI_X_CUSTOM\"",
    );
}

#[test]
fn the_password_of_a_store_is_a_reference() {
    check("store.url = 'postgres://me:hidden@db/x'", "store.url", "url = \"env:STORE_URL\"");
}

#[test]
fn a_reference_that_names_no_variable_is_not_repeated() {
    assert_eq!(
        World::new().user("providers.openai.key = 'env:sk-hidden'").error(),
        format!(
            "`providers.openai.key` in {FILE} must be a reference to an environment variable; write, for example, `key = \"env:MY_KEY\"`"
        )
    );
}

#[test]
fn no_error_shows_what_stands_in_the_file() {
    for line in [
        "providers.a.key = 'hidden'",
        "providers.a.key = ['hidden']",
        "providers.a.key = 'env:-hidden'",
        "providers.a.key = 'hidden",
        "providers.a.key = hidden",
        "providers.a.key = 'a'\nproviders.a.key = 'hidden'",
        "providers.a = 'hidden'",
        "providers.a.headers.cookie = 'hidden'",
        "providers.a.headers.x = \"hidden\\u0007\"",
        "providers.a.base_url = 'http://me:hidden@x'",
        "base_url = 'http://x?key=hidden'",
        "model = 'hidden'",
        "output_format = 'hidden'",
        "store.url = 'x://me:hidden@x'",
    ] {
        let error = World::new().user(line).load().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hidden"), "{line}: {error:?}");
    }
}
