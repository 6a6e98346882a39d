//! Tools that reach nothing but files, by their own declaration.

use loopwright_agent::{AgentBuilder, UseTools};
use loopwright_core::{BoxError, Reach, SideEffects, ToolOptions, Writes, tool_fn};
use loopwright_permissions::{Decision, Mode};
use loopwright_testing::{FakeModel, ScenarioStep};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{run, using};
use crate::llm::UseLlm;

#[derive(Deserialize, JsonSchema)]
struct FileArgs {
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Runs,
    Asks,
    Denied,
}
use Outcome::{Asks, Denied, Runs};

/// Returns what becomes of a call of a tool that writes or reads a file.
fn outcome(
    side_effects: SideEffects,
    path: &str,
    mode: Mode,
    rules: &[(Decision, &str)],
) -> Outcome {
    let tool = tool_fn("convert", "", |_: FileArgs| async { Ok::<_, BoxError>("converted") });
    let reach = Reach::Workspace;
    let tool = tool.with_options(ToolOptions { side_effects, reach, ..ToolOptions::default() });
    let tool = match side_effects {
        SideEffects::ReadOnly => tool,
        _ => tool.with_writes(|args| Writes::path(&args.path)),
    };
    let call = ScenarioStep::tool_call("convert", json!({ "path": path }));
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(FakeModel::script([call, "done".into()])))
        .with(UseTools::new().with_tool(tool))
        .with(using(mode, rules))
        .build()
        .unwrap();
    let state = run(&agent);
    match state.tool_calls().next() {
        _ if !state.pending().is_empty() => Asks,
        Some((_, result)) if result.to_text() == "converted" => Runs,
        _ => Denied,
    }
}

#[test]
fn modes_decide_about_a_tool_that_writes_files() {
    let write = |path, mode| outcome(SideEffects::AtMostOnce, path, mode, &[]);
    let modes = [Mode::Plan, Mode::Ask, Mode::AcceptEdits, Mode::Auto, Mode::Deny];
    let inside = modes.map(|mode| write("src/main.rs", mode));
    assert_eq!(inside, [Denied, Asks, Runs, Runs, Denied]);
    // The tool itself refuses it: its calls are confined.
    let outside = modes.map(|mode| write("../main.rs", mode));
    assert_eq!(outside, [Denied, Asks, Asks, Runs, Denied]);
}

#[test]
fn modes_decide_about_a_tool_that_reads_files() {
    let read = |path, mode| outcome(SideEffects::ReadOnly, path, mode, &[]);
    let modes = [Mode::Plan, Mode::Ask, Mode::AcceptEdits, Mode::Auto, Mode::Deny];
    assert_eq!(modes.map(|mode| read("a.txt", mode)), [Runs, Runs, Runs, Runs, Denied]);
    assert_eq!(modes.map(|mode| read("/a.txt", mode)), [Asks, Asks, Asks, Runs, Denied]);
}

#[test]
fn rules_for_files_decide_about_it() {
    let with = |side_effects, decision, rule| {
        outcome(side_effects, "src/main.rs", Mode::Ask, &[(decision, rule)])
    };
    let write = |decision, rule| with(SideEffects::AtMostOnce, decision, rule);
    assert_eq!(write(Decision::Allow, "Edit(src/**)"), Runs);
    assert_eq!(write(Decision::Allow, "Edit"), Runs);
    assert_eq!(write(Decision::Allow, "convert"), Runs);
    assert_eq!(write(Decision::Allow, "Edit(docs/**)"), Asks);
    assert_eq!(write(Decision::Deny, "Edit(src/**)"), Denied);
    let read = |decision, rule| with(SideEffects::ReadOnly, decision, rule);
    assert_eq!(read(Decision::Deny, "Read(src/**)"), Denied);
    assert_eq!(read(Decision::Ask, "Read(src/**)"), Asks);
}
