//! Reading `hooks` of settings files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_permissions::{SettingsEntries, SettingsText};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Action, CommandHook, HookEvent, Matcher, OnFailure};

/// Reads the hooks of a settings file. A part that cannot be read is a warning with its line. Before a call and a prompt it
/// becomes a hook that blocks, so that no guard is lost.
pub(crate) fn read(path: &Path, text: &str) -> (Vec<CommandHook>, Vec<String>) {
    let mut reader = Reader::new(path, text);
    reader.has_lines = true;
    reader.file();
    (reader.hooks, reader.warnings)
}

/// Returns `true` if the text of a file of settings can be read. If not, a hook that blocks stands for the hooks that it
/// may have.
pub(crate) fn is_readable(text: &str) -> bool {
    SettingsText::new(text).entries().is_ok()
}

/// Reads the hooks of an agent file or a skill, by the names of their events.
pub(crate) fn read_events(
    path: &Path,
    events: &Map<String, Value>,
) -> (Vec<CommandHook>, Vec<String>) {
    let text = json!({ "hooks": events }).to_string();
    let mut reader = Reader::new(path, &text);
    reader.file();
    (reader.hooks, reader.warnings)
}

/// Reads a value, or returns `None` if it has another type.
fn of<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

fn is_empty(list: Option<Vec<&RawValue>>) -> bool {
    list.is_none_or(|it| it.is_empty())
}

struct Reader<'a> {
    path: Arc<PathBuf>,
    text: SettingsText<'a>,
    /// Whether the text is that of the file.
    has_lines: bool,
    hooks: Vec<CommandHook>,
    warnings: Vec<String>,
}

