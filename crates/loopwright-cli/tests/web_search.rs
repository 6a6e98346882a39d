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

/// A response of each provider that searched, and the tool that its request has to offer.
fn searched() -> [(&'static str, &'static str, Value, Value); 3] {
    let page = json!({"title": "A", "url": "https://a.example"});
    let of_type = |kind: &str| {
        let mut page = page.clone();
        page["type"] = kind.into();
        page
    };
    let content = json!([
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "a b"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [of_type("web_search_result")]},
        {"type": "text", "text": "It says."},
    ]);
    let anthropic = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "search", "content": content,
        "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 2},
    });
    let text = json!({"type": "output_text", "text": "It says.", "annotations": [of_type("url_citation")]});
    let output = json!([
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "a b"}},
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]},
    ]);
    let openai = json!({
        "id": "r", "object": "response", "status": "completed", "model": "search", "output": output,
        "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
    });
    let chunk = json!({"web": {"title": "A", "uri": "https://a.example"}});
    let gemini = json!({
        "candidates": [{
            "content": {"role": "model", "parts": [{"text": "It says."}]}, "finishReason": "STOP", "index": 0,
            "groundingMetadata": {"groundingChunks": [chunk], "webSearchQueries": ["a b"]},
        }],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
    });
    let tool = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5});
    [
        ("anthropic", "ANTHROPIC", tool, anthropic),
        ("openai-responses", "OPENAI", json!({"type": "web_search"}), openai),
        ("gemini", "GEMINI", json!({"google_search": {}}), gemini),
    ]
}

#[test]
fn a_model_whose_provider_searches_answers_with_its_sources() {
    for (provider, variable, tool, response) in searched() {
        let searching = Server::start([Reply::Whole(200, response)]);
        let config = format!("[web]\nsearch = \"{provider}/search\"\n");
        let world = World::new()
            .file(".config/loopwright/config.toml", &config)
            .env(&format!("{variable}_BASE_URL"), &searching.url)
            .env(&format!("{variable}_API_KEY"), "key");
        let call = streamed_tool("", "web_search", &json!({"query": "a b"}));
        let server = Server::start([call, streamed("Found.", "stop")]);
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let options = ["--allow", "WebSearch", "--output-format", "json", "Search."];
        let done = world.run(&[&model[..], &options].concat());
        assert_eq!(done.status, 0, "{provider}: {}", done.stderr);
        drop(server.request());
        let result = server.request()["messages"][3]["content"].clone();
        let expect = "It says.\n\nSources:\n1. A\n   https://a.example";
        assert_eq!(result, expect, "{provider}");
        let request = searching.request();
        assert_eq!(request["tools"], json!([tool]), "{provider}: {request}");
        assert!(request.to_string().contains("answer with what you find: a b"), "{request}");
        // Two answers of 50 and 10 tokens, and the search.
        let report: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(report["usage"]["input"], 105, "{provider}: {report}");
    }
}

#[test]
fn a_model_whose_provider_does_not_search_is_told() {
    let config = "[web]\nsearch = \"openai-compatible/test\"\n";
    let world = World::new().file(".config/loopwright/config.toml", config);
    let server = Server::start([streamed("Done.", "stop")]);
    let world = world.env("OPENAI_COMPATIBLE_BASE_URL", &server.url);
    let done =
        world.run(&["run", "-m", "openai-compatible/test", "--allow", "WebSearch", "Search."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let told = "the API of `openai-compatible` has no web search; choose a model of `anthropic`";
    assert!(done.stderr.contains(told), "{}", done.stderr);
    assert!(!names(&server.request()).contains(&"web_search"));
}
