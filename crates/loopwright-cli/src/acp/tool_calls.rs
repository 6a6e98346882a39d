//! Tool calls as editors show them: with an ID, a kind, a title, locations and diffs.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::{
    ToolOutcome,
    messages::{AgentId, Part, ToolCall},
};
use loopwright_permissions::ToolKind;
use serde_json::{Value, json};

use super::content::block;
use crate::project::absolute;
use crate::render::{Change, failure, fence, single_line, summary};

/// The most characters of a title.
const TITLE: usize = 120;

/// Where a call is found: the sub-agent that makes it, the step and the position.
pub(super) type CallKey = (Option<AgentId>, u32, u16);

/// The tool calls of a session that the editor knows.
///
/// The IDs of providers may repeat and may be missing, so every call gets an ID that is unique in the session.
#[derive(Debug)]
pub(super) struct ToolCalls {
    workdir: PathBuf,
    known: HashMap<CallKey, KnownCall>,
    ids: HashSet<String>,
}

#[derive(Clone, Debug)]
struct KnownCall {
    id: String,
    call: ToolCall,
    diffs: Vec<Value>,
}

impl ToolCalls {
    pub(super) fn new(workdir: &Path) -> Self {
        let workdir = workdir.to_path_buf();
        Self { workdir, known: HashMap::new(), ids: HashSet::new() }
    }

    /// Tells of a new call.
    pub(super) fn created(&mut self, key: CallKey, call: &ToolCall) -> Value {
        let id = self.new_id(call.id.as_deref());
        let known = KnownCall { id: id.clone(), call: call.clone(), diffs: Vec::new() };
        self.known.insert(key, known);
        let mut update = self.description(call);
        update["sessionUpdate"] = json!("tool_call");
        update["toolCallId"] = json!(id);
        update["status"] = json!("pending");
        update
    }

    /// Tells that a call runs. Hooks may have changed its arguments.
    pub(super) fn started(&mut self, key: &CallKey, call: &ToolCall) -> Vec<Value> {
        let mut updates = Vec::new();
        if !self.known.contains_key(key) {
            updates.push(self.created(key.clone(), call));
        }
        let Some(known) = self.known.get_mut(key) else { return updates };
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": known.id});
        if known.call.arguments != call.arguments {
            known.call.arguments = Arc::clone(&call.arguments);
            let described = describe(&self.workdir, call);
            for (name, value) in described.as_object().into_iter().flatten() {
                update[name] = value.clone();
            }
        }
        update["status"] = json!("in_progress");
        updates.push(update);
        updates
    }

    /// Keeps what a call has changed until it is over.
    pub(super) fn changed(&mut self, agent: Option<&AgentId>, change: &Change) {
        let workdir = &self.workdir;
        let diffs = change.files.iter().map(|(path, diff)| {
            let path = absolute(workdir, path);
            json!({"type": "diff", "path": path, "oldText": *diff.before, "newText": *diff.after})
        });
        let by_change = |(key, it): &(&CallKey, &mut KnownCall)| {
            key.0.as_ref() == agent && it.call.arguments == change.arguments && it.diffs.is_empty()
        };
        // A call of an earlier step may have had the same arguments.
        let known = self.known.iter_mut().filter(by_change).max_by_key(|(key, _)| (key.1, key.2));
        if let Some((_, known)) = known {
            known.diffs = diffs.collect();
        }
    }

