//! What tools declare of the files that they write.

use loopwright_core::{
    BoxError, ChangedFile, FilesChanged, NoArgs, SideEffects, Tool, ToolCx, ToolExecutor,
    ToolOptions, ToolOutput, ToolSet, Writes, messages::ToolCall, tool_fn,
};
use loopwright_testing::{MockTool, ScenarioStep};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::support::{agent, asked, execute, outcomes};

/// A tool that declares before the call what it writes, and after it what it has changed.
struct Copy;

#[derive(Deserialize, JsonSchema)]
struct CopyArgs {
    from: String,
    to: String,
}

impl Tool for Copy {
    type Args = CopyArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "copy"
    }

    fn description(&self) -> &'static str {
        "Copies a file."
    }

    fn writes(&self, args: &CopyArgs) -> Writes {
        Writes::path(&args.to)
    }

    async fn call(&self, args: CopyArgs, _cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let text = format!("copied {}", args.from);
        Ok(ToolOutput::text(text).with_changed_files(ChangedFile::created(args.to)))
    }
}

#[test]
fn a_tool_set_returns_the_files_that_a_call_may_write() {
    let read_only = ToolOptions { side_effects: SideEffects::ReadOnly, ..ToolOptions::default() };
    let look = tool_fn("look", "", |_: NoArgs| async { Ok::<_, BoxError>("seen") });
    let shout = tool_fn("shout", "", |_: NoArgs| async { Ok::<_, BoxError>("done") });
    let tools = ToolSet::new()
        .with(Copy)
        .with(look.with_options(read_only.clone()))
        .with(shout)
        .with(MockTool::returning("mock", "", "done"))
        .with(MockTool::returning("mock_reader", "", "done").with_options(read_only));
    let writes = |name: &'static str, arguments: &'static str| {
        tools.writes(&ToolCall::new("1", name, arguments))
    };
    let fits = r#"{"from":"a","to":"b"}"#;
    assert_eq!(writes("copy", fits), Writes::Paths(vec!["b".to_owned()]));
    assert_eq!(writes("copy", "{}"), Writes::Unknown);
    assert_eq!(writes("copy", "no JSON"), Writes::Unknown);
    assert_eq!(writes("look", ""), Writes::Nothing);
    assert_eq!(writes("shout", "{}"), Writes::Unknown);
    assert_eq!(writes("mock", "{}"), Writes::Unknown);
    assert_eq!(writes("mock_reader", "{}"), Writes::Nothing);
    assert_eq!(writes("missing", "{}"), Writes::Nothing);
}

#[test]
fn an_outcome_names_the_files_that_its_call_has_changed() {
    let call = ScenarioStep::tool_call("copy", json!({ "from": "a", "to": "b" }));
    // A result that is cut still names them.
    for max_output_bytes in [1 << 20, 2] {
        let executor = ToolExecutor { max_output_bytes, ..ToolExecutor::default() };
        let agent = agent([call.clone(), "done".into()]).with_tool(Copy).with_executor(executor);
        let state = execute(&agent, asked());
        let outcome = outcomes(&state, 0).remove(0);
        let files = &outcome.output().unwrap().files;
        assert_eq!(*files, FilesChanged::Known(vec![ChangedFile::created("b")]));
    }
}

#[test]
fn changed_files_are_stored_by_path_and_kind() {
    let plain = ToolOutput::text("done");
    let stored = json!({ "content": [{ "content": { "text": "done" } }] });
    assert_eq!(serde_json::to_value(&plain).unwrap(), stored);
    assert_eq!(serde_json::from_value::<ToolOutput>(stored).unwrap(), plain);

    let files: FilesChanged = [
        ChangedFile::created("a"),
        ChangedFile::modified("b"),
        ChangedFile::deleted("c"),
        ChangedFile::moved("d", "e"),
    ]
    .into_iter()
    .collect();
    let output = plain.clone().with_changed_files(files);
    let stored = serde_json::to_value(&output).unwrap();
    let expected = json!({ "known": [
        { "path": "a", "kind": "created" },
        { "path": "b", "kind": "modified" },
        { "path": "c", "kind": "deleted" },
        { "path": "e", "kind": { "moved": { "from": "d" } } },
    ] });
    assert_eq!(stored["files"], expected);
    assert_eq!(serde_json::from_value::<ToolOutput>(stored).unwrap(), output);

    let unknown = plain.clone().with_changed_files(FilesChanged::Unknown);
    assert_eq!(serde_json::to_value(&unknown).unwrap()["files"], "unknown");
    let none = plain.clone().with_changed_files([].into_iter().collect::<FilesChanged>());
    assert_eq!(none, plain);
}
