//! `models`.

use serde_json::{Value, json};

use crate::world::World;

#[test]
fn one_provider_is_listed_with_its_models() {
    let config = "[providers.mine]\nbase_url = 'http://localhost/v1'\nkey = 'env:MY_KEY'\nmodel = 'm'\n\
        [models.'mine/m']\ncontext_window = 8192\nprices = { input = 1, output = 2.5 }\n\
        [models.'mine/new']\ncapabilities = ['tools', 'images']\n";
    let world = World::new().file(".config/loopwright/config.toml", config);
    let done = world.run(&["models", "mine"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(
        done.stdout,
        "\
PROVIDER  WIRE         KEY               DEFAULT MODEL
mine      openai-chat  MY_KEY (missing)  m

MODEL     WINDOW  OUTPUT  $ IN  $ CACHED  $ OUT  CAN
mine/m    8192    ?       1     1         2.5    ?
mine/new  ?       ?       ?     ?         ?      tools images

Prices are in $ per million tokens; `+` marks models whose long requests cost more.
"
    );
    let done = world.env("MY_KEY", "sk-hidden").run(&["models", "mine", "--json"]);
    let listed: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        listed,
        json!({
            "schema_version": 1,
            "providers": [{
                "name": "mine", "wire_api": "openai-chat", "key": "MY_KEY", "key_is_set": true,
                "key_required": true, "local": false, "default_model": "m",
            }],
            "models": [
                { "provider": "mine", "name": "m", "context_window": 8192,
                    "prices": { "input": 1.0, "output": 2.5 } },
                { "provider": "mine", "name": "new", "capabilities": ["tools", "images"] },
            ],
        })
    );
}

#[test]
fn all_providers_are_listed() {
    let done = World::new().env("ANTHROPIC_API_KEY", "sk-hidden").run(&["models"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let has = |start: &str, end: &str| {
        done.stdout.lines().any(|line| line.starts_with(start) && line.ends_with(end))
    };
    assert!(has("openai  ", "gpt-4.1-mini"), "{}", done.stdout);
    assert!(done.stdout.contains("OPENAI_API_KEY (missing)"), "{}", done.stdout);
    assert!(
        has("anthropic  ", "claude-haiku-5-5") && done.stdout.contains("ANTHROPIC_API_KEY (set)")
    );
    assert!(has("openai/gpt-5-mini  ", "tools images documents reasoning json_schema"));
    assert!(!done.stdout.contains("sk-hidden"));
}

#[test]
fn an_unknown_provider_ends_with_4_and_the_closest_or_all() {
    let done = World::new().run(&["models", "opnai"]);
    assert_eq!((done.status, done.stdout.as_str()), (4, ""));
    let meant = "error: unknown provider `opnai`; did you mean `openai`? `loopwright models` lists all providers";
    assert!(done.stderr.starts_with(meant), "{}", done.stderr);
    let done = World::new().run(&["models", "zzz"]);
    assert!(done.stderr.starts_with("error: unknown provider `zzz`; available: openai, "));
}
