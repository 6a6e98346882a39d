//! Reading `hooks` of settings files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CommandHook, HookEvent, Matcher, OnFailure};

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    hooks: Vec<Value>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default, rename = "if")]
    condition: Option<String>,
    #[serde(default, rename = "onFailure")]
    on_failure: Option<String>,
}

/// Reads the hooks of a settings file. Unsupported entries are warnings, and do not run.
pub(crate) fn read(path: &Path, text: &str) -> (Vec<CommandHook>, Vec<String>) {
    let mut reader = Reader::new(path);
    match serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) {
        Ok(settings) => reader.settings(&settings),
        // Other readers of the file report invalid JSON if it contains more than hooks.
        Err(error) => reader.warn(&format!("the file cannot be read: {error}")),
    }
    (reader.hooks, reader.warnings)
}

/// Reads the hooks of an agent file, by the names of their events.
pub(crate) fn read_events(
    path: &Path,
    events: &Map<String, Value>,
) -> (Vec<CommandHook>, Vec<String>) {
    let mut reader = Reader::new(path);
    reader.settings(&json!({ "hooks": events }));
    (reader.hooks, reader.warnings)
}

struct Reader {
    path: Arc<std::path::PathBuf>,
    hooks: Vec<CommandHook>,
    warnings: Vec<String>,
}

impl Reader {
    fn new(path: &Path) -> Self {
        Self { path: Arc::new(path.to_path_buf()), hooks: Vec::new(), warnings: Vec::new() }
    }

    fn warn(&mut self, message: &str) {
        self.warnings.push(format!("{}: {message}", self.path.display()));
    }

    fn settings(&mut self, settings: &Value) {
        if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
            return;
        }
        let Some(hooks) = settings.get("hooks") else { return };
        let Some(events) = hooks.as_object() else {
            return self.warn("`hooks` is not an object and is ignored");
        };
        for (name, groups) in events {
            let Some(event) = HookEvent::ALL.into_iter().find(|event| event.name() == name) else {
                self.warn(&format!("hooks for the event `{name}` are not supported"));
                continue;
            };
            match Vec::<Group>::deserialize(groups) {
                Ok(groups) => groups.iter().for_each(|group| self.group(event, group)),
                Err(error) => self.warn(&format!("hooks of `{name}` are ignored: {error}")),
            }
        }
    }

    fn group(&mut self, event: HookEvent, group: &Group) {
        let matcher =
            if let Ok(matcher) = Matcher::new(group.matcher.as_deref().unwrap_or_default()) {
                matcher
            } else {
                // A hook that matches too much is safer than one that matches nothing.
                self.warn(&format!(
                    "a matcher of `{}` is not a regular expression; it matches every name",
                    event.name()
                ));
                Matcher::Every
            };
        for entry in &group.hooks {
            match Entry::deserialize(entry) {
                Ok(entry) => self.entry(event, &matcher, entry),
                Err(error) => {
                    self.warn(&format!("a hook of `{}` is ignored: {error}", event.name()));
                }
            }
        }
    }

    fn entry(&mut self, event: HookEvent, matcher: &Matcher, entry: Entry) {
        let name = event.name();
        let command = match (entry.kind.as_str(), entry.command) {
            ("command", Some(command)) if !command.trim().is_empty() => command,
            ("command", _) => return self.warn(&format!("a hook of `{name}` has no command")),
            (kind, _) => {
                return self.warn(&format!(
                    "a hook of `{name}` has the type `{kind}`, which is not supported"
                ));
            }
        };
        let timeout = entry.timeout.and_then(|it| Duration::try_from_secs_f64(it).ok());
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        let on_failure = match entry.on_failure.as_deref() {
            Some("block") => OnFailure::Block,
            _ => OnFailure::Continue,
        };
        self.hooks.push(CommandHook {
            event,
            matcher: matcher.clone(),
            condition: entry.condition,
            command,
            timeout: timeout.unwrap_or(event.default_timeout()),
            on_failure,
            source: Arc::clone(&self.path),
        });
    }
}
