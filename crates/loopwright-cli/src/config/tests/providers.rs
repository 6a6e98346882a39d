//! Provider tables, and laying one over the other.

use super::*;

#[test]
fn a_project_adds_to_the_provider_of_the_user() {
    let world = World::new()
        .user("[providers.local]\nbase_url = 'http://localhost'\nwire_api = 'user'\n[providers.other]")
        .project("[providers.local]\nwire_api = 'project'\nmodel = 'small'");
    let user = || Origin::User(world.path("home/.config/loopwright/config.toml").into());
    let project = || Origin::Project(world.path("repo/loopwright.toml").into());
    let local = Provider {
        base_url: parse("http://localhost").map(|url| Setting::new(url, user())),
        wire_api: Some(Setting::new("project".to_owned(), project())),
        model: Some(Setting::new("small".to_owned(), project())),
        ..Provider::default()
    };
    let expect = [("local".to_owned(), local), ("other".to_owned(), Provider::default())];
    assert_eq!(world.config().providers, BTreeMap::from(expect));
}

#[test]
fn headers_are_plain_or_references() {
    let world = World::new().user(
        "[providers.local.headers]\nX-Title = 'loopwright'\nAuthorization = 'env:LOCAL_AUTH'",
    );
    let headers = &world.config().providers["local"].headers;
    let shown: Vec<_> =
        headers.iter().map(|(name, header)| format!("{name}: {}", header.value)).collect();
    assert_eq!(shown, ["Authorization: env:LOCAL_AUTH", "X-Title: loopwright"]);
}

#[test]
fn headers_of_two_layers_are_joined_and_the_stronger_wins() {
    let provider = |headers: &[(&str, &str)]| Provider {
        headers: headers
            .iter()
            .map(|(name, text)| {
                let text = Text::from_text(text).unwrap();
                ((*name).to_owned(), Setting::new(text, Origin::Default))
            })
            .collect(),
        ..Provider::default()
    };
    assert_eq!(
        provider(&[("a", "strong"), ("b", "strong")]).or(provider(&[("a", "weak"), ("c", "weak")])),
        provider(&[("a", "strong"), ("b", "strong"), ("c", "weak")])
    );
}

#[test]
fn a_provider_that_no_model_can_name_is_refused() {
    let check = |name: &str, key: &str| {
        assert_eq!(
            World::new().user(&format!("[providers.{name}]")).error(),
            format!(
                "`providers.{key}` in /home/.config/loopwright/config.toml is not a valid provider name: it must be non-empty and contain no slashes or spaces, because models are named `PROVIDER/NAME`; rename the provider"
            )
        );
    };
    check("'a/b'", "\"a/b\"");
    check("'a b'", "\"a b\"");
    check("''", "\"\"");
}
