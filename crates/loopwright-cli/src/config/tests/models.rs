//! What is configured about models: which to fall back on, what they cost, how long to wait for them.

use loopwright_models::ModelCapability;

use super::*;

#[test]
fn fallback_models_are_an_array() {
    let fallback = |world: &World| {
        let setting = world.config().fallback.unwrap();
        let names: Vec<_> = setting.value.iter().map(ToString::to_string).collect();
        (names.join(" "), setting.origin)
    };
    let mut world =
        World::new().user("fallback = ['a/b', 'c/d/e']").project("[providers.a]\nmodel = 'x'");
    let user = Origin::User(world.path("home/.config/loopwright/config.toml").into());
    assert_eq!(fallback(&world), ("a/b c/d/e".to_owned(), user));
    world.flags.fallback = parse("f/g");
    assert_eq!(fallback(&world), ("f/g".to_owned(), Origin::Flag));
    assert_eq!(
        World::new().user("fallback = 'a/b'").error(),
        "`fallback` in /home/.config/loopwright/config.toml must be an array of models, each a provider and a name joined by `/`, not a string; write, for example, `fallback = [\"anthropic/claude-haiku-5-5\"]`"
    );
}

#[test]
fn a_model_has_facts() {
    let config = World::new()
        .user(
            "[models.'mine/m']\ncontext_window = 9\ncapabilities = ['tools', 'images']\n\
             prices = { input = 1, output = 2.5, cache_read = 0 }",
        )
        .config();
    let facts = &config.models["mine/m"];
    let prices = facts.prices.as_ref().unwrap();
    assert_eq!(facts.context_window.as_ref().unwrap().value.get(), 9);
    assert_eq!(facts.max_output, None);
    let capabilities = Capabilities(vec![ModelCapability::Tools, ModelCapability::Images]);
    assert_eq!(facts.capabilities.as_ref().unwrap().value, capabilities);
    let amount = |price: &Setting<DollarsPerMillion>| price.value.amount();
    assert_eq!(
        (amount(&prices.input), amount(&prices.output), prices.cache_read.as_ref().map(amount)),
        (1.0, 2.5, Some(0.0))
    );
    assert_eq!(prices.cache_write, None);
}

#[test]
fn half_a_price_is_refused() {
    assert_eq!(
        World::new().user("[models.'mine/m']\nprices = { input = 1 }").error(),
        "`models.\"mine/m\".prices` in /home/.config/loopwright/config.toml must be a table with `input` and `output`, in US dollars per million tokens; write, for example, `prices = { input = 0.50, output = 1.50 }`"
    );
}

#[test]
fn a_model_is_named_with_its_provider() {
    assert_eq!(
        World::new().user("[models.m]").error(),
        "`models.m` in /home/.config/loopwright/config.toml is not a model name; write `PROVIDER/NAME`, such as `[models.\"openai/gpt-5-mini\"]`"
    );
}

#[test]
fn waits_and_rates_are_set_one_by_one() {
    let config = World::new()
        .user("[timeouts]\nidle = 2.5\n[providers.a.rate_limit]\nrequests_per_minute = 60")
        .project("[timeouts]\ntotal = 30")
        .config();
    let timeouts = &config.timeouts;
    let seconds =
        |it: &Option<Setting<std::time::Duration>>| it.as_ref().map(|it| it.value.as_secs_f64());
    assert_eq!((seconds(&timeouts.idle), seconds(&timeouts.total)), (Some(2.5), Some(30.0)));
    assert_eq!((seconds(&timeouts.connect), seconds(&timeouts.first_byte)), (None, None));
    let rate = &config.providers["a"].rate_limit;
    assert_eq!(rate.requests_per_minute.as_ref().unwrap().value.get(), 60);
    assert_eq!(rate.tokens_per_minute, None);
}
