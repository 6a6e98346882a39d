//! Files as people have them in `.claude`: each folder of `tests/claude` is a home with a project, a command line, the replies of
//! a model, and everything that comes of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::server::{Reply, Server, streamed, streamed_tool};
use crate::world::{World, redact};

/// The beginning and the end of the prompt of the program's own agent.
const OWN: [&str; 2] = ["You are Loopwright,", "could not find out."];

/// The number of cases, so that none is lost.
const CASES: usize = 31;

/// What a case does: `line` is the command line, `stdin` its input, `replies` what the model says: a text, or a call as
/// `[TOOL, ARGUMENTS]`. `before` runs first.
struct Case {
    folder: PathBuf,
    fields: Value,
}

impl Case {
    fn read(folder: PathBuf) -> Self {
        let text = fs::read_to_string(folder.join("case.json")).unwrap();
        Self { folder, fields: serde_json::from_str(&text).unwrap() }
    }

    fn words(&self, key: &str) -> Vec<&str> {
        let words = self.fields[key].as_array().map(Vec::as_slice).unwrap_or_default();
        words.iter().map(|it| it.as_str().unwrap()).collect()
    }

    fn replies(&self) -> Vec<Reply> {
        let replies = self.fields["replies"].as_array().map(Vec::as_slice).unwrap_or_default();
        let reply = |it: &Value| match it {
            Value::String(text) => streamed(text, "stop"),
            call => streamed_tool("", call[0].as_str().unwrap(), &call[1]),
        };
        replies.iter().map(reply).collect()
    }

    /// Everything that comes of the case.
    fn outcome(&self, standard: &[String]) -> Value {
        let world = placed(World::new(), &self.folder.join("home"), "");
        let before = self.words("before");
        if !before.is_empty() {
            let done = world.run(&before);
            assert_eq!(done.status, 0, "{}", done.stderr);
        }
        let server = Server::start(self.replies());
        let mut line = self.words("line");
        if self.fields.get("replies").is_some() {
            line.splice(1..1, ["-m", "openai-compatible/test", "--base-url", &server.url]);
        }
        let stdin = self.fields["stdin"].as_str().unwrap_or_default();
        let done = world.run_with(&line, stdin);
        let home = world.path("").display().to_string();
        let home = home.trim_end_matches('/').to_owned();
        let requests: Vec<Value> = server.heard().into_iter().map(|(_, body)| body).collect();
        let mut outcome = json!({
            "status": done.status,
            "stdout": done.stdout.lines().collect::<Vec<_>>(),
            "stderr": redact(&done.stderr).lines().collect::<Vec<_>>(),
            "requests": shown(&requests, &home, standard),
        });
        if let Some(files) = self.fields["files"].as_array() {
            let text = |it: &Value| fs::read_to_string(world.path(it.as_str().unwrap())).ok();
            let files = files.iter().map(|it| (it.as_str().unwrap().to_owned(), json!(text(it))));
            outcome["files"] = files.collect::<Map<_, _>>().into();
        }
        outcome
    }
}

/// Puts the files of a folder into a world. `dot-` at the beginning of a name is a dot.
fn placed(world: World, folder: &Path, to: &str) -> World {
    let Ok(entries) = fs::read_dir(folder) else { return world };
    entries.flatten().fold(world, |world, entry| {
        let name = entry.file_name().into_string().unwrap();
        let name = name.strip_prefix("dot-").map(|it| format!(".{it}")).unwrap_or(name);
        let to = if to.is_empty() { name } else { format!("{to}/{name}") };
        if entry.path().is_dir() {
            placed(world, &entry.path(), &to)
        } else {
            world.file(&to, &fs::read_to_string(entry.path()).unwrap())
        }
    })
}

/// Shows requests: the tools as a difference from those of a plain run, and only messages that the request before has not.
fn shown(requests: &[Value], home: &str, standard: &[String]) -> Vec<Value> {
    let mut before: Vec<Value> = Vec::new();
    requests
        .iter()
        .map(|request| {
            let text = request["messages"].to_string().replace(home, "");
            let messages: Vec<Value> = serde_json::from_str(&text).unwrap();
            let same = before.iter().zip(&messages).take_while(|(one, other)| one == other).count();
            let new: Vec<Value> = messages[same..].iter().map(message).collect();
            before = messages;
            let mut shown = json!({ "tools": tools(request, standard), "new": new });
            for key in ["model", "reasoning_effort"] {
                if request[key] != "test" && !request[key].is_null() {
                    shown[key] = request[key].clone();
                }
            }
            shown
        })
        .collect()
}

fn message(message: &Value) -> Value {
    let lines = |text: &str| -> Value {
        let text = match (text.find(OWN[0]), text.find(OWN[1])) {
            (Some(from), Some(to)) => {
                format!("{}(own prompt){}", &text[..from], &text[to + OWN[1].len()..])
            }
            _ => text.to_owned(),
        };
        text.lines().collect()
    };
    let content = match &message["content"] {
        Value::String(text) => lines(text),
        other => other.clone(),
    };
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls: Vec<&Value> = calls.iter().map(|it| &it["function"]["name"]).collect();
    let role = message["role"].as_str().unwrap().to_owned();
    let value = if calls.is_empty() { content } else { json!(calls) };
    Value::Object(Map::from_iter([(role, value)]))
}

fn names(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|it| it["function"]["name"].as_str().unwrap().to_owned()).collect()
}

fn tools(request: &Value, standard: &[String]) -> Value {
    let names = names(request);
    let is_standard = standard.iter().all(|it| names.contains(it));
    if !is_standard {
        return json!(names);
    }
    let more: Vec<&String> = names.iter().filter(|it| !standard.contains(it)).collect();
    json!({ "besides those of a plain run": more })
}

#[test]
fn files_as_people_have_them_are_loaded_and_work() {
    let server = Server::start([streamed("Done.", "stop")]);
    let plain = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."];
    assert_eq!(World::new().run(&plain).status, 0);
    let standard = names(&server.request());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/claude");
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root).unwrap().flatten().map(|it| it.path()).collect();
    folders.sort();
    assert_eq!(folders.len(), CASES);
    let writes = std::env::var_os("LOOPWRIGHT_WRITE").is_some();
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        let run = |folder: PathBuf| {
            let standard = &standard;
            scope.spawn(move || {
                let outcome = Case::read(folder.clone()).outcome(standard);
                (folder, outcome)
            })
        };
        let (mut running, mut rest) = (Vec::new(), folders.into_iter());
        loop {
            running.extend(rest.by_ref().take(4).map(run));
            if running.is_empty() {
                break;
            }
            for thread in running.drain(..) {
                let (folder, outcome) = thread.join().unwrap();
                let text = serde_json::to_string_pretty(&outcome).unwrap() + "\n";
                let path = folder.join("expected.json");
                if writes {
                    fs::write(&path, &text).unwrap();
                }
                let expect = fs::read_to_string(&path).unwrap_or_default();
                if expect != text {
                    wrong.push(format!("{}:\n{text}", folder.display()));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