/// What the hooks of a group have in common.
struct Group<'g> {
    event: HookEvent,
    matcher: &'g Matcher,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, text: &'a str) -> Self {
        let path = Arc::new(path.to_path_buf());
        let text = SettingsText::new(text);
        Self { path, text, has_lines: false, hooks: Vec::new(), warnings: Vec::new() }
    }

    /// Returns where a value is in the file, which contains it.
    fn place(&self, value: &RawValue) -> String {
        let path = self.path.display();
        if self.has_lines { format!("{path}:{}", self.text.line(value)) } else { path.to_string() }
    }

    fn warn(&mut self, value: &RawValue, message: &str) {
        let place = self.place(value);
        self.warnings.push(format!("{place}: {message}"));
    }

    fn file(&mut self) {
        match self.text.entries() {
            Ok(settings) => self.settings(&settings),
            Err(error) => {
                let place = format!("{}:{}", self.path.display(), error.line());
                let group = Group { event: HookEvent::PreToolUse, matcher: &Matcher::Every };
                self.lost_at(&place, &group, None, &format!("the file cannot be read: {error}"));
            }
        }
    }

    fn settings(&mut self, settings: &SettingsEntries<'a>) {
        if let Some(value) = settings.get("disableAllHooks") {
            match of(value) {
                Some(true) => return,
                Some(false) => {}
                None => {
                    self.warn(value, "`disableAllHooks` is not `true` or `false`; the hooks run");
                }
            }
        }
        // A key that occurs twice does not hide the hooks of the first one.
        let hooks = settings.0.iter().filter(|(key, _)| key == "hooks");
        for value in hooks.map(|(_, value)| *value) {
            match SettingsEntries::of(value) {
                Some(events) => {
                    events.0.into_iter().for_each(|(name, groups)| self.event(&name, groups));
                }
                None if of::<Option<Vec<&RawValue>>>(value).is_some_and(is_empty) => {}
                None => {
                    let group = Group { event: HookEvent::PreToolUse, matcher: &Matcher::Every };
                    self.lost(value, &group, None, "`hooks` is not an object");
                }
            }
        }
    }

    fn event(&mut self, name: &str, groups: &'a RawValue) {
        let Some(event) = HookEvent::ALL.into_iter().find(|event| event.name() == name) else {
            return self.warn(groups, &format!("hooks for the event `{name}` are not supported"));
        };
        let every = Group { event, matcher: &Matcher::Every };
        let Some(list) = of::<Vec<&'a RawValue>>(groups) else {
            if groups.get() != "null" {
                self.lost(groups, &every, None, &format!("`hooks.{name}` is not a list"));
            }
            return;
        };
        for value in list {
            match SettingsEntries::of(value) {
                Some(group) => self.group(event, value, &group),
                None => {
                    self.lost(
                        value,
                        &every,
                        None,
                        &format!("an entry in `hooks.{name}` is not an object"),
                    );
                }
            }
        }
    }

    fn group(&mut self, event: HookEvent, value: &'a RawValue, group: &SettingsEntries<'a>) {
        let name = event.name();
        let matcher = match group.get("matcher") {
            None => Matcher::Every,
            Some(value) => self.matcher(event, value),
        };
        let of_group = Group { event, matcher: &matcher };
        let mut has_hooks = false;
        for (key, value) in group.0.iter().map(|(key, value)| (key, *value)) {
            match key.as_str() {
                "matcher" => {}
                "hooks" => {
                    has_hooks = true;
                    if let Some(hooks) = of::<Vec<&'a RawValue>>(value) {
                        for hook in hooks {
                            self.hook(&of_group, hook);
                        }
                    } else {
                        let problem =
                            format!("`hooks` of an entry in `hooks.{name}` is not a list");
                        self.lost(value, &of_group, None, &problem);
                    }
                }
                key => {
                    self.warn(value, &format!("`{key}` of an entry in `hooks.{name}` is ignored"));
                }
            }
        }
        if !has_hooks {
            self.lost(
                value,
                &of_group,
                None,
                &format!("an entry in `hooks.{name}` has no `hooks`"),
            );
        }
    }

    fn matcher(&mut self, event: HookEvent, value: &'a RawValue) -> Matcher {
        let problem = match of::<Option<String>>(value) {
            Some(text) => match Matcher::new(text.as_deref().unwrap_or_default()) {
                Ok(matcher) => return matcher,
                Err(_) => "regular expression",
            },
            None => "string",
        };
        // A hook that matches too much is safer than one that matches nothing.
        let name = event.name();
        let message =
            format!("a `matcher` in `hooks.{name}` is not a {problem}; every name matches");
        self.warn(value, &message);
        Matcher::Every
    }

    fn hook(&mut self, group: &Group<'_>, value: &'a RawValue) {
        let name = group.event.name();
        let Some(hook) = SettingsEntries::of(value) else {
            return self.lost(
                value,
                group,
                None,
                &format!("a hook in `hooks.{name}` is not an object"),
            );
        };
        let condition = match hook.get("if").map(|it| (it, of::<Option<String>>(it))) {
            None => None,
            Some((_, Some(rule))) => rule,
            Some((value, None)) => {
                let told =
                    format!("`if` of a hook in `hooks.{name}` is not a rule; every call matches");
                self.warn(value, &told);
                None
            }
        };
        let kind = hook.get("type").and_then(of::<String>);
        let command = hook.get("command").and_then(of::<String>);
        match (kind.as_deref(), command.filter(|it| !it.trim().is_empty())) {
            (Some("command"), Some(command)) => {
                let hook = self.command(group, condition, command, &hook);
                self.hooks.push(hook);
            }
            (Some("command"), None) => {
                self.lost(
                    value,
                    group,
                    condition,
                    &format!("a hook in `hooks.{name}` has no `command`"),
                );
            }
            (None, _) => {
                self.lost(
                    value,
                    group,
                    condition,
                    &format!("a hook in `hooks.{name}` has no `type`"),
                );
            }
            (Some(kind), _) => self.unsupported(value, group, condition, kind),
        }
    }

    /// Reads a hook that runs a command, with its settings.
    fn command(
        &mut self,
        group: &Group<'_>,
        condition: Option<String>,
        command: String,
        entries: &SettingsEntries<'a>,
    ) -> CommandHook {
        let Group { event, matcher } = *group;
        let mut hook = CommandHook {
            event,
            matcher: matcher.clone(),
            condition,
            action: Action::Run(command),
            timeout: event.default_timeout(),
            on_failure: OnFailure::Continue,
            is_once: false,
            source: Arc::clone(&self.path),
            skill: None,
        };
        for (key, value) in &entries.0 {
            let odd = match key.as_str() {
                "type" | "command" | "if" => None,
                "timeout" => {
                    let timeout = of::<f64>(value).map(Duration::try_from_secs_f64);
                    match timeout {
                        Some(Ok(timeout)) if !timeout.is_zero() => {
                            hook.timeout = timeout;
                            None
                        }
                        _ => Some("is not a number of seconds; the default timeout applies"),
                    }
                }
                "onFailure" => match of::<String>(value).as_deref() {
                    Some("block") => {
                        hook.on_failure = OnFailure::Block;
                        None
                    }
                    Some("continue") => None,
                    _ => {
                        hook.on_failure = OnFailure::Block;
                        Some("is not `block` or `continue`; a failure blocks")
                    }
                },
                "once" => match of::<bool>(value) {
                    Some(is_once) => {
                        hook.is_once = is_once;
                        None
                    }
                    None => Some("is not `true` or `false`; the hook runs each time"),
                },
                "async" | "asyncRewake" => (of::<bool>(value) != Some(false))
                    .then_some("is ignored; the agent waits for the hook"),
                "shell" => (of::<String>(value).as_deref() != Some("bash")).then_some("is ignored"),
                _ => Some("is ignored"),
            };
            if let Some(odd) = odd {
                self.warn(value, &format!("`{key}` of a hook in `hooks.{}` {odd}", event.name()));
            }
        }
        hook
    }

    /// Adds the stand-in for a hook of a type that does not run here. Before a call, the user decides in its place.
    fn unsupported(
        &mut self,
        value: &RawValue,
        group: &Group<'_>,
        condition: Option<String>,
        kind: &str,
    ) {
        let name = group.event.name();
        let problem = format!("a hook in `hooks.{name}` has the unsupported type `{kind}`");
        if group.event == HookEvent::PreToolUse {
            self.warn(value, &format!("{problem}, so calls that it matches need approval"));
            let reason = format!("{}: {problem}", self.place(value));
            self.stand_in(group, condition, Action::Ask(reason));
        } else {
            self.warn(value, &problem);
        }
    }

    /// Reports a hook that cannot be read.
    fn lost(
        &mut self,
        value: &RawValue,
        group: &Group<'_>,
        condition: Option<String>,
        problem: &str,
    ) {
        let place = self.place(value);
        self.lost_at(&place, group, condition, problem);
    }

    fn lost_at(
        &mut self,
        place: &str,
        group: &Group<'_>,
        condition: Option<String>,
        problem: &str,
    ) {
        let effect = match group.event {
            HookEvent::PreToolUse => "so calls that it could match are blocked",
            HookEvent::UserPromptSubmit => "so messages are blocked",
            _ => return self.warnings.push(format!("{place}: {problem}; it is ignored")),
        };
        self.warnings.push(format!("{place}: {problem}, {effect}"));
        self.stand_in(group, condition, Action::Block(format!("{place}: {problem}")));
    }

    fn stand_in(&mut self, group: &Group<'_>, condition: Option<String>, action: Action) {
        self.hooks.push(CommandHook {
            event: group.event,
            matcher: group.matcher.clone(),
            condition,
            action,
            timeout: group.event.default_timeout(),
            on_failure: OnFailure::Block,
            is_once: false,
            source: Arc::clone(&self.path),
            skill: None,
        });
    }
}
