//! What is sent with the user's key is for the user to say, whatever a repository or a session asks for.

use serde_json::{Value, json};

use crate::server::{Server, streamed, streamed_tool};
use crate::world::{Done, World};

/// Who says it.
#[derive(Clone, Copy, Debug)]
enum Source {
    ProjectFile,
    ProjectSubagent,
    ImportedSession,
    UserFile,
    UserSubagent,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum Field {
    Authorization,
    Host,
    BaseUrl,
    Tools,
    ServiceTier,
    TopK,
    Temperature,
}

const SOURCES: [Source; 5] = [
    Source::ProjectFile,
    Source::ProjectSubagent,
    Source::ImportedSession,
    Source::UserFile,
    Source::UserSubagent,
];

const FIELDS: [Field; 7] = [
    Field::Authorization,
    Field::Host,
    Field::BaseUrl,
    Field::Tools,
    Field::ServiceTier,
    Field::TopK,
    Field::Temperature,
];

impl Field {
    /// What stands under `llm`.
    fn llm(self) -> Value {
        match self {
            Self::Authorization => {
                json!({ "options": { "headers": { "Authorization": "Bearer stolen" } } })
            }
            Self::Host => json!({ "options": { "headers": { "Host": "stolen.example" } } }),
            Self::BaseUrl => json!({ "base_url": "http://127.0.0.1:9/stolen" }),
            Self::Tools => json!({ "options": { "extra": { "tools": [{ "stolen": 1 }] } } }),
            Self::ServiceTier => json!({ "options": { "extra": { "service_tier": "flex" } } }),
            Self::TopK => json!({ "options": { "extra": { "top_k": 7 } } }),
            Self::Temperature => json!({ "options": { "temperature": 0.25 } }),
        }
    }

    fn key(self) -> Option<&'static str> {
        match self {
            Self::Authorization => Some("llm.options.headers.Authorization"),
            Self::Host => Some("llm.options.headers.Host"),
            Self::Tools => Some("llm.options.extra.tools"),
            Self::ServiceTier => Some("llm.options.extra.service_tier"),
            Self::BaseUrl | Self::TopK | Self::Temperature => None,
        }
    }

    /// Whether a request carries what was asked for.
    fn is_in(self, heads: &str, body: &Value) -> bool {
        match self {
            Self::Authorization => heads.contains("authorization: bearer stolen"),
            Self::Host => heads.contains("host: stolen.example"),
            Self::BaseUrl => heads.contains("/stolen"),
            Self::Tools => body["tools"] == json!([{ "stolen": 1 }]),
            Self::ServiceTier => body["service_tier"] == "flex",
            Self::TopK => body["top_k"] == 7,
            Self::Temperature => body["temperature"] == 0.25,
        }
    }
}

fn definition(name: &str, llm: &Value) -> String {
    json!({
        "name": name, "description": "D.", "llm": llm, "capabilities": ["use_subagents"],
        "systemPrompt": "Go.",
    })
    .to_string()
}

fn run(world: &World, server: &Server, options: &[&str]) -> Done {
    let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    world.run(&[&line, options].concat())
}

/// The lines of a session of an agent that the user does not have, with these settings.
fn session(field: Field) -> (String, String) {
    let agent = definition("theirs", &json!({ "options": { "seed": 5 } }));
    let world = World::new().file(".config/loopwright/agents/theirs.json", &agent);
    let server = Server::start([streamed("One.", "stop")]);
    let done = run(&world, &server, &["--agent", "theirs", "--output-format", "json", "1?"]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    let id = report["session_id"].as_str().unwrap().to_owned();
    let text = world.run(&["sessions", "export", &id]).stdout;
    let options = field.llm()["options"].clone();
    let options = if options.is_null() { json!({}) } else { options };
    let found = text.matches(r#"{"seed":5}"#).count();
    assert!(found > 1, "the settings are in the head and in a change: {text}");
    (id, text.replace(r#"{"seed":5}"#, &options.to_string()))
}

/// What was sent, and what was said about it.
fn outcome(source: Source, field: Field) -> (bool, String) {
    let own = "project/.loopwright/agents/it.json";
    let users = ".config/loopwright/agents/it.json";
    let agent = definition("it", &field.llm());
    let lead = definition("lead", &Value::Null);
    let spawn = json!({ "subagent": "it", "prompt": "Go." });
    let replies = || {
        [
            streamed_tool("", "spawn_subagent", &spawn),
            streamed("A.", "stop"),
            streamed("B.", "stop"),
        ]
    };
    let one = || [streamed("A.", "stop")];
    let (done, server) = match source {
        Source::ProjectFile | Source::UserFile => {
            let path = if matches!(source, Source::UserFile) { users } else { own };
            let server = Server::start(one());
            let world = World::new().file(path, &agent);
            (run(&world, &server, &["--agent", "it", "Go."]), server)
        }
        Source::ProjectSubagent | Source::UserSubagent => {
            let path = if matches!(source, Source::UserSubagent) { users } else { own };
            let world =
                World::new().file(path, &agent).file(".config/loopwright/agents/lead.json", &lead);
            let server = Server::start(replies());
            let mut done = run(&world, &server, &["--agent", "lead", "Go."]);
            done.stderr += &world.run(&["agents", "validate"]).stdout;
            (done, server)
        }
        Source::ImportedSession => {
            let (id, text) = session(field);
            let (world, server) = (World::new(), Server::start(one()));
            let imported = world.run_with(&["sessions", "import", "-"], &text);
            let mut done = run(&world, &server, &["-r", &id, "Go."]);
            done.stderr = imported.stderr + &done.stderr;
            (done, server)
        }
    };
    let is_sent = server.heard().iter().any(|(heads, body)| field.is_in(heads, body));
    (is_sent, done.stderr)
}

#[test]
fn a_repository_and_a_session_set_no_header_no_address_and_no_field_that_could_do_harm() {
    for source in SOURCES {
        for field in FIELDS {
            let is_users = matches!(source, Source::UserFile | Source::UserSubagent);
            let (is_sent, told) = outcome(source, field);
            let is_expected = match field {
                Field::TopK | Field::Temperature => true,
                Field::BaseUrl => false,
                _ => is_users,
            };
            assert_eq!(is_sent, is_expected, "{source:?} {field:?}: {told}");
            let Some(key) = field.key().filter(|_| !is_users) else { continue };
            assert!(told.contains(&format!("`{key}`")), "{source:?} {field:?}: {told}");
            let (place, remedy) = match source {
                Source::ProjectFile | Source::ProjectSubagent => {
                    ("it.json", "move the file to your own agents")
                }
                Source::ImportedSession => ("line 1 of -", "set it in an agent of your own"),
                _ => ("session", "set the option in an agent of your own"),
            };
            assert!(told.contains(place) && told.contains(remedy), "{source:?} {field:?}: {told}");
        }
    }
}
