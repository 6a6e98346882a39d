//! Every key in every layer: the strongest layer that has it wins, and is named.

use super::*;
use loopwright_sandbox::BackendChoice;

type Set = fn(&mut Flags);
type Shown = Option<(String, Origin)>;

/// A key, how each layer sets it, and what is then in effect.
struct Key {
    name: &'static str,
    flag: Option<(Set, &'static str)>,
    variable: Option<(&'static str, &'static str, &'static str)>,
    project: Option<(&'static str, &'static str)>,
    user: (&'static str, &'static str),
    shown: fn(&Config) -> Shown,
}

fn show<T>(setting: Option<&Setting<T>>, text: impl Fn(&T) -> String) -> Shown {
    setting.map(|setting| (text(&setting.value), setting.origin.clone()))
}

fn check(key: &Key) {
    let mut world = World::new();
    let user = Origin::User(world.path("home/.config/loopwright/config.toml").into());
    let project = Origin::Project(world.path("repo/loopwright.toml").into());
    let expect = |world: &World, value: &str, origin: Origin| {
        assert_eq!((key.shown)(&world.config()), Some((value.to_owned(), origin)), "{}", key.name);
    };
    world = world.user(key.user.0);
    expect(&world, key.user.1, user);
    if let Some((toml, value)) = key.project {
        world = world.project(toml);
        expect(&world, value, project);
    }
    if let Some((name, text, value)) = key.variable {
        world = world.env(name, text);
        expect(&world, value, Origin::Env(name));
    }
    if let Some((set, value)) = key.flag {
        world = world.flags(set);
        expect(&world, value, Origin::Flag);
    }
}

#[test]
fn model() {
    check(&Key {
        name: "model",
        flag: Some((|flags| flags.model = parse("a/flag"), "a/flag")),
        variable: Some(("LOOPWRIGHT_MODEL", "a/variable", "a/variable")),
        project: Some(("model = 'a/project'", "a/project")),
        user: ("model = 'a/user'", "a/user"),
        shown: |config| show(config.model.as_ref(), ToString::to_string),
    });
}

#[test]
fn base_url() {
    check(&Key {
        name: "base_url",
        flag: Some((|flags| flags.base_url = parse("http://flag"), "http://flag")),
        variable: Some(("LOOPWRIGHT_BASE_URL", "http://variable", "http://variable")),
        project: None,
        user: ("base_url = 'http://user'", "http://user"),
        shown: |config| show(config.base_url.as_ref(), ToString::to_string),
    });
}

#[test]
fn system() {
    check(&Key {
        name: "system_prompt",
        flag: Some((|flags| flags.system_prompt = Some(String::new()), "")),
        variable: Some(("LOOPWRIGHT_SYSTEM_PROMPT", "variable", "variable")),
        project: Some(("system_prompt = 'project'", "project")),
        user: ("system_prompt = \"\"\"\nuser\nfile\"\"\"", "user\nfile"),
        shown: |config| show(config.system_prompt.as_ref(), Clone::clone),
    });
}

#[test]
fn output_format() {
    check(&Key {
        name: "output_format",
        flag: Some((|flags| flags.output_format = parse("text"), "Text")),
        variable: Some(("LOOPWRIGHT_OUTPUT_FORMAT", "json", "Json")),
        project: Some(("output_format = 'stream-json'", "StreamJson")),
        user: ("output_format = 'text'", "Text"),
        shown: |config| show(Some(&config.output_format), |format| format!("{format:?}")),
    });
}

#[test]
fn stream() {
    check(&Key {
        name: "stream",
        flag: Some((|flags| flags.stream = Some(false), "false")),
        variable: None,
        project: Some(("stream = true", "true")),
        user: ("stream = false", "false"),
        shown: |config| show(Some(&config.stream), ToString::to_string),
    });
}

#[test]
fn limits_steps() {
    check(&Key {
        name: "limits.steps",
        flag: Some((|flags| flags.max_steps = parse("4"), "4")),
        variable: Some(("LOOPWRIGHT_MAX_STEPS", "3", "3")),
        project: Some(("limits.steps = 2", "2")),
        user: ("[limits]\nsteps = 9", "9"),
        shown: |config| show(config.limits.steps.as_ref(), ToString::to_string),
    });
}

#[test]
fn limits_tokens() {
    check(&Key {
        name: "limits.tokens",
        flag: Some((|flags| flags.max_tokens = parse("4"), "4")),
        variable: Some(("LOOPWRIGHT_MAX_TOKENS", "3", "3")),
        project: Some(("limits.tokens = 2", "2")),
        user: ("[limits]\ntokens = 1_000", "1000"),
        shown: |config| show(config.limits.tokens.as_ref(), ToString::to_string),
    });
}

#[test]
fn limits_seconds() {
    check(&Key {
        name: "limits.seconds",
        flag: Some((|flags| flags.max_seconds = parse("0.5"), "500ms")),
        variable: Some(("LOOPWRIGHT_MAX_SECONDS", "3", "3s")),
        project: Some(("limits.seconds = 2.5", "2.5s")),
        user: ("[limits]\nseconds = 9", "9s"),
        shown: |config| show(config.limits.seconds.as_ref(), |duration| format!("{duration:?}")),
    });
}

#[test]
fn a_project_widens_no_limit_of_the_user_and_none_of_every_run() {
    let wide = "[limits]\nsteps = 500\ntokens = 90000000\nseconds = 86400";
    let shown = |world: World| {
        let limits = world.config().limits;
        let (steps, tokens, seconds) =
            (limits.steps.unwrap(), limits.tokens.unwrap(), limits.seconds.unwrap());
        (steps.value.get(), tokens.value.get(), seconds.value.as_secs())
    };
    assert_eq!(shown(World::new().project(wide)), (50, 1_000_000, 900));
    let user = "[limits]\nsteps = 600\ntokens = 2000000\nseconds = 90000";
    assert_eq!(shown(World::new().project(wide).user(user)), (500, 2_000_000, 86_400));
}

#[test]
fn limits_cost() {
    check(&Key {
        name: "limits.cost",
        flag: Some((|flags| flags.max_cost = parse("0.4"), "0.4")),
        variable: Some(("LOOPWRIGHT_MAX_COST", "3", "3")),
        project: Some(("limits.cost = 0.2", "0.2")),
        user: ("[limits]\ncost = 1", "1"),
        shown: |config| show(config.limits.cost.as_ref(), |cost| cost.amount().to_string()),
    });
}

#[test]
fn providers_wire() {
    check(&Key {
        name: "providers.local.wire_api",
        flag: None,
        variable: None,
        project: Some(("providers.local.wire_api = 'project'", "project")),
        user: ("[providers.local]\nwire_api = 'user'", "user"),
        shown: |config| show(config.providers["local"].wire_api.as_ref(), Clone::clone),
    });
}

#[test]
fn providers_model() {
    check(&Key {
        name: "providers.local.model",
        flag: None,
        variable: None,
        project: Some(("providers.local.model = 'project'", "project")),
        user: ("[providers.local]\nmodel = 'user'", "user"),
        shown: |config| show(config.providers["local"].model.as_ref(), Clone::clone),
    });
}

fn check_user_only(
    name: &'static str,
    user: (&'static str, &'static str),
    shown: fn(&Config) -> Shown,
) {
    check(&Key { name, flag: None, variable: None, project: None, user, shown });
}

#[test]
fn keys_that_only_the_user_may_set() {
    check_user_only(
        "providers.local.base_url",
        ("providers.local.base_url = 'http://user'", "http://user"),
        |config| show(config.providers["local"].base_url.as_ref(), ToString::to_string),
    );
    check_user_only(
        "providers.local.key",
        ("providers.local.key = 'env:LOCAL_KEY'", "env:LOCAL_KEY"),
        |config| show(config.providers["local"].key.as_ref(), ToString::to_string),
    );
    check_user_only(
        "providers.local.headers.x-title",
        ("providers.local.headers.x-title = 'mine'", "mine"),
        |config| show(config.providers["local"].headers.get("x-title"), ToString::to_string),
    );
    check_user_only("sandbox.backend", ("sandbox.backend = 'host'", "host"), |config| {
        show(config.sandbox.backend.as_ref(), |choice| match choice {
            BackendChoice::Only(backend) => backend.to_string(),
            BackendChoice::Auto => "auto".to_owned(),
        })
    });
    check_user_only("store.url", ("[store]\nurl = 'sqlite:x.db'", "sqlite:x.db"), |config| {
        show(config.store_url.as_ref(), ToString::to_string)
    });
}

#[test]
fn keys_are_decided_one_by_one() {
    let world = World::new()
        .user("model = 'a/user'\n[limits]\nsteps = 9\ncost = 1")
        .project("limits.steps = 2\nsystem_prompt = 'project'")
        .env("LOOPWRIGHT_MAX_TOKENS", "3");
    let Config { model, system_prompt: system, limits, .. } = world.config();
    let user = Origin::User(world.path("home/.config/loopwright/config.toml").into());
    let project = Origin::Project(world.path("repo/loopwright.toml").into());
    assert_eq!(model.unwrap().origin, user);
    assert_eq!(system.unwrap().origin, project);
    let expect = Limits {
        steps: parse("2").map(|steps| Setting::new(steps, project)),
        tokens: parse("3").map(|tokens| Setting::new(tokens, Origin::Env("LOOPWRIGHT_MAX_TOKENS"))),
        seconds: None,
        cost: parse("1").map(|cost| Setting::new(cost, user)),
        session: SessionLimits::default(),
    };
    assert_eq!(limits, expect);
}

#[test]
fn a_project_may_tighten_a_limit_and_not_widen_it() {
    let world = World::new()
        .user("[limits]\nsteps = 5\ncost = 1")
        .project("[limits]\nsteps = 1000\ncost = 0.5\nseconds = 7");
    let limits = world.config().limits;
    let user = Origin::User(world.path("home/.config/loopwright/config.toml").into());
    let project = Origin::Project(world.path("repo/loopwright.toml").into());
    assert_eq!(limits.steps, parse("5").map(|steps| Setting::new(steps, user)));
    assert_eq!(limits.cost, parse("0.5").map(|cost| Setting::new(cost, project.clone())));
    assert_eq!(limits.seconds, parse("7").map(|seconds| Setting::new(seconds, project)));
    let limits = world.env("LOOPWRIGHT_MAX_STEPS", "50").config().limits;
    assert_eq!(limits.steps.map(|steps| steps.value.get()), Some(50));
}
