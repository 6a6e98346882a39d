//! File tools in an agent.

use std::fs;

use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_capabilities::files::{
    EditFile, Grep, ListDir, ReadFile, SearchFiles, UseFileTools, WorkspaceRoot, WriteFile,
};
use loopwright_core::{AgentState, IntoTool as _};
use loopwright_testing::FakeModel;
use serde_json::json;

use crate::support::{answers, calling, names};

#[test]
fn all_file_tools_are_added_or_those_that_read() {
    let all = ["read_file", "write_file", "edit_file", "list_dir", "search_files", "grep"];
    assert_eq!(names(UseFileTools::in_dir("/")), all);
    let read = ["read_file", "list_dir", "search_files", "grep"];
    assert_eq!(names(UseFileTools::in_dir("/").read_only()), read);
}

#[tokio::test]
async fn each_tool_stands_alone_with_its_options() {
    let home = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (1..=12).map(|it| format!("line {it}\n")).collect();
    fs::write(home.path().join("long.md"), lines.concat()).unwrap();
    for number in 0..12 {
        fs::write(home.path().join(format!("{number:02}.txt")), "").unwrap();
    }
    let calls = [
        ("read_file", json!({ "path": "long.md" })),
        ("search_files", json!({ "pattern": "*.txt" })),
        ("list_dir", json!({})),
    ];
    let shown = async |tools: UseTools| {
        assert_eq!(names(tools.clone()), ["read_file", "search_files", "list_dir"]);
        let told = answers(tools, &calls).await;
        let counts = ["line ", ".txt", "[file]"].into_iter().zip(&told);
        counts.map(|(what, text)| text.matches(what).count()).collect::<Vec<_>>()
    };
    let tools = UseTools::new()
        .with_tool(ReadFile::in_dir(home.path()).with_lines(7))
        .with_tool(SearchFiles::in_dir(home.path()).with_max_results(8))
        .with_tool(ListDir::in_dir(home.path()).with_max_entries(9));
    // The pattern of the search is told too.
    assert_eq!(shown(tools).await, [7, 8 + 1, 9]);
    let tools = UseTools::new()
        .with_tool(ReadFile::in_dir(home.path()))
        .with_tool(SearchFiles::in_dir(home.path()).with_max_results(50))
        .with_tool(ListDir::in_dir(home.path()));
    assert_eq!(shown(tools).await, [12, 12 + 1, 13]);
}

#[test]
fn schemas_name_what_is_required_and_accept_nothing_else() {
    let root = WorkspaceRoot::new("/");
    let tools = [
        (ReadFile::in_dir(root.clone()).into_tool(), json!(["path"])),
        (WriteFile::in_dir(root.clone()).into_tool(), json!(["path", "content"])),
        (EditFile::in_dir(root.clone()).into_tool(), json!(["path"])),
        (ListDir::in_dir(root.clone()).into_tool(), json!(null)),
        (SearchFiles::in_dir(root.clone()).into_tool(), json!(null)),
        (Grep::in_dir(root).into_tool(), json!(["pattern"])),
    ];
    for (tool, required) in tools {
        let schema = &tool.spec().parameters;
        assert_eq!(schema["required"], required, "{schema}");
        assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
    }
}

#[test]
fn a_missing_directory_is_a_build_error() {
    let built = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(["ok"])))
        .with_capability(UseFileTools::in_dir("/no/such/directory"))
        .build();
    assert_eq!(
        built.unwrap_err().to_string(),
        "capability `use_file_tools` cannot be used: choose an existing directory"
    );
}

#[tokio::test]
async fn files_are_written_read_edited_and_found() {
    let home = tempfile::tempdir().unwrap();
    let calls = [
        ("write_file", json!({ "path": "a.txt", "content": "one\ntwo\n" })),
        ("edit_file", json!({ "path": "a.txt", "old_string": "two", "new_string": "2" })),
        ("read_file", json!({ "path": "a.txt" })),
        ("list_dir", json!({})),
        ("search_files", json!({ "pattern": "*.txt" })),
        ("grep", json!({ "pattern": "^2" })),
    ];
    let told = answers(UseFileTools::in_dir(home.path()), &calls).await;
    assert_eq!(
        told,
        [
            "Successfully wrote a.txt (8 bytes, 3 lines, streamed atomically).",
            "Replaced 1 occurrence in a.txt (8 bytes before, 6 after; written atomically).",
            "     1\tone\n     2\t2\n",
            "[file] a.txt",
            "Found 1 file.\n[*.txt]\na.txt",
            "a.txt:2:2",
        ]
    );
}

#[tokio::test]
async fn errors_that_a_model_can_repair_say_how() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("d")).unwrap();
    let calls = [
        ("read_file", json!({ "path": "/etc/passwd" })),
        ("read_file", json!({ "path": "d" })),
        ("write_file", json!({ "path": ".git/hooks/pre-commit", "content": "evil" })),
        ("read_file", json!({ "path": "a", "lines": 3 })),
    ];
    let agent = calling(UseFileTools::in_dir(home.path()), &calls);
    let state = agent.execute(AgentState::new().with_user_message("go")).await;
    let told = crate::support::told(&state);
    assert!(state.had_tool_errors());
    assert_eq!(
        told[..3],
        [
            "Error: `/etc/passwd` is outside the working directory; use a path inside it",
            "Error: `d` is a directory, not a regular file; list it with `list_dir`",
            "Error: `.git/hooks/pre-commit` was not written because its directory does not exist; \
             check the path, or pass `create_dirs: true` to create it",
        ]
    );
    assert!(told[3].contains("lines"), "{}", told[3]);
}

#[tokio::test]
async fn parallel_edits_of_one_file_are_all_made() {
    let home = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..20).map(|it| format!("<{it}>\n")).collect();
    let text = lines.concat();
    fs::write(home.path().join("f"), &text).unwrap();
    let edits: Vec<_> = (0..20)
        .map(|it| {
            let (old, new) = (format!("<{it}>"), format!("[{it}]"));
            ("edit_file", json!({ "path": "f", "old_string": old, "new_string": new }))
        })
        .collect();
    let steps = [
        loopwright_testing::ScenarioStep::tool_calls(edits),
        loopwright_testing::ScenarioStep::final_answer("done"),
    ];
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(UseFileTools::in_dir(home.path()))
        .build()
        .unwrap();
    agent.execute(AgentState::new().with_user_message("go")).await;
    let expect = text.replace('<', "[").replace('>', "]");
    assert_eq!(fs::read_to_string(home.path().join("f")).unwrap(), expect);
}
