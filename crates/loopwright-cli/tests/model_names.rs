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
