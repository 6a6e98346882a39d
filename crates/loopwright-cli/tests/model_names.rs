//! Names of models of other programs.

use crate::server::{Server, streamed};
use crate::world::World;

#[test]
fn names_of_models_of_other_programs_stand_for_models() {
    let asked = |config: &str, name: &str| {
        let server = Server::start([streamed("Done.", "stop")]);
        let agent = format!("---\nname: a\ndescription: D.\nmodel: {name}\n---\nGo.\n");
        let config = format!(
            "model = \"acme/large\"\n{config}\n[providers.acme]\nbase_url = \"{}\"\nwire_api = \"openai-chat\"\n",
            server.url
        );
        let world = World::new()
            .file(".config/loopwright/config.toml", &config)
            .file("project/.claude/agents/a.md", &agent);
        let done = world.run(&["run", "--agent", "a", "Go on."]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        server.request()["model"].as_str().unwrap().to_owned()
    };
    // Of a provider that is not used, the model of the run takes the place.
    assert_eq!(asked("", "sonnet"), "large");
    assert_eq!(asked("", "gpt-5"), "large");
    let table = "[aliases]\nsonnet = \"acme/medium\"\nfast = \"acme/small\"\n";
    assert_eq!(asked(table, "sonnet"), "medium");
    assert_eq!(asked(table, "fast"), "small");
    assert_eq!(asked(table, "opus"), "large");
}

/// A world whose configuration has a provider at a server, and the alias `fast`.
fn world(server: &Server) -> World {
    let config = format!(
        "model = \"acme/large\"\n[aliases]\nfast = \"acme/small\"\nsonnet = \"acme/medium\"\n\
            [providers.acme]\nbase_url = \"{}\"\nwire_api = \"openai-chat\"\n",
        server.url
    );
    World::new().file(".config/loopwright/config.toml", &config)
}

#[test]
fn an_alias_selects_the_model_of_an_option_a_variable_and_a_chat() {
    let replies = || (0..3).map(|_| streamed("Done.", "stop"));
    let server = Server::start(replies());
    let world = world(&server);
    let done = world.run(&["run", "-m", "fast", "Go on."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(server.request()["model"], "small");
    let world = world.env("LOOPWRIGHT_MODEL", "sonnet");
    let done = world.run(&["run", "Go on."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(server.request()["model"], "medium");
    let done = world.run_with(&["chat"], "/model fsat\n/model fast\n/model\nGo on.\n");
    assert_eq!(server.request()["model"], "small", "{}", done.stderr);
    let meant = "unknown model `fsat`; did you mean `fast`?";
    assert!(done.stderr.contains(meant), "{}", done.stderr);
    assert!(done.stderr.contains("acme/small"), "{}", done.stderr);
}

#[test]
fn a_misspelt_model_is_refused_with_the_closest_name() {
    let server = Server::start([]);
    let world = world(&server);
    let done = world.run(&["run", "-m", "haiko", "Go on."]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("did you mean `haiku`?"), "{}", done.stderr);
    let done = world.run(&["run", "-m", "antropic/claude-haiku-5-5", "Go on."]);
    assert_eq!(done.status, 4, "{}", done.stderr);
    let meant = "unknown provider `antropic`; did you mean `anthropic`?";
    assert!(done.stderr.contains(meant), "{}", done.stderr);
}

#[test]
fn a_misspelt_model_of_a_definition_is_sent_with_a_warning() {
    let server = Server::start([streamed("Done.", "stop")]);
    let agent = "---\nname: a\ndescription: D.\nmodel: sonet\n---\nGo.\n";
    let world = world(&server).file("project/.claude/agents/a.md", agent);
    let done = world.run(&["run", "--agent", "a", "Go on."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let warning = "agent `a` uses the model `sonet`, which is unknown; did you mean `sonnet`?";
    assert!(done.stderr.contains(warning), "{}", done.stderr);
    assert_eq!(server.request()["model"], "sonet");
}
