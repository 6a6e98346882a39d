//! The tool that searches the web.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_tool};
use crate::world::World;

fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|it| it["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn the_agent_searches_with_the_configured_service_where_a_rule_names_the_tool() {
    let found =
        json!({"results": [{"title": "A", "url": "https://a.example", "content": "It says."}]});
    let service = Server::start([Reply::Whole(200, found)]);
    let config = format!("[web]\nsearch = \"{}\"\n", service.url);
    let world = World::new().file(".config/loopwright/config.toml", &config);
    let run = |options: &[&str]| {
        let call = streamed_tool("", "web_search", &json!({"query": "a b"}));
        let server = Server::start([call, streamed("Found.", "stop")]);
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let done = world.run(&[&model, options, &["Search."]].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        (server.request(), server.request())
    };
    let (first, _) = run(&[]);
    assert!(!names(&first).contains(&"web_search"), "{first}");
    let (first, second) = run(&["--allow", "WebSearch"]);
    assert!(names(&first).contains(&"web_search"), "{first}");
    let result = second["messages"][3]["content"].as_str().unwrap();
    assert_eq!(result, "1. A\n   https://a.example\n   It says.");
}

#[test]
fn a_service_without_its_key_is_told_and_a_project_names_none() {
    let run = |world: &World| {
        let server = Server::start([streamed("Done.", "stop")]);
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        world.run(&[&model[..], &["--allow", "WebSearch", "Search."]].concat())
    };
    let brave = "[web]\nsearch = \"brave\"\n";
    let done = run(&World::new().file(".config/loopwright/config.toml", brave));
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("set BRAVE_API_KEY"), "{}", done.stderr);
    let done = run(&World::new().file("project/loopwright.toml", brave));
    assert_eq!(done.status, 3, "{}", done.stderr);
}
