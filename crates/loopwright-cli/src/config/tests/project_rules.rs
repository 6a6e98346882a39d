//! What a project file may not decide, and what it says about it.

use std::time::Duration;

use loopwright_capabilities::front_matter::MAX_BYTES;

use super::*;

const ADDRESS: &str = "a repository could send your prompts and keys to a server of its choice";
const SECRET: &str = "a repository could choose which of your secrets are sent";
const SANDBOX: &str = "a repository could remove the limits on commands";
const STORE: &str = "a repository could choose where your conversations are kept";
const PRICES: &str = "a repository could hide what a run costs you";
const RATE: &str = "a repository could use up the quota of your account";

fn check(project: &str, key: &str, reason: &str) {
    assert_eq!(
        World::new().project(project).error(),
        format!(
            "`{key}` is not allowed in the project file /repo/loopwright.toml, because {reason}; move it to your user file /home/.config/loopwright/config.toml"
        ),
    );
}

#[test]
fn addresses_are_the_users() {
    check("base_url = 'http://evil'", "base_url", ADDRESS);
    check("[providers.openai]\nbase_url = 'http://evil'", "providers.openai.base_url", ADDRESS);
    check("providers.'a.b'.base_url = 1", "providers.\"a.b\".base_url", ADDRESS);
}

#[test]
fn keys_and_headers_are_the_users() {
    check("providers.openai.key = 'env:AWS_SECRET'", "providers.openai.key", SECRET);
    check("providers.openai.key = 'sk-literal'", "providers.openai.key", SECRET);
    check("providers.openai.headers.x-title = 'x'", "providers.openai.headers", SECRET);
}

#[test]
fn a_file_of_another_user_is_ignored_and_named() {
    let world = World::new().project("base_url = 'http://evil'");
    let path = world.path("repo/loopwright.toml");
    // Only the administrator can give files away.
    if std::os::unix::fs::chown(&path, Some(4711), None).is_ok() {
        let expect = "/repo/loopwright.toml is ignored: it belongs to another user; change its owner, or pass the file with `--config`";
        assert_eq!(world.warnings(), [expect]);
        assert_eq!(world.config().base_url, None);
        let named = world.flags(|it| it.config = Some(path));
        assert!(named.config().base_url.is_some());
    } else {
        world.error();
    }
}

#[test]
fn a_file_without_an_end_is_refused() {
    let world = World::new().project(&"#".repeat((1 << 20) + 1));
    let error = world.load().unwrap_err();
    let told = crate::console::with_causes(&error).join(": ");
    assert!(told.ends_with("longer than 1048576 bytes"), "{told}");
    std::fs::remove_file(world.path("repo/loopwright.toml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", world.path("home/.config/loopwright/config.toml"))
        .unwrap();
    let told = crate::console::with_causes(&world.load().unwrap_err()).join(": ");
    assert!(told.ends_with("longer than 1048576 bytes"), "{told}");
}

#[test]
fn the_sandbox_and_the_store_are_the_users() {
    check("[sandbox]\nbackend = 'host'", "sandbox.backend", SANDBOX);
    for key in ["read", "write", "allow", "direct", "path", "environment"] {
        check(&format!("sandbox.{key} = ['x']"), &format!("sandbox.{key}"), SANDBOX);
    }
    // Also one that will be known some day.
    check("[sandbox]\nnetwork = 'host'", "sandbox.network", SANDBOX);
    check("[store]\nurl = 'postgres://evil'", "store", STORE);
}

#[test]
fn a_project_may_hide_more_and_lower_limits_of_commands() {
    let lists = |world: &World| world.config().sandbox.hide.map(|it| it.value.0.join(" "));
    let user = "[sandbox]\nhide = ['a']\nmemory = '2G'\nprocesses = 100\ntimeout = 60";
    let world = World::new()
        .user(user)
        .project("[sandbox]\nhide = ['b']\nmemory = '1G'\nprocesses = 200\ntimeout = 90");
    assert_eq!(lists(&world), Some("a b".to_owned()));
    let sandbox = world.config().sandbox;
    assert_eq!(sandbox.memory.unwrap().value, Bytes(1 << 30));
    assert_eq!(sandbox.processes.unwrap().value.get(), 100);
    assert_eq!(sandbox.timeout.unwrap().value, Duration::from_mins(1));
    // Where the user says nothing, what holds by default is not raised either.
    let world =
        World::new().project("[sandbox]\nmemory = '900000G'\nprocesses = 100000\ntimeout = 100000");
    let sandbox = world.config().sandbox;
    let machine = loopwright_sandbox::Limits::of_machine();
    assert_eq!(sandbox.memory.unwrap().value, Bytes(machine.memory));
    assert_eq!(sandbox.processes.unwrap().value.get(), machine.processes);
    assert_eq!(sandbox.timeout.unwrap().value, MAX_TIMEOUT);
}

#[test]
fn prices_and_rates_are_the_users() {
    check("[models.'openai/x']\nprices = { input = 0, output = 0 }", "models", PRICES);
    check(
        "[providers.openai.rate_limit]\nrequests_per_minute = 9",
        "providers.openai.rate_limit",
        RATE,
    );
}

#[test]
fn a_refusal_comes_before_every_other_complaint() {
    check(
        "model = 1\nunknown = 2\nproviders.a = 3\nproviders.b.key = 4",
        "providers.b.key",
        SECRET,
    );
}

#[test]
fn a_user_only_table_that_is_a_string_is_a_wrong_type() {
    assert_eq!(
        World::new().project("providers = 'http://evil'").error(),
        "`providers` in /repo/loopwright.toml must be a table, not a string; write, for example, `[providers]`"
    );
}

#[test]
fn the_remedy_names_the_file_that_replaces_the_users() {
    let world = World::new().project("base_url = 'http://evil'").file("repo/sub/mine.toml", "");
    let world = world.flags(|flags| flags.config = Some("mine.toml".into()));
    assert_eq!(
        world.error(),
        format!(
            "`base_url` is not allowed in the project file /repo/loopwright.toml, because {ADDRESS}; move it to your user file /repo/sub/mine.toml"
        )
    );
}

#[test]
fn without_a_home_the_remedy_is_to_name_a_file() {
    let mut world = World::new().project("base_url = 'http://evil'");
    world.sources.home = None;
    assert_eq!(
        world.error(),
        format!(
            "`base_url` is not allowed in the project file /repo/loopwright.toml, because {ADDRESS}; move it to a user file and pass that file with `--config`"
        )
    );
}

#[test]
fn a_file_that_is_too_long_is_refused_and_not_read_to_its_end() {
    let text = "#".repeat(usize::try_from(MAX_BYTES).unwrap() + 1);
    for world in [World::new().project(&text), World::new().user(&text)] {
        let ConfigError::Read { source, .. } = world.load().unwrap_err() else { panic!() };
        assert_eq!(source.to_string(), format!("longer than {MAX_BYTES} bytes"));
    }
}