    /// Tells what became of a call.
    pub(super) fn completed(
        &mut self,
        key: &CallKey,
        call: &ToolCall,
        outcome: &ToolOutcome,
    ) -> Vec<Value> {
        let mut updates = Vec::new();
        if !self.known.contains_key(key) {
            updates.push(self.created(key.clone(), call));
        }
        let Some(known) = self.known.get_mut(key) else { return updates };
        let has_failed = outcome.is_error() || failure(outcome).is_some();
        let mut content = std::mem::take(&mut known.diffs);
        if content.is_empty() || has_failed {
            content.extend(output(kind(&known.call.name), outcome));
        }
        let mut update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": known.id,
            "status": if has_failed { "failed" } else { "completed" }, "content": content,
        });
        if let Some(value) = raw_output(&known.call.name, outcome) {
            update["rawOutput"] = value;
        }
        updates.push(update);
        updates
    }

    /// Returns the ID of a call that waits: of the agent's own call, or of the last one like it.
    pub(super) fn id_of(&self, key: &CallKey, call: &ToolCall) -> Option<&str> {
        let same = |it: &&KnownCall| it.call.name == call.name && it.call.id == call.id;
        let own = self.known.get(key).filter(same);
        let nested = || self.known.iter().filter(|(_, it)| same(it)).max_by_key(|(key, _)| key.1);
        own.or_else(|| nested().map(|(_, it)| it)).map(|it| it.id.as_str())
    }

    /// Says what a call does.
    pub(super) fn description(&self, call: &ToolCall) -> Value {
        describe(&self.workdir, call)
    }

    pub(super) fn new_id(&mut self, given: Option<&str>) -> String {
        let given = given.filter(|it| !it.is_empty()).unwrap_or("call");
        let mut id = given.to_owned();
        let mut number = 1;
        while !self.ids.insert(id.clone()) {
            number += 1;
            id = format!("{given}-{number}");
        }
        id
    }
}

fn describe(workdir: &Path, call: &ToolCall) -> Value {
    let arguments: Value = serde_json::from_str(&call.arguments)
        .unwrap_or_else(|_| Value::String(call.arguments.to_string()));
    let mut description = json!({
        "title": title(call), "name": call.name, "kind": kind(&call.name), "rawInput": arguments,
    });
    if let Some(path) = arguments["path"].as_str() {
        // The tools count the lines that they skip.
        let mut location = json!({"path": absolute(workdir, path)});
        if let Some(line) = arguments["offset"].as_u64().and_then(|it| u32::try_from(it).ok()) {
            location["line"] = json!(line.saturating_add(1));
        }
        description["locations"] = json!([location]);
    }
    description
}

/// Returns the kind of a tool, which editors show as a symbol.
fn kind(tool: &str) -> &'static str {
    match (tool, ToolKind::of(tool)) {
        ("search_files" | "grep", _) => "search",
        ("web_search", _) | (_, ToolKind::Web) => "fetch",
        ("todo_write" | "self_critic" | "plan_with_subagent", _) => "think",
        ("bash_read" | "bash_stop", _) | (_, ToolKind::Command) => "execute",
        (_, ToolKind::Read | ToolKind::Skill) => "read",
        (_, ToolKind::Write) => "edit",
        _ => "other",
    }
}

fn title(call: &ToolCall) -> String {
    let asked = summary(&call.arguments, TITLE);
    let verb = match &*call.name {
        "bash" | "bash_start" if !asked.is_empty() => return asked,
        "todo_write" => return "Update the plan".to_owned(),
        "read_file" => "Read",
        "write_file" => "Write",
        "edit_file" => "Edit",
        "list_dir" => "List",
        "search_files" => "Find",
        "grep" => "Search",
        name => name,
    };
    single_line(format!("{verb} {asked}").trim_end(), TITLE)
}

/// Returns what a tool said, as content blocks.
fn output(kind: &str, outcome: &ToolOutcome) -> Vec<Value> {
    let content = |block: Value| json!({"type": "content", "content": block});
    let Some(output) = outcome.output() else {
        return vec![content(json!({"type": "text", "text": outcome.error_message()}))];
    };
    let is_verbatim = matches!(kind, "execute" | "read" | "search");
    let shown = |part: &Part| match part.as_text() {
        // Editors read text as Markdown.
        Some(text) if is_verbatim && !text.trim().is_empty() => {
            let fence = fence(text);
            let text = format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'));
            Some(json!({"type": "text", "text": text}))
        }
        _ => block(part),
    };
    output.content.iter().filter_map(shown).map(content).collect()
}

/// Returns what a tool returned, as data. Of a command, this is its exit code and its output: how the sandbox ran it is nothing that
/// an editor shows.
fn raw_output(tool: &str, outcome: &ToolOutcome) -> Option<Value> {
    let output = outcome.output()?;
    let value = output.value.as_deref()?;
    if ToolKind::of(tool) != ToolKind::Command {
        return Some(value.clone());
    }
    let exit_code = value.get("exit_code")?;
    Some(json!({"exit_code": exit_code, "output": output.to_text()}))
}

