//! Resources and prompts of servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_core::messages::{InferenceRequest, InferenceResponse, Part};
use loopwright_core::{AgentState, ChatModel, InferCx, MediaKind, ModelError, ToolSource as _};
use loopwright_mcp::{
    CompletionTarget, FileCatalogs, ListedResource, McpClient, McpToolSource, UseMcp,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

use crate::world::{World, call, results};

async fn names(client: &McpClient) -> Vec<String> {
    let tools = McpToolSource::new(client.clone()).tools().await.unwrap().tools;
    tools.iter().map(|it| it.spec().name.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_of_resources_and_the_templates_are_listed() {
    let world = World::new();
    let listed = world.client("resources").resources().await.unwrap();
    let told: Vec<(&str, bool)> = listed.iter().map(|it| (&*it.uri, it.is_template)).collect();
    assert_eq!(told, [("note:///one", false), ("note:///two", false), ("note:///{name}", true)]);
    assert_eq!(listed[0].description.as_deref(), Some("a\\u{1b}[31m note"));
    let none: Vec<ListedResource> = world.client("").resources().await.unwrap();
    assert_eq!(none, [], "a server without resources is not asked for them");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_read_as_text_and_pictures_and_the_rest_is_named() {
    let world = World::new();
    let client = world.client("resources");
    let text = client.read_resource("note:///one").await.unwrap();
    assert_eq!(text, [Part::text("[resource note:///one]\ntext of note:///one")]);
    let picture = client.read_resource("note:///picture").await.unwrap();
    let zip = "[resource note:///picture of type application/zip, 3 bytes, was omitted]";
    assert_eq!(
        picture,
        [
            Part::image(
                "image/png",
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
            ),
            Part::text(zip)
        ]
    );
    let gone = client.read_resource("note:///gone").await.unwrap_err().to_string();
    assert!(gone.contains("no such\\u{1b}[2J note"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_lists_and_reads_the_resources_of_a_server() {
    let world = World::new();
    let client = world.client("resources");
    let (told, _) = call(&client, "mcp__fake__resources_list", json!({ "query": "TWO" })).await;
    assert_eq!(told, "note:///two: two, a\\u{1b}[31m note");
    let read = json!({ "uri": "note:///two" });
    let (told, _) = call(&client, "mcp__fake__resources_read", read).await;
    assert_eq!(told, "[resource note:///two]\ntext of note:///two");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_for_resources_follow_the_filter_and_the_resources_of_the_server() {
    let world = World::new();
    let all = ["echo", "env", "write", "resources_list", "resources_read"];
    let all: Vec<String> = all.iter().map(|it| format!("mcp__fake__{it}")).collect();
    assert_eq!(names(&world.client("resources")).await, all);
    assert_eq!(names(&world.client("")).await, all[..3]);
    let filtered = World::server("resources").with_tools(["e*", "resources_read"]);
    let filtered = McpClient::new(filtered, world.host());
    let expected = [&*all[0], &*all[1], &*all[4]];
    assert_eq!(names(&filtered).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_for_resources_are_known_without_a_start_once_they_were_approved() {
    let world = World::new();
    let store = Arc::new(FileCatalogs::new(world.folder.path().join("catalogs")));
    let client =
        || McpClient::with_catalogs(World::server("resources"), world.host(), store.clone());
    let first = names(&client()).await;
    let second = client();
    assert_eq!(names(&second).await, first);
    assert_eq!((first.len(), second.status().starts), (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_filled_in() {
    let world = World::new();
    let client = world.client("resources");
    let prompts = serde_json::to_value(client.prompts().await.unwrap()).unwrap();
    let arguments = json!([
        { "name": "who", "is_required": true },
        { "name": "how", "is_required": false },
    ]);
    let greet = json!({ "name": "greet", "description": "Greets.", "arguments": arguments });
    assert_eq!(prompts, json!([greet]));
    let arguments = BTreeMap::from([("who".to_owned(), "Ada".to_owned())]);
    let parts = client.prompt("greet", arguments).await.unwrap();
    let expected = ["Greet {\"who\":\"Ada\"}.", "[the assistant says:]", "How?"];
    assert_eq!(parts, expected.map(Part::text));
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_completed_with_values_that_can_be_typed() {
    let world = World::new();
    let client = world.client("resources");
    let prompt = CompletionTarget::Prompt("greet".to_owned());
    let others = BTreeMap::from([("how".to_owned(), "loud".to_owned())]);
    let values = client.complete(&prompt, "who", "A", &others).await.unwrap();
    assert_eq!(values, ["Ada", "greet {\"how\":\"loud\"}"]);
    let template = CompletionTarget::Template("note:///{name}".to_owned());
    let values = client.complete(&template, "name", "", &BTreeMap::new()).await.unwrap();
    assert_eq!(values, ["da", "note:///{name} null"]);
    let none = world.client("").complete(&prompt, "who", "A", &others).await.unwrap();
    assert_eq!(none, Vec::<String>::new(), "a server that completes nothing is not asked");
}

/// A model that sees no images.
#[derive(Clone)]
struct Blind(FakeModel);

#[async_trait]
impl ChatModel for Blind {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        self.0.infer(request, cx).await
    }

    fn takes(&self, _: &InferenceRequest, kind: MediaKind) -> Option<bool> {
        Some(kind != MediaKind::Image)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_sees_no_images_is_told_that_there_was_one() {
    let world = World::new();
    let client = world.client("resources");
    client.tools().await.unwrap();
    let read = json!({ "uri": "note:///picture" });
    let steps = [ScenarioStep::tool_call("mcp__fake__resources_read", read), "done".into()];
    let agent = AgentBuilder::base()
        .with(UseLlmConfig::model(Blind(FakeModel::script(steps))))
        .with(UseMcp::new([client]))
        .build()
        .unwrap();
    let state = agent.execute(AgentState::new().with_user_message("go")).await;
    let expected = "[image: not shown, because this model does not accept images]\
                    [resource note:///picture of type application/zip, 3 bytes, was omitted]";
    assert_eq!(results(&state), [expected]);
}
