//! Conversion of the content of a file to a definition.

mod budget;
mod capabilities;
mod fields;
mod llm;
mod own;
mod restrictions;
mod servers;
mod tools;

use loopwright_agent::{AgentDefinition, AgentMemory};
use loopwright_core::{Budget, LlmConfig};
use serde_json::Map;

use crate::document::Document;
use crate::problem::{Diagnostic, DiagnosticKind};

use self::fields::{Fields, Findings};
pub(crate) use self::llm::ModelNames;
pub use self::own::privileged_settings;
pub(crate) use self::own::settings;

/// Keys of other programs that do nothing here yet.
const UNSUPPORTED: [&str; 2] = ["color", "version"];

pub(crate) const PROMPT: [&str; 4] = ["systemPrompt", "system_prompt", "prompt", "system"];

const NAME_REMEDY: &str = "add `name:` with the agent's name";
const DESCRIPTION_REMEDY: &str = "add `description:` and state when to use the agent";
const PROMPT_REMEDY: &str = "add `systemPrompt:` with the agent's instructions";
const BODY_REMEDY: &str = "write the prompt below the front matter";

/// What was made of a document, whatever is wrong with it.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) definition: AgentDefinition,
    /// What keeps it from being used.
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// What the program knows and supports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    pub(crate) models: ModelNames,
    /// The events whose hooks it runs.
    pub(crate) hooks: Vec<&'static str>,
    /// Whether agents can have a memory.
    pub(crate) has_memory: bool,
    /// Whether sub-agents can have working trees of their own.
    pub(crate) has_worktrees: bool,
}

/// Whose word a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The user, or the program: it may say everything.
    User,
    /// Another person, such as the author of a repository.
    Other,
}

/// Reads what a document says.
pub(crate) fn definition(document: Document, host: &Host, author: Author) -> Reading {
    let Document { values, lines, body, repeated, warnings } = document;
    let mut found = Findings { errors: Vec::new(), warnings };
    for repeated in repeated {
        let (line, key) = (Some(repeated.line), Some(repeated.key));
        found.errors.push(Diagnostic { line, key, kind: DiagnosticKind::Repeated });
    }
    let mut fields = Fields::new(values, lines.clone(), &mut found);
    let capabilities = capabilities::read(&mut fields);
    let restrictions = tools::restrictions(&mut fields);
    let definition = AgentDefinition {
        name: name(&mut fields),
        label: label(&mut fields),
        description: required(&mut fields, &["description"], DESCRIPTION_REMEDY),
        system_prompt: prompt(&mut fields, body),
        llm: chosen_model(&mut fields, &host.models),
        capabilities: capabilities.names,
        capability_config: capabilities.config,
        tools: restrictions.tools,
        tools_deny: restrictions.tools_deny,
        call_rules: restrictions.call_rules,
        skills: fields.names(&["skills"]).unwrap_or_default(),
        mcp_servers: servers::read(&mut fields),
        hooks: restrictions::hooks(&mut fields, &host.hooks),
        initial_prompt: initial_prompt(&mut fields),
        memory: memory(&mut fields, host),
        isolation: restrictions::isolation(&mut fields, host),
        background: fields.switch(&["background"]).unwrap_or_default(),
        budget: limits(&mut fields),
        metadata: fields.map(&["metadata"]).map_or_else(Map::new, |it| it.values),
    };
    restrictions::refuse(&mut fields);
    fields.ignore(&UNSUPPORTED, &DiagnosticKind::Unsupported);
    fields.rest();
    let Findings { mut errors, mut warnings } = found;
    if author == Author::Other {
        errors.extend(own::problems(&definition, &lines));
    }
    // What has no line comes last.
    let place = |it: &Diagnostic| it.line.unwrap_or(usize::MAX);
    errors.sort_by_key(place);
    warnings.sort_by_key(place);
    Reading { definition, errors, warnings }
}

/// Returns `true` if a text can name an agent.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    (1..=64).contains(&name.len())
        && name.bytes().next().is_some_and(is_plain)
        && name.bytes().all(|it| is_plain(it) || it == b'-' || it == b'_')
}

fn name(fields: &mut Fields<'_>) -> String {
    let Some((at, name)) = fields.text(&["name"]) else {
        fields.missing("name", NAME_REMEDY);
        return String::new();
    };
    let name = name.trim().to_owned();
    if name.is_empty() {
        fields.error(at, DiagnosticKind::Missing { remedy: NAME_REMEDY });
    } else if !is_name(&name) {
        fields.error(at, DiagnosticKind::BadName(name.clone()));
    }
    name
}

fn initial_prompt(fields: &mut Fields<'_>) -> Option<String> {
    let (_, prompt) = fields.text(&["initialPrompt", "initial_prompt"])?;
    Some(prompt_of(&prompt)).filter(|it| !it.is_empty())
}

fn memory(fields: &mut Fields<'_>, host: &Host) -> Option<AgentMemory> {
    if !host.has_memory {
        fields.ignore(&["memory"], &DiagnosticKind::Unsupported);
        return None;
    }
    let (at, text) = fields.text(&["memory"])?;
    match text.trim() {
        "user" => Some(AgentMemory::User),
        "project" => Some(AgentMemory::Project),
        "local" => Some(AgentMemory::Local),
        other => {
            let problem = format!("unknown place `{other}`; write `user`, `project` or `local`");
            fields.error(at, DiagnosticKind::InvalidValue(problem));
            None
        }
    }
}

fn label(fields: &mut Fields<'_>) -> Option<String> {
    let (_, label) = fields.text(&["label", "title"])?;
    Some(label.trim().to_owned()).filter(|it| !it.is_empty())
}

fn required(fields: &mut Fields<'_>, keys: &[&'static str], remedy: &'static str) -> String {
    match fields.text(keys) {
        Some((at, text)) if text.trim().is_empty() => {
            fields.error(at, DiagnosticKind::Missing { remedy });
            String::new()
        }
        Some((_, text)) => text.trim().to_owned(),
        None => {
            fields.missing(keys[0], remedy);
            String::new()
        }
    }
}

/// Returns a prompt without blanks around it, and with plain ends of lines.
pub(crate) fn prompt_of(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").trim().to_owned()
}

/// Takes the prompt: in formats that have a text below the values, it is that text.
fn prompt(fields: &mut Fields<'_>, body: Option<String>) -> String {
    let Some(body) = body else {
        return prompt_of(&required(fields, &PROMPT, PROMPT_REMEDY));
    };
    let body = prompt_of(&body);
    if body.is_empty() {
        fields.missing(PROMPT[0], BODY_REMEDY);
    }
    fields.ignore(&PROMPT, &DiagnosticKind::BodyOverrides);
    body
}

fn chosen_model(fields: &mut Fields<'_>, models: &ModelNames) -> Option<LlmConfig> {
    let llm = llm::selection(fields, models);
    let effort = llm::effort(fields);
    match (llm, effort) {
        (llm, None) => llm,
        (llm, effort) => {
            let mut llm = llm.unwrap_or_default();
            llm.options.reasoning_effort = effort.or(llm.options.reasoning_effort);
            Some(llm)
        }
    }
}

fn limits(fields: &mut Fields<'_>) -> Option<Budget> {
    let mut budget = fields.map(&["budget"]).map(|it| budget::read(it, fields)).unwrap_or_default();
    if let Some((at, turns)) = fields.count::<u32>(&["maxTurns"]) {
        if budget.steps.is_some() {
            fields.error(at, DiagnosticKind::ConflictingKeys { other: "budget.maxSteps" });
        }
        budget.steps = Some(turns);
    }
    (budget != Budget::default()).then_some(budget)
}
