//! The loop, the tool-calling driver and the wires, driven through recorded conversations.
//!
//! The recordings are not part of this repository. Where their folder is (`LOOPWRIGHT_FIXTURES`, or
//! `shared/fixtures` beside the checkout), each recorded tool loop is played by an agent, with tools
//! that answer what was recorded, and the requests are compared with the recorded ones. Elsewhere the
//! test says so and passes.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use loopwright::agent::{UseContextCompiler, UseContextConfig, UseLlmConfig};
use loopwright::messages::{Part, Role};
use loopwright::models::Providers;
use loopwright::runtime::{LlmConfig, StopSignal, ToolOutput, ToolSet};
use loopwright::{
    agent::AllSections,
    messages::{
        Content, InferenceOptions, Media, MediaSource, ResponseFormat, ToolChoice, ToolSpec,
    },
    models::{ProviderConfig, WireApi},
    prelude::*,
    runtime::{AnyTool, ToolHandler, ToolOptions},
};
use loopwright_testing::recorded::{Delivery, Recording, ReplayServer, Severity, compare};
use serde_json::{Map, Value};

/// Answers what was recorded for the id of a call. A call without a recorded answer ended the
/// recorded conversation.
struct Recorded {
    results: HashMap<String, ToolOutput>,
}

#[async_trait]
impl ToolHandler for Recorded {
    async fn call(&self, _arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let id = cx.call.id.as_deref().unwrap_or_default();
        self.results.get(id).cloned().ok_or_else(|| {
            ToolError::Stop(StopSignal::requested("recording", "the recording ends here"))
        })
    }
}

/// One recorded conversation: what it says, and what is expected of it.
struct Scenario {
    recorded: Value,
    expected: Value,
}

/// The wires whose calls have ids, by which the tools know what to answer.
const WIRES: [WireApi; 3] = [WireApi::OpenAiChat, WireApi::OpenAiResponses, WireApi::Anthropic];

impl Scenario {
    fn script(&self) -> &Value {
        &self.expected["script"]
    }

    fn exchanges(&self) -> &[Value] {
        self.recorded["exchanges"].as_array().map_or(&[], Vec::as_slice)
    }

    fn wire(&self) -> Option<WireApi> {
        WireApi::named(text(&self.recorded["api"])).filter(|wire| WIRES.contains(wire))
    }

    /// A tool loop of one wire whose requests were recorded, without faults in between.
    fn is_tool_loop(&self) -> bool {
        let was_recorded =
            |it: &Value| it["request"]["body"].is_object() && it["response"]["status"] == 200;
        let has_results =
            self.script()["tool_results"].as_object().is_some_and(|it| !it.is_empty());
        let answers = self.expected["exchanges"].as_array();
        let no_errors = answers.is_some_and(|it| it.iter().all(|it| it["error"].is_null()));
        has_results
            && no_errors
            && self.exchanges().len() > 1
            && self.wire().is_some()
            && self.exchanges().iter().all(was_recorded)
    }

    /// One agent's loop: every request continues where the one before ended, with the same tools and
    /// with what they answered. Some recorded clients begin a new conversation, add tools, make up ids
    /// of their own or leave calls without an answer between two requests.
    fn is_one_loop(&self) -> bool {
        let continues = self.exchanges().windows(2).all(|pair| {
            let body = |it: &Value, key: &str| it["request"]["body"][key].clone();
            let said = |it: &Value| match body(it, "messages") {
                Value::Null => body(it, "input"),
                messages => messages,
            };
            let (then, now) = (said(&pair[0]), said(&pair[1]));
            array(&now).starts_with(array(&then))
                && body(&pair[0], "tools") == body(&pair[1], "tools")
        });
        let ids = |items: &Value| -> Vec<String> {
            array(items).iter().map(|it| text(&it["id"]).to_owned()).collect()
        };
        let answers = array(&self.expected["exchanges"]).iter();
        let mut steps = answers.zip(array(&self.script()["exchanges"]).iter().skip(1));
        continues
            && steps.all(|(answer, step)| {
                let answered = ids(&step["new_items"]);
                ids(&answer["tool_calls"]).iter().all(|id| answered.contains(id))
            })
    }