#[cfg(test)]
mod tests {
    use loopwright_core::ToolOutput;

    use super::*;
    use crate::files::tests::file_tools;

    fn call(id: Option<&str>, name: &str, arguments: &Value) -> ToolCall {
        let id = id.map(Into::into);
        ToolCall { id, name: name.into(), arguments: arguments.to_string().into() }
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let mut calls = ToolCalls::new(Path::new("/w"));
        let mut id = |step, id| {
            let call = call(id, "bash", &json!({"command": "ls"}));
            calls.created((None, step, 0), &call)["toolCallId"].as_str().unwrap().to_owned()
        };
        let ids = [id(1, Some("a")), id(2, Some("a")), id(3, None), id(4, None), id(5, Some(""))];
        assert_eq!(ids, ["a", "a-2", "call", "call-2", "call-3"]);
    }

    #[test]
    fn a_call_says_what_it_does_and_where() {
        let calls = ToolCalls::new(Path::new("/w"));
        let of = |name, arguments| calls.description(&call(None, name, &arguments));
        let read = of("read_file", json!({"path": "./a.rs", "offset": 7}));
        assert_eq!(read["title"], "Read ./a.rs");
        assert_eq!(read["kind"], "read");
        assert_eq!(read["locations"], json!([{"path": "/w/a.rs", "line": 8}]));
        let bash = of("bash", json!({"command": "cargo test\necho done"}));
        assert_eq!((&bash["kind"], bash.get("locations")), (&json!("execute"), None));
        assert!(bash["title"].as_str().unwrap().starts_with("cargo test"), "{bash}");
        assert_eq!(of("tickets_create", json!({}))["title"], "tickets_create");
        // What is no JSON is shown as it is.
        let broken = ToolCall { id: None, name: "bash".into(), arguments: "{\"comm".into() };
        assert_eq!(calls.description(&broken)["rawInput"], "{\"comm");
    }

    #[test]
    fn raw_output_of_a_command_is_its_exit_code_and_its_output() {
        let mut calls = ToolCalls::new(Path::new("/w"));
        let mut calls_so_far = 0;
        let mut raw = |name: &str, value: Value| {
            let outcome = ToolOutcome::Returned(ToolOutput {
                value: Some(value.into()),
                ..ToolOutput::text("two lines")
            });
            let (key, call) = ((None, 1, calls_so_far), call(None, name, &json!({})));
            calls_so_far += 1;
            calls.completed(&key, &call, &outcome).pop().unwrap().get("rawOutput").cloned()
        };
        let told = json!({"exit_code": 1, "driver": "namespaces", "changes_collected": true});
        let shown = json!({"exit_code": 1, "output": "two lines"});
        assert_eq!(raw("bash", told.clone()), Some(shown));
        assert_eq!(raw("bash_start", json!({"notes": ["x"]})), None);
        assert_eq!(raw("tickets_create", told.clone()), Some(told));
    }

    #[test]
    fn each_file_tool_has_a_title_in_editors() {
        let tools = file_tools(Path::new("/"));
        assert!(tools.len() > 1);
        for name in tools.names().iter() {
            let title = title(&call(None, name, &json!({"path": "a.rs"})));
            assert!(!title.contains(&**name), "`title` does not know `{name}`");
        }
    }

    #[test]
    fn a_call_that_is_not_known_is_told_of_before_its_end() {
        let mut calls = ToolCalls::new(Path::new("/w"));
        let ended = ToolOutcome::Returned(ToolOutput::text("a ``` b"));
        let call = call(Some("a"), "grep", &json!({"pattern": "b"}));
        let told = calls.completed(&(None, 1, 0), &call, &ended);
        assert_eq!(told[0]["sessionUpdate"], "tool_call");
        assert_eq!(told[1]["status"], "completed");
        assert_eq!(told[1]["content"][0]["content"]["text"], "````\na ``` b\n````");
        let failed = ToolOutcome::Blocked { reason: "not allowed".into() };
        let told = calls.completed(&(None, 1, 0), &call, &failed);
        assert_eq!(told[0]["status"], "failed");
        assert_eq!(told[0]["content"][0]["content"]["text"], "not allowed");
    }
}
