//! What the model is shown of a tool's arguments, and what is accepted of what it passes.

use loopwright_core::{AnyTool, Tool, ToolCx};
use loopwright_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, from_value, json};

/// Does nothing.
#[tool(crate = "loopwright_core")]
async fn idle() {}

#[test]
fn no_parameters_make_an_empty_object() {
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    check_schema(idle, &schema);
}

/// Searches.
#[tool(crate = "loopwright_core")]
async fn search(
    /// What to look for,
    /// as a regular expression.
    ///
    ///     fn \w+
    pattern: String,
    paths: Vec<String>,
    limit: Option<u8>,
) -> bool {
    paths.len() > limit.map_or(0, usize::from) || pattern.is_empty()
}

#[test]
fn a_parameter_is_a_property_and_its_doc_comment_the_description() {
    check_schema(
        search,
        &json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description":
                        "What to look for,\nas a regular expression.\n\n    fn \\w+",
                },
                "paths": { "type": "array", "items": { "type": "string" } },
                "limit": {
                    "type": ["integer", "null"],
                    "format": "uint8",
                    "minimum": 0,
                    "maximum": 255,
                },
            },
            "required": ["pattern", "paths"],
            "additionalProperties": false,
        }),
    );
}

#[test]
fn an_option_may_be_left_out_and_nothing_may_be_added() {
    accepts::<search>(json!({ "pattern": "a", "paths": [] }));
    accepts::<search>(json!({ "pattern": "a", "paths": [], "limit": null }));
    refuses::<search>(json!({ "pattern": "a" }), "missing field `paths`");
    refuses::<search>(
        json!({ "pattern": "a", "paths": [], "depth": 1 }),
        "unknown field `depth`, expected one of `pattern`, `paths`, `limit`",
    );
}

fn first_page() -> u32 {
    1
}

/// Reads.
#[tool(crate = "loopwright_core")]
async fn read(
    #[serde(rename = "url")] address: String,
    #[serde(default = "first_page")]
    #[schemars(range(min = 1, max = 9))]
    page: u32,
    #[serde(default)] raw: bool,
    /// Kept.
    r#type: Kind,
) -> String {
    format!("{address} {page} {raw} {type:?}", r#type = r#type)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Html,
    PlainText,
}

#[test]
fn attributes_of_serde_and_schemars_hold_for_parameters() {
    check_schema(
        read,
        &json!({
            "type": "object",
            "properties": {
                "url": { "type": "string" },
                "page": {
                    "type": "integer",
                    "format": "uint32",
                    "minimum": 1,
                    "maximum": 9,
                    "default": 1,
                },
                "raw": { "type": "boolean", "default": false },
                "type": {
                    "type": "string",
                    "enum": ["html", "plain_text"],
                    "description": "Kept.",
                },
            },
            "required": ["url", "type"],
            "additionalProperties": false,
        }),
    );
    accepts::<read>(json!({ "url": "u", "type": "html" }));
    accepts::<read>(json!({ "url": "u", "page": 2, "raw": true, "type": "plain_text" }));
    refuses::<read>(json!({ "url": "u", "type": "pdf" }), "unknown variant `pdf`");
}

/// Tells who calls.
#[tool(crate = "loopwright_core")]
async fn who(before: u8, cx: &ToolCx<'_>, after: u8) -> String {
    format!("{before}{}{after}", cx.call.name)
}

#[test]
fn the_context_is_no_argument() {
    let number = json!({ "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255 });
    check_schema(
        who,
        &json!({
            "type": "object",
            "properties": { "before": number, "after": number },
            "required": ["before", "after"],
            "additionalProperties": false,
        }),
    );
}

#[derive(Deserialize, JsonSchema)]
struct Point {
    x: i32,
    /// Up.
    #[serde(default)]
    y: i32,
}

/// Draws.
#[tool(crate = "loopwright_core")]
async fn draw(#[serde(flatten)] point: Point, color: String) -> String {
    format!("{} {} {color}", point.x, point.y)
}

#[test]
fn a_flattened_parameter_lends_its_fields() {
    let number = json!({ "type": "integer", "format": "int32" });
    check_schema(
        draw,
        &json!({
            "type": "object",
            "properties": {
                "color": { "type": "string" },
                "x": number,
                "y": {
                    "type": "integer",
                    "format": "int32",
                    "default": 0,
                    "description": "Up.",
                },
            },
            "required": ["x", "color"],
        }),
    );
    accepts::<draw>(json!({ "color": "red", "x": 1 }));
    refuses::<draw>(json!({ "color": "red" }), "missing field `x`");
}

#[track_caller]
fn check_schema(tool: impl Tool, expect: &Value) {
    let tool = AnyTool::new(tool);
    assert_eq!(&*tool.spec().parameters, expect);
}

#[track_caller]
fn accepts<T: Tool>(arguments: Value) {
    assert_eq!(reading::<T>(arguments), None);
}

#[track_caller]
fn refuses<T: Tool>(arguments: Value, because: &str) {
    let complaint = reading::<T>(arguments).unwrap_or_default();
    assert!(complaint.contains(because), "{complaint}");
}

/// Returns why the arguments are invalid, if they cannot.
fn reading<T: Tool>(arguments: Value) -> Option<String> {
    from_value::<T::Args>(arguments).err().map(|error| error.to_string())
}
