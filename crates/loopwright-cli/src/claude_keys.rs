//! Keys of Claude Code's settings besides permissions and hooks: `env`, `model` and `statusLine`.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::LlmConfig;
use loopwright_permissions::SettingsText;
use loopwright_sandbox::is_secret_name;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::claude_settings::{SharedSettings, are_used, shared_settings};
use crate::config::{
    Config, ConfigSources, Loaded, ModelName, ModelRef, Origin, Setting, SettingValue as _,
    Strings, Warning,
};
use crate::model;
use crate::project_settings::{ProjectSettings, has_claude_settings};

/// Variables that look like others that change programs, and do not.
const HARMLESS: [&str; 5] = [
    "GIT_TERMINAL_PROMPT",
    "NODE_ENV",
    "NODE_NO_WARNINGS",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
];

/// Variables that the sandbox sets.
const SET_HERE: [&str; 4] = ["HOME", "PATH", "SHELL", "TMPDIR"];

/// Names of the other program for a model that it chooses itself.
const CHOSEN: [&str; 4] = ["best", "default", "inherit", "opusplan"];

#[derive(Deserialize)]
struct StatusCommand {
    r#type: String,
    command: String,
}

/// What a file of settings says, with the lines.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClaudeKeys {
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) model: Option<(usize, String)>,
    pub(crate) status_line: Option<String>,
    /// What has no effect, and the line.
    pub(crate) ignored: Vec<(usize, String)>,
}

impl ClaudeKeys {
    /// Reads a file. A file that is not JSON has none: what reads its permissions says so.
    pub(crate) fn read(text: &str) -> Self {
        let text = SettingsText::new(text);
        let mut read = Self::default();
        let Ok(keys) = text.entries() else { return read };
        let line = |value: &RawValue| text.line(value);
        if let Some(value) = keys.get("env") {
            read.variables(value, line(value));
        }
        if let Some(value) = keys.get("model") {
            match serde_json::from_str::<Option<String>>(value.get()) {
                Ok(model) => read.model = model.map(|model| (line(value), model)),
                Err(_) => read.ignore(line(value), "`model` is ignored: it must be a string"),
            }
        }
        if let Some(value) = keys.get("statusLine") {
            match serde_json::from_str::<Option<StatusCommand>>(value.get()) {
                Ok(Some(status)) if status.r#type == "command" => {
                    read.status_line = Some(status.command);
                }
                Ok(None) => {}
                _ => read.ignore(
                    line(value),
                    "`statusLine` is ignored: it must have the type `command` and a `command`",
                ),
            }
        }
        read
    }

    fn ignore(&mut self, line: usize, message: impl Into<String>) {
        self.ignored.push((line, message.into()));
    }

    fn variables(&mut self, value: &RawValue, line: usize) {
        let Ok(Some(variables)) =
            serde_json::from_str::<Option<serde_json::Map<String, Value>>>(value.get())
        else {
            if value.get() != "null" {
                self.ignore(line, "`env` is ignored: it must be an object");
            }
            return;
        };
        for (name, value) in variables {
            let text = match &value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => {
                    self.ignore(line, format!("`env.{name}` is ignored: it must be a string"));
                    continue;
                }
            };
            match refused(&name) {
                None => self.variables.push((name, text)),
                Some(reason) => self.ignore(line, format!("`env.{name}` is ignored: {reason}")),
            }
        }
    }

    /// Returns what the file does once its project is trusted, a line each.
    pub(crate) fn to_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.variables.iter().map(|(name, value)| format!("variable {name}={value}")).collect();
        lines.extend(self.model.iter().map(|(_, model)| format!("model {model}")));
        lines.extend(self.status_line.iter().map(|it| format!("status line {it}")));
        lines
    }
}

/// Returns the reason why commands do not get a variable.
fn refused(name: &str) -> Option<&'static str> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(is_part) && name.chars().next().is_some_and(|c| !c.is_ascii_digit())
    };
    if !is_name(name) {
        return Some("the name is not a valid variable name");
    }
    if ["ANTHROPIC_", "CLAUDE_"].iter().any(|it| name.starts_with(it)) {
        return Some("the variable configures another program");
    }
    let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
    if SET_HERE.contains(&name) || is_proxy {
        return Some("the sandbox sets this variable");
    }
    let is_refused = is_secret_name(name) && !HARMLESS.contains(&name);
    is_refused.then_some(
        "the variable can contain a secret or change which programs run; add its name to `sandbox.environment` in your own configuration",
    )
}

/// Adds what the settings of Claude Code say to a configuration that does not say it: those of a project that is trusted, and
/// those of the user and the administrator where `permissions.claude` is set.
pub(crate) fn apply(loaded: &mut Loaded, sources: &ConfigSources) {
    let files = files(&loaded.config, sources);
    let mut warnings = Vec::new();
    let config = &mut loaded.config;
    let mut variables = Vec::new();
    for (origin, keys) in files {
        let path = origin.file().unwrap_or(Path::new("")).to_path_buf();
        for (name, value) in keys.variables {
            let is_new = !variables.iter().any(|(known, _)| *known == name);
            variables.extend(is_new.then_some((name, value)));
        }
        if let Some(command) = keys.status_line
            && config.chat.status_line.is_none()
        {
            config.chat.status_line = Some(Setting::new(command, origin.clone()));
        }
        let mut ignored = keys.ignored;
        if let Some((line, name)) = keys.model
            && config.model.is_none()
        {
            match usable(&name, config, sources) {
                Ok(model) => config.model = model.map(|it| Setting::new(it, origin.clone())),
                Err(reason) => ignored.push((line, format!("`model` is ignored: {reason}"))),
            }
        }
        let warning = |(line, message): (usize, String)| Warning::Claude {
            path: path.clone(),
            line,
            message,
        };
        warnings.extend(ignored.into_iter().map(warning));
    }
    if !variables.is_empty() {
        let own = config.sandbox.environment.take();
        let origin = own.as_ref().map_or(Origin::Default, |it| it.origin.clone());
        let mut all: Vec<String> =
            variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        // What is named for this program replaces what is named for the other one.
        all.extend(own.into_iter().flat_map(|it| it.value.0));
        config.sandbox.environment = Some(Setting::new(Strings(all), origin));
    }
    loaded.warnings.extend(warnings);
}