    fn name(&self) -> &str {
        text(&self.recorded["name"])
    }

    fn tools(&self) -> ToolSet {
        let handler: Arc<dyn ToolHandler> = Arc::new(Recorded { results: self.results() });
        let tool = |it: &Value| {
            let mut parameters = it["schema"].clone();
            if !parameters.is_object() {
                parameters = Value::Object(Map::new());
            }
            let spec = ToolSpec {
                name: text(&it["name"]).into(),
                description: text(&it["description"]).into(),
                parameters: Arc::new(parameters),
            };
            AnyTool::dynamic(spec, ToolOptions::default(), Arc::clone(&handler))
        };
        array(&self.script()["first"]["tools"]).iter().map(tool).collect()
    }

    /// What each call answered; what the client said after the results goes with the last of them.
    fn results(&self) -> HashMap<String, ToolOutput> {
        let mut results = HashMap::new();
        for exchange in array(&self.script()["exchanges"]) {
            let mut last = None;
            let mut said = Vec::new();
            for item in array(&exchange["new_items"]) {
                if item["kind"] == "tool_result" {
                    let id = text(&item["id"]);
                    results.insert(id.to_owned(), ToolOutput::text(text(&item["text"])));
                    last = Some(id.to_owned());
                } else {
                    said.extend(part(item));
                }
            }
            if let Some(output) = last.and_then(|id| results.get_mut(&id))
                && !said.is_empty()
            {
                *output = output.clone().with_message(Message::new(Role::User, said));
            }
        }
        results
    }

    fn options(&self) -> InferenceOptions {
        let recorded = &self.script()["first"]["options"];
        let mut options = InferenceOptions::default();
        options.stream = Some(self.recorded["streaming"] == true);
        options.temperature = recorded["temperature"].as_f64();
        options
    }

    /// What the user says at the beginning, and whenever the model had answered.
    fn inputs(&self) -> Vec<Vec<Message>> {
        let first = array(&self.script()["first"]["items"]);
        let mut inputs = vec![first.iter().filter_map(message).collect()];
        for exchange in array(&self.script()["exchanges"]).iter().skip(1) {
            let items = array(&exchange["new_items"]);
            if items.iter().all(|it| it["kind"] != "tool_result") {
                inputs.push(items.iter().filter_map(message).collect());
            }
        }
        inputs
    }

