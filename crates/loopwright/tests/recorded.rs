//! The loop, the tool-calling driver and the wire, driven through recorded conversations.
//!
//! The recordings are not part of this repository. Where their folder is (`LOOPWRIGHT_FIXTURES`, or
//! `shared/fixtures` beside the checkout), each recorded tool loop is played by the folder's own
//! replay server, with tools that answer what was recorded; then the folder's own comparison looks at
//! the requests. Elsewhere the test says so and passes.

use std::{
    collections::HashMap,
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use async_trait::async_trait;
use loopwright::{
    agent::AllSections,
    core::{AnyTool, ToolHandler, ToolOptions},
    messages::{
        Content, InferenceOptions, Media, MediaSource, ResponseFormat, ToolChoice, ToolSpec,
    },
    models::Provider,
    prelude::*,
};
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
    path: PathBuf,
    recorded: Value,
    expected: Value,
}

impl Scenario {
    fn script(&self) -> &Value {
        &self.expected["script"]
    }

    fn exchanges(&self) -> &[Value] {
        self.recorded["exchanges"].as_array().map_or(&[], Vec::as_slice)
    }

    /// A tool loop of the chat wire whose requests were recorded, without faults in between.
    fn is_tool_loop(&self) -> bool {
        let of_wire = |it: &Value| {
            it["api"].as_str().or(self.recorded["api"].as_str()) == Some("openai-chat")
                && it["request"]["body"].is_object()
                && it["response"]["status"] == 200
        };
        let has_results =
            self.script()["tool_results"].as_object().is_some_and(|it| !it.is_empty());
        let answers = self.expected["exchanges"].as_array();
        let no_errors = answers.is_some_and(|it| it.iter().all(|it| it["error"].is_null()));
        has_results
            && no_errors
            && self.exchanges().len() > 1
            && self.exchanges().iter().all(of_wire)
    }

    /// One agent's loop: every request goes on where the one before ended, with the same tools. Some
    /// recorded clients begin a new conversation, or add tools, between two requests.
    fn is_one_loop(&self) -> bool {
        self.exchanges().windows(2).all(|pair| {
            let body = |it: &Value, key: &str| it["request"]["body"][key].clone();
            let (then, now) = (body(&pair[0], "messages"), body(&pair[1], "messages"));
            array(&now).starts_with(array(&then))
                && body(&pair[0], "tools") == body(&pair[1], "tools")
        })
    }

    fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
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
    let provider = Provider { base_url: Some(base_url.into()), ..Provider::default() };
    let providers = Providers::bare().with_provider("recorded", provider);
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
    let models = UseLlmConfig::of(Arc::new(providers)).with_llm(llm).with_tool_choice(choice);
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

/// The folder's replay server, which is gone when this is.
struct Server {
    child: Child,
    url: String,
    log: PathBuf,
}

impl Server {
    fn start(fixtures: &Path, scenario: &Scenario) -> Self {
        let (process, name) = (std::process::id(), scenario.name());
        let log = env::temp_dir().join(format!("loopwright-{process}-{name}.jsonl"));
        let mut child = Command::new("python3")
            .arg(fixtures.join("replay_server.py"))
            .arg(&scenario.path)
            .args(["--port", "0", "--log"])
            .arg(&log)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 runs the replay server");
        let mut line = String::new();
        let output = child.stdout.take().expect("the output is piped");
        BufReader::new(output).read_line(&mut line).expect("the server says where it listens");
        let url = line.trim().strip_prefix("LISTENING ").expect("the server listens").to_owned();
        Self { child, url, log }
    }

    fn compare(&self, fixtures: &Path, scenario: &Scenario) -> Result<(), String> {
        let output = Command::new("python3")
            .arg(fixtures.join("compare_requests.py"))
            .arg(&scenario.path)
            .arg(&self.log)
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("requests differ: {}", String::from_utf8_lossy(&output.stdout)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        let _removed = fs::remove_file(&self.log);
    }
}

fn fixtures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = env::var_os("LOOPWRIGHT_FIXTURES").map_or(beside, PathBuf::from);
    folder.join("replay_server.py").exists().then_some(folder)
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
        Scenario { recorded: json(&path), expected, path }
    };
    paths.into_iter().map(load).filter(Scenario::is_tool_loop).collect()
}

async fn play(fixtures: &Path, scenario: &Scenario) -> Result<(), String> {
    let server = Server::start(fixtures, scenario);
    let agent = agent(scenario, &server.url);
    let mut state = AgentState::new();
    for input in scenario.inputs() {
        state = agent.execute(state.with_messages(input)).await;
        if let Status::Failed(failure) = state.status() {
            return Err(format!("failed: {failure}"));
        }
    }
    let said = state.last_step().and_then(|it| it.message()).map(Message::text).unwrap_or_default();
    if said != scenario.final_text() {
        return Err(format!("said {said:?} and not {:?}", scenario.final_text()));
    }
    server.compare(fixtures, scenario)
}

#[tokio::test]
async fn recorded_tool_loops_of_the_chat_wire_end_as_recorded_with_the_recorded_requests() {
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
        if let Err(error) = play(&fixtures, scenario).await {
            wrong.push(format!("{}: {error}", scenario.name()));
        }
    }
    println!("{} recorded tool loops, {} wrong", scenarios.len(), wrong.len());
    assert!(scenarios.len() > 10, "only {} tool loops were found", scenarios.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
