//! `config show` and `doctor`: what is configured, and what works.

use serde_json::Value;

use crate::server::{Reply, Server};
use crate::world::{World, lonely};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Finds a setting: its value, its source, and where.
fn setting(shown: &Value, key: &str) -> (Value, Value, Value) {
    let settings = shown["settings"].as_array().unwrap();
    let found = settings.iter().find(|it| it["key"] == key).unwrap();
    (found["value"].clone(), found["origin"].clone(), found["origin_place"].clone())
}

#[test]
fn each_setting_is_shown_with_who_decided_it() {
    let world = World::new()
        .file(".config/loopwright/config.toml", "stream = false\n[limits]\ncost = 2\n")
        .file("project/loopwright.toml", "model = 'mine/m'\n")
        .env("LOOPWRIGHT_MAX_TOKENS", "1000");
    let done = world.run(&["config", "show", "--json", "--max-steps", "7"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let shown = json(&done.stdout);
    let check = |key: &str, value: &str, origin: &str, place: Option<&str>| {
        let expect = (value.into(), origin.into(), place.map_or(Value::Null, Into::into));
        assert_eq!(setting(&shown, key), expect, "{key}");
    };
    check("limits.steps", "7", "flag", None);
    check("limits.tokens", "1000", "environment", Some("LOOPWRIGHT_MAX_TOKENS"));
    check("limits.seconds", "900", "default", None);
    check("limits.cost", "2", "user", Some("/.config/loopwright/config.toml"));
    check("stream", "false", "user", Some("/.config/loopwright/config.toml"));
    check("model", "mine/m", "project", Some("/project/loopwright.toml"));
    let done = world.run(&["config", "show"]);
    let line = done.stdout.lines().find(|it| it.starts_with("model ")).unwrap();
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
    assert_eq!(cells, ["model", "mine/m", "project file /project/loopwright.toml"]);
}

#[test]
fn each_limit_that_is_typed_is_shown() {
    let limits = [
        ("--max-steps", "limits.steps"),
        ("--max-tokens", "limits.tokens"),
        ("--max-seconds", "limits.seconds"),
        ("--max-cost", "limits.cost"),
        ("--max-session-steps", "limits.session.steps"),
        ("--max-session-tokens", "limits.session.tokens"),
        ("--max-session-seconds", "limits.session.seconds"),
        ("--max-session-cost", "limits.session.cost"),
    ];
    let mut line = vec!["config", "show", "--json"];
    line.extend(limits.iter().flat_map(|(flag, _)| [*flag, "3"]));
    let done = World::new().run(&line);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let shown = json(&done.stdout);
    for (_, key) in limits {
        assert_eq!(setting(&shown, key), ("3".into(), "flag".into(), Value::Null), "{key}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let config = "[providers.mine]\nbase_url = 'http://127.0.0.1:1/v1'\nkey = 'env:MY_KEY'\n";
    let world =
        lonely().file(".config/loopwright/config.toml", config).env("MY_KEY", "very-secret");
    for line in
        [&["config", "show"][..], &["config", "show", "--json"], &["doctor"], &["doctor", "--json"]]
    {
        let done = world.run(line);
        assert!(done.stdout.contains("MY_KEY"), "{line:?}: {}", done.stdout);
        assert!(!(done.stdout + &done.stderr).contains("very-secret"), "{line:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_told() {
    let world = World::new().file("project/loopwright.toml", "stream = 1");
    let done = world.run(&["config", "show"]);
    assert_eq!((done.status, done.stdout.as_str()), (3, ""), "{}", done.stderr);
    let done = world.run(&["doctor", "--json"]);
    assert_eq!(done.status, 1);
    let told = json(&done.stdout);
    assert_eq!(told["checks"][1]["outcome"], "problem");
}

#[test]
fn the_doctor_says_what_works() {
    let models = serde_json::json!({"object": "list", "data": [{"id": "tiny"}]});
    let server = Server::start([Reply::Whole(200, models.clone()), Reply::Whole(200, models)]);
    let world = lonely().env("LM_STUDIO_BASE_URL", &server.url);
    let done = world.run(&["doctor", "--json"]);
    let told = json(&done.stdout);
    let outcome = |area: &str, name: &str| {
        let checks = told["checks"].as_array().unwrap();
        let found = checks.iter().find(|it| it["area"] == area && it["name"] == name).unwrap();
        (
            found["outcome"].as_str().unwrap().to_owned(),
            found["message"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(outcome("servers", "lm-studio"), ("ok".into(), "lm-studio serves 1 model".into()));
    let (absent, message) = outcome("servers", "ollama");
    assert_eq!(absent, "absent");
    assert!(message.starts_with("ollama does not respond at http://127.0.0.1:"), "{message}");
    assert_eq!(outcome("model", ""), ("ok".into(), "lm-studio/tiny would be used".into()));
    let none_yet = "none yet; sessions will be stored in /.local/state/loopwright/sessions.db";
    assert_eq!(outcome("sessions", ""), ("absent".into(), none_yet.into()));
    // Where the kernel does not let commands be confined, that is a problem.
    let problems = i32::from(outcome("sandbox", "").0 == "problem");
    assert_eq!((told["problems"].clone(), done.status), (problems.into(), problems));
}

#[test]
fn the_doctor_ends_with_1_where_there_is_no_model_or_the_store_is_broken() {
    let world = lonely().file(".local/state/loopwright/sessions.db", "no database at all");
    let done = world.run(&["doctor"]);
    assert_eq!(done.status, 1);
    assert!(done.stdout.contains("✗ no model is available"), "{}", done.stdout);
    assert!(done.stdout.contains("✗ cannot open the sessions in"), "{}", done.stdout);
    assert!(done.stdout.ends_with("problems found\n"), "{}", done.stdout);
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let world = World::new();
    let done = world.run(&["man"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(done.stdout.contains(".TH loopwright 1"), "{}", done.stdout);
    assert_eq!(world.run(&["man", "pages"]).status, 0);
    for name in ["loopwright", "loopwright-run", "loopwright-sessions-rewind"] {
        assert!(world.path(&format!("project/pages/{name}.1")).exists(), "{name}");
    }
}
