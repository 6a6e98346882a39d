//! Option values in the types of the configuration.

use std::ffi::OsStr;
use std::path::Path;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};
use loopwright_agent::NameList;
use loopwright_capabilities::structured::AnswerSchema;
use loopwright_core::messages::ReasoningEffort;
use loopwright_mcp::{EntryError, McpFile};
use loopwright_permissions::{Mode, ToolRule};
use serde_json::Value;

use crate::config::{BaseUrl, NamedServers, SettingValue, Text};
use crate::named_file;

/// How long a file of JSON may be that an option names.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Parses a value or reports what was expected; clap adds the option and the input.
pub(super) fn parsed<T: SettingValue>(text: &str) -> Result<T, String> {
    T::from_text(text).ok_or_else(|| format!("must be {}, such as `{}`", T::EXPECTED, T::example()))
}

/// Parses how much a model reasons. `xhigh` and `max` of other programs stand for the highest level.
pub(super) fn effort(text: &str) -> Result<ReasoningEffort, String> {
    match text {
        "minimal" => Ok(ReasoningEffort::Minimal),
        "low" => Ok(ReasoningEffort::Low),
        "medium" => Ok(ReasoningEffort::Medium),
        "high" | "xhigh" | "max" => Ok(ReasoningEffort::High),
        _ => Err("must be `minimal`, `low`, `medium` or `high`".to_owned()),
    }
}

/// Parses a permission mode. The names of Gemini CLI that differ stand for the modes that do the same.
pub(super) fn permission_mode(text: &str) -> Result<Mode, String> {
    match text {
        "auto_edit" => Ok(Mode::AcceptEdits),
        "yolo" => Ok(Mode::Unconfined),
        _ => parsed(text),
    }
}

/// Returns the JSON of a value, which is the value itself or in the file that the value names.
fn json_or_file(text: &str, is_json: bool, content: &str) -> Result<String, String> {
    if is_json {
        return Ok(text.to_owned());
    }
    named_file::read_text(Path::new(text), MAX_FILE_BYTES).map_err(|error| {
        format!("cannot read the {content}: {error}; pass a file or a JSON object")
    })
}

/// Parses MCP servers, or reads them from a file. Each of them must be valid.
pub(super) fn mcp_servers(text: &str) -> Result<NamedServers, String> {
    let is_json = text.trim_start().starts_with('{');
    let json = json_or_file(text, is_json, "servers")?;
    let file = McpFile::parse(&json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("line {line}, column {column}: not a valid MCP server file; pass an object with `mcpServers`")
    })?;
    if file.servers.is_empty() {
        return Err("it has no servers; pass an object with `mcpServers`".to_owned());
    }
    let servers: Result<_, _> = file.servers().collect();
    let servers = servers.map_err(|error: EntryError| error.to_string())?;
    let source = if is_json { NamedServers::OPTION.into() } else { text.into() };
    Ok(NamedServers { source, servers })
}

/// Parses tool names separated by commas or blanks.
pub(super) fn tool_list(text: &str) -> Result<NameList, String> {
    let rules = ToolRule::list(text);
    match rules.iter().find(|it| it.is_conditional()) {
        Some(rule) => Err(format!(
            "`{rule}` is a rule, not a tool; pass the tool here, and the rule with --allow or --deny"
        )),
        None => Ok(rules.iter().map(ToolRule::as_str).collect()),
    }
}

/// Parses a command. An empty one is that of a variable which is not set, and checks nothing.
pub(super) fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the command is empty; pass a command such as `cargo test`".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses a JSON Schema, or reads it from a file.
pub(super) fn answer_schema(text: &str) -> Result<AnswerSchema, String> {
    let is_value = || !Path::new(text).exists() && serde_json::from_str::<Value>(text).is_ok();
    let is_json = text.trim_start().starts_with('{') || is_value();
    let json = json_or_file(text, is_json, "schema")?;
    let schema: Value =
        serde_json::from_str(&json).map_err(|error| format!("not JSON: {error}"))?;
    if !schema.is_object() {
        return Err("a schema for answers must be a JSON object, such as `{\"type\": \"array\"}`"
            .to_owned());
    }
    AnswerSchema::new(&schema).map_err(|error| error.to_string())
}

/// Parses a base URL without echoing an invalid one, which may contain a password.
#[derive(Clone, Copy, Debug)]
pub(super) struct BaseUrlParser;

/// Parses a session store URL without echoing an invalid one.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreParser;

impl TypedValueParser for BaseUrlParser {
    type Value = BaseUrl;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<BaseUrl, clap::Error> {
        unrepeated(command, "--base-url <URL>", value)
    }
}

impl TypedValueParser for StoreParser {
    type Value = Text;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Text, clap::Error> {
        unrepeated(command, "--store <URL>", value)
    }
}

fn unrepeated<T: SettingValue>(
    command: &Command,
    option: &str,
    value: &OsStr,
) -> Result<T, clap::Error> {
    value.to_str().ok_or_else(String::new).and_then(parsed).map_err(|problem| {
        let message = format!("invalid value for '{option}': {problem}");
        command.clone().error(ErrorKind::ValueValidation, message)
    })
}