    fn final_text(&self) -> &str {
        text(&array(&self.expected["exchanges"]).last().unwrap_or(&Value::Null)["text"])
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn part(item: &Value) -> Option<Part> {
    match text(&item["kind"]) {
        "text" => Some(Part::text(text(&item["text"]))),
        "image" => {
            let source = MediaSource::Url(text(&item["value"]).into());
            Some(Part::new(Content::Image(Media { mime: "image/*".into(), source, name: None })))
        }
        _ => None,
    }
}

fn message(item: &Value) -> Option<Message> {
    let role = match text(&item["role"]) {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return None,
    };
    Some(Message::new(role, [part(item)?]))
}

fn agent(scenario: &Scenario, base_url: &str) -> AgentLoop {
    let wire = scenario.wire().unwrap_or_default();
    let provider =
        ProviderConfig { wire, base_url: Some(base_url.into()), ..ProviderConfig::default() };
    let providers = Providers::empty().with_provider("recorded", provider);
    let first = &scenario.script()["first"];
    let system: Vec<&str> = array(&first["system"]).iter().map(text).collect();
    let llm = LlmConfig {
        provider: Some("recorded".into()),
        model: Some(text(&first["model"]).into()),
        options: scenario.options(),
    };
    let choice = match &first["tool_choice"] {
        Value::String(choice) if choice == "required" => ToolChoice::Required,
        _ => ToolChoice::Auto,
    };
    let models =
        UseLlmConfig::from_models(Arc::new(providers)).with_llm(llm).with_tool_choice(choice);
    let mut builder = AgentBuilder::base()
        .with_capability(models)
        .with_capability(UseTools::from(scenario.tools()))
        .with_capability(UseContextCompiler::new(AllSections))
        .with_capability(UseContextConfig::new(system.join("\n\n")));
    let schema = &first["options"]["response_format"]["json_schema"];
    if let Some(name) = schema["name"].as_str() {
        let format = ResponseFormat::json_schema(name, schema["schema"].clone());
        builder = builder.with_capability(UseContextConfig::new("").with_response_format(format));
    }
    builder.build().expect("the agent is complete")
}

/// Says in which points the requests differ from the recorded ones.
fn differences(scenario: &Scenario, server: &ReplayServer) -> Vec<String> {
    let (received, recorded) = (server.received(), scenario.exchanges());
    let mut all = Vec::new();
    if received.len() != recorded.len() {
        all.push(format!("{} requests instead of {}", received.len(), recorded.len()));
    }
    for (recorded, received) in recorded.iter().zip(&received) {
        let api = text(&scenario.recorded["api"]);
        let found = compare(api, &recorded["request"]["body"], &received.json());
        let hard = found.iter().filter(|it| it.severity == Severity::Hard);
        all.extend(hard.map(ToString::to_string));
    }
    all
}

fn fixtures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = env::var_os("LOOPWRIGHT_FIXTURES").map_or(beside, PathBuf::from);
    folder.join("open").is_dir().then_some(folder)
}

fn scenarios(fixtures: &Path) -> Vec<Scenario> {
    let json = |path: &Path| -> Value {
        serde_json::from_str(&fs::read_to_string(path).expect("a readable file")).expect("JSON")
    };
    let files = fs::read_dir(fixtures.join("open")).expect("the folder of recordings");
    let mut paths: Vec<PathBuf> = files.filter_map(|it| Some(it.ok()?.path())).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "json"));
    paths.sort();
    let load = |path: PathBuf| {
        let name = path.file_name().expect("a file");
        let expected = json(&fixtures.join("open/expected").join(name));
        Scenario { recorded: json(&path), expected }
    };
    paths.into_iter().map(load).filter(Scenario::is_tool_loop).collect()
}

async fn play(scenario: &Scenario) -> Result<(), String> {
    let recording: Recording =
        serde_json::from_value(scenario.recorded.clone()).map_err(|error| error.to_string())?;
    let server = ReplayServer::start(Arc::new(recording), Delivery::default()).await;
    let server = server.map_err(|error| error.to_string())?;
    let agent = agent(scenario, server.url());
    let mut state = AgentState::new();
    for input in scenario.inputs() {
        state = agent.execute(state.with_appended_messages(input)).await;
        if let ExecutionStatus::Failed(failure) = state.status() {
            return Err(format!("failed: {failure}"));
        }
    }
    let said = state.last_step().and_then(|it| it.message()).map(Message::text).unwrap_or_default();
    if said != scenario.final_text() {
        return Err(format!("said {said:?} and not {:?}", scenario.final_text()));
    }
    let differences = differences(scenario, &server);
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

#[tokio::test]
async fn recorded_tool_loops_end_as_recorded_with_the_recorded_requests() {
    let Some(fixtures) = fixtures() else {
        println!("no recordings: set LOOPWRIGHT_FIXTURES to their folder to run this test");
        return;
    };
    let (scenarios, others): (Vec<_>, Vec<_>) =
        scenarios(&fixtures).into_iter().partition(Scenario::is_one_loop);
    for other in &others {
        println!("left out, not one agent's loop: {}", other.name());
    }
    let mut wrong = Vec::new();
    for scenario in &scenarios {
        if let Err(error) = play(scenario).await {
            wrong.push(format!("{}: {error}", scenario.name()));
        }
    }
    println!("{} recorded tool loops, {} wrong", scenarios.len(), wrong.len());
    assert!(scenarios.len() > 10, "only {} tool loops were found", scenarios.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