/// Reads the files that count, those that take precedence first. Those of a project that is not trusted do not.
fn files(config: &Config, sources: &ConfigSources) -> Vec<(Origin, ClaudeKeys)> {
    let mut files = Vec::new();
    let is_used = are_used(config) == Some(true);
    let shared = if is_used { shared_settings(sources) } else { Vec::new() };
    let (managed, own): (Vec<_>, Vec<_>) = shared.into_iter().partition(SharedSettings::is_managed);
    let read = |path: &Path, text: &str| (Arc::<Path>::from(path), ClaudeKeys::read(text));
    for file in managed {
        let (path, keys) = read(&file.path, &file.text);
        files.push((Origin::User(path), keys));
    }
    // What is wrong with decisions about folders is told where the permissions are read.
    if has_claude_settings(config)
        && let Ok(project) = ProjectSettings::find(config, sources)
    {
        for (_, path, text) in project.claude() {
            let (path, keys) = read(&path, text);
            let is_empty = keys.to_lines().is_empty() && keys.ignored.is_empty();
            if !is_empty && project.is_trusted() {
                files.push((Origin::Project(path), keys));
            }
        }
    }
    for file in own {
        let (path, keys) = read(&file.path, &file.text);
        files.push((Origin::User(path), keys));
    }
    files
}

/// Returns the model that a name stands for; `None` if the name leaves the choice to the program. It must be one that can be
/// asked, so that settings for another program do not keep this one from running.
fn usable(
    name: &str,
    config: &Config,
    sources: &ConfigSources,
) -> Result<Option<ModelRef>, String> {
    // The size of the context window can follow: `sonnet[1m]`.
    let name = name.split_once('[').map_or(name, |(name, _)| name).trim();
    if CHOSEN.contains(&name) {
        return Ok(None);
    }
    let unknown = || format!("unknown model `{name}`");
    let meant = ModelName::from_text(name).ok_or_else(unknown)?;
    let model =
        meant.resolve(&config.aliases, &config.providers, sources).map_err(|_| unknown())?;
    let providers = model::providers(config, sources).map_err(|error| error.summary())?;
    let llm = LlmConfig::named(&format!("{}/{}", model.provider(), model.name()));
    providers.check(Some(&llm)).map_err(|error| error.to_string())?;
    Ok(Some(model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_with_their_lines() {
        let text = r#"{
            "env": { "FOO": "bar", "N": 1, "LD_PRELOAD": "x.so", "MY_TOKEN": "t", "A B": "", "L": [] },
            "model": "sonnet[1m]",
            "statusLine": { "type": "command", "command": "date", "padding": 0 }
        }"#;
        let read = ClaudeKeys::read(text);
        let names: Vec<&str> = read.variables.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(names, ["FOO", "N"]);
        assert_eq!(read.model, Some((3, "sonnet[1m]".to_owned())));
        assert_eq!(read.status_line.as_deref(), Some("date"));
        let ignored: Vec<(usize, &str)> = read
            .ignored
            .iter()
            .map(|(line, message)| (*line, message.split(" is").next().unwrap()))
            .collect();
        let expect = ["`env.A B`", "`env.L`", "`env.LD_PRELOAD`", "`env.MY_TOKEN`"];
        assert_eq!(ignored, expect.map(|name| (2, name)));
        assert_eq!(
            read.to_lines(),
            ["variable FOO=bar", "variable N=1", "model sonnet[1m]", "status line date"]
        );
    }

    #[test]
    fn values_of_another_type_are_ignored_and_null_is_none() {
        let none = ClaudeKeys::read(r#"{ "env": null, "model": null, "statusLine": null }"#);
        assert_eq!(none, ClaudeKeys::default());
        let wrong = ClaudeKeys::read(r#"{ "env": [], "model": 1, "statusLine": "date" }"#);
        assert_eq!(wrong.ignored.len(), 3);
        assert_eq!(wrong.to_lines(), Vec::<String>::new());
        let repeated = ClaudeKeys::read(r#"{ "model": "a", "env": { "A": "1" }, "model": "b" }"#);
        assert_eq!(repeated.to_lines(), ["variable A=1", "model b"]);
    }

    #[test]
    fn variables_that_could_change_programs_or_contain_secrets_are_refused() {
        let names = [
            "PATH",
            "HOME",
            "LD_LIBRARY_PATH",
            "BASH_ENV",
            "NODE_OPTIONS",
            "GIT_SSH_COMMAND",
            "OPENAI_API_KEY",
            "https_proxy",
            "ANTHROPIC_MODEL",
            "LOOPWRIGHT_MODEL",
            "DATABASE_URL",
            "1A",
        ];
        assert_eq!(names.map(|name| refused(name).is_some()), [true; 12]);
        let names = ["FOO", "NODE_ENV", "PYTHONUNBUFFERED", "RUST_LOG"];
        assert_eq!(names.map(refused), [None; 4]);
    }
}
