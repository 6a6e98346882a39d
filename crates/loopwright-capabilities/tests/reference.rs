//! The page of all tools is made of their schemas.

use std::{fmt::Write as _, fs, sync::Arc};

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_capabilities::bash::{Background, UseBash};
use loopwright_core::AnyTool;
use loopwright_sandbox::FakeSandbox;
use loopwright_testing::FakeModel;
use serde_json::Value;

use crate::everything::{Part, World, all};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tools.md");

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");

const BEGINNING: &str = "\
# Tools

The tools of the capabilities, with their descriptions and arguments as models see them. [Tools](../tools.md) describes the rules and limits of
the file tools; the page of each capability describes its configuration. *Side effects* states if a call can be repeated:
`read_only` and `idempotent` calls run again after a crash, others do not.

This page is generated from the schemas: `LOOPWRIGHT_WRITE=1 cargo test -p loopwright-capabilities --test main reference`.
";

#[test]
fn the_page_of_tools_is_that_of_their_schemas() {
    let world = World::new();
    let mut page = BEGINNING.to_owned();
    for part in all() {
        let tools = tools(part, &world);
        if tools.is_empty() {
            continue;
        }
        // The tool is its own capability's only content.
        let name = if part.name == "use_tools" { "LlmQueryTool" } else { part.name };
        write!(page, "\n## `{name}`\n").unwrap();
        for tool in &tools {
            describe(tool, &mut page);
        }
    }
    if std::env::var_os("LOOPWRIGHT_WRITE").is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    assert!(
        fs::read_to_string(PAGE).is_ok_and(|it| it == page),
        "docs/reference/tools.md is stale: \
         LOOPWRIGHT_WRITE=1 cargo test -p loopwright-capabilities --test main reference"
    );
}

#[test]
fn every_tool_for_files_and_commands_has_a_section_about_what_it_does() {
    let page = fs::read_to_string(GUIDE).unwrap();
    let world = World::new();
    let coding = ["use_file_tools", "use_bash"];
    for part in all().filter(|it| coding.contains(&it.name)) {
        for tool in tools(part, &world) {
            // What runs in the background is told of with what does not.
            let name: &str = tool.name();
            let section = if name.starts_with("bash_") { "bash" } else { name };
            assert!(page.contains(&format!("\n## `{section}`\n")), "{section}");
            assert!(page.contains(name), "docs/tools.md says nothing of `{name}`");
        }
    }
}

/// The tools of a capability, those for commands in the background included.
fn tools(part: &Part, world: &World) -> Vec<AnyTool> {
    let builder = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(["ok"])))
        .with_shared_capability(part.make(world));
    let builder = match part.name {
        "use_bash" => {
            let bash = UseBash::in_dir(world.dir()).with_background(Background::Allowed);
            builder.with_capability(bash.with_sandbox(Arc::new(FakeSandbox::new())))
        }
        _ => builder,
    };
    // What a registry has on demand is not its own.
    builder.build().unwrap().tools().iter().filter(|it| &**it.name() != "extra").cloned().collect()
}

fn describe(tool: &AnyTool, page: &mut String) {
    let spec = tool.spec();
    let effects = serde_json::to_value(tool.options().side_effects).unwrap();
    let effects = effects.as_str().unwrap();
    let about = spec.description.lines().next().unwrap_or_default();
    write!(page, "\n### `{}`\n\n{about}\n\nSide effects: `{effects}`.\n", spec.name).unwrap();
    let Some(arguments) = spec.parameters["properties"].as_object().filter(|it| !it.is_empty())
    else {
        page.push_str("\nIt takes no arguments.\n");
        return;
    };
    page.push_str("\n| argument | type | |\n|---|---|---|\n");
    let required = spec.parameters["required"].as_array().cloned().unwrap_or_default();
    for (name, schema) in arguments {
        let about = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
        let about = about.replace('|', "\\|");
        let must = if required.contains(&Value::from(name.as_str())) { ", required" } else { "" };
        writeln!(page, "| `{name}` | {}{must} | {about} |", kind(&spec.parameters, schema))
            .unwrap();
    }
}

/// Names the type of an argument.
fn kind(parameters: &Value, schema: &Value) -> String {
    let schema = resolved(parameters, schema);
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().filter(|it| !it.is_null());
        let values: Vec<String> = values.map(|it| format!("`{it}`")).collect();
        // The definitions of the agent that the page is made of are not another agent's.
        return values.join(", ").replace("`\"helper\"`", "name of a definition");
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return "anything".to_owned(),
    };
    let kinds = kinds.into_iter().filter(|it| *it != "null").map(|it| match it {
        "array" => format!("list of {}", kind(parameters, &schema["items"])),
        kind => kind.to_owned(),
    });
    kinds.collect::<Vec<_>>().join(" or ")
}

/// Follows references, and leaves out that an argument may be null.
fn resolved<'a>(parameters: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/"));
    if let Some(name) = name {
        return resolved(parameters, &parameters["$defs"][name]);
    }
    let is_null = |it: &&Value| it["type"] == "null";
    let choice = schema["anyOf"].as_array().and_then(|it| it.iter().find(|it| !is_null(it)));
    choice.map_or(schema, |choice| resolved(parameters, choice))
}
