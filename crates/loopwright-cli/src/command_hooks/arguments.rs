//! The arguments of calls, as hooks for other programs expect them.

use std::path::Path;

use loopwright_core::messages::ToolCall;
use loopwright_permissions::ToolKind;
use serde_json::Value;

use crate::project::absolute;

/// The name of the path of a file in the arguments of other programs.
const FILE_PATH: &str = "file_path";

/// Returns the arguments of a call with the path as `file_path`. That of a file tool is absolute.
pub(super) fn tool_input(call: &ToolCall, arguments: &Value, workdir: &Path) -> Value {
    let mut input = arguments.clone();
    if let Some(fields) = input.as_object_mut()
        && let Some(path) = fields.get("path")
    {
        let path = file_path(call, path, workdir);
        fields.entry(FILE_PATH).or_insert(path);
    }
    input
}

/// Returns the arguments that a hook has changed as the tool expects them.
pub(super) fn changed(input: Value, call: &ToolCall, arguments: &Value, workdir: &Path) -> Value {
    let mut input = input;
    if let Some(fields) = input.as_object_mut()
        && arguments.get(FILE_PATH).is_none()
        && let Some(path) = fields.remove(FILE_PATH)
    {
        let before = arguments.get("path").map(|it| file_path(call, it, workdir));
        let is_changed = before.as_ref() != Some(&path) && arguments.get("path") != Some(&path);
        if is_changed {
            fields.insert("path".to_owned(), path);
        } else if let (false, Some(own)) = (fields.contains_key("path"), arguments.get("path")) {
            fields.insert("path".to_owned(), own.clone());
        }
    }
    input
}

fn file_path(call: &ToolCall, path: &Value, workdir: &Path) -> Value {
    let is_file = matches!(ToolKind::of(&call.name), ToolKind::Read | ToolKind::Write);
    match path.as_str().filter(|_| is_file) {
        Some(text) => absolute(workdir, text).into(),
        None => path.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str) -> ToolCall {
        ToolCall { id: None, name: name.into(), arguments: "{}".into() }
    }

    fn given(name: &str, path: &str) -> Value {
        tool_input(&call(name), &json!({ "path": path }), Path::new("/w"))
    }

    #[test]
    fn the_file_of_a_file_tool_is_absolute_and_the_path_stays_as_it_was_written() {
        for (path, file) in
            [("a.rs", "/w/a.rs"), ("./src/a.rs", "/w/src/a.rs"), ("/w/a.rs", "/w/a.rs")]
        {
            for tool in ["read_file", "write_file", "edit_file"] {
                assert_eq!(given(tool, path), json!({ "path": path, "file_path": file }));
            }
        }
        let of_server = json!({ "path": "a.rs", "file_path": "a.rs" });
        assert_eq!(given("mcp__files__read", "a.rs"), of_server);
        let own = json!({ "path": "a", "file_path": "b" });
        assert_eq!(tool_input(&call("read_file"), &own, Path::new("/w")), own);
    }

    #[test]
    fn a_hook_changes_the_path_by_either_name() {
        let before = json!({ "path": "a.rs", "content": "x" });
        let after = |input: Value| changed(input, &call("write_file"), &before, Path::new("/w"));
        let given =
            |path: &str, file: &str| json!({ "path": path, "file_path": file, "content": "x" });
        assert_eq!(after(given("a.rs", "/w/a.rs")), before);
        assert_eq!(after(json!({ "file_path": "/w/a.rs", "content": "x" })), before);
        let other = |path: &str| json!({ "path": path, "content": "x" });
        assert_eq!(after(given("a.rs", "/w/b.rs")), other("/w/b.rs"));
        assert_eq!(after(given("b.rs", "/w/a.rs")), other("b.rs"));
        assert_eq!(after(json!({ "file_path": "b.rs", "content": "x" })), other("b.rs"));
    }
}
