//! What becomes of the function and its options.

use std::{fmt, time::Duration};

use loopwright_core::{
    AnyTool, SideEffects, Tool, ToolOptions, ToolRetry, ToolSet, Writes, messages::ToolCall,
};
use loopwright_macros::tool;
use loopwright_testing::block_on;

/// Adds two numbers.
#[tool(crate = "loopwright_core")]
async fn add(a: i64, b: Option<i64>) -> Result<i64, Overflow> {
    a.checked_add(b.unwrap_or_default()).ok_or(Overflow)
}

#[derive(Debug, PartialEq)]
struct Overflow;

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sum is too large")
    }
}

impl std::error::Error for Overflow {}

#[test]
fn the_function_can_still_be_called() {
    assert_eq!(block_on(add::run(1, Some(2))), Ok(3));
    assert_eq!(block_on(add::run(1, None)), Ok(1));
    assert_eq!(block_on(add::run(i64::MAX, Some(1))), Err(Overflow));
}

#[test]
fn the_tool_is_a_value() {
    let copy = add;
    let tools = ToolSet::new().with(add).with(copy).with(echo);
    assert_eq!(format!("{tools:?} {copy:?}"), r#"["add", "echo"] add"#);
}

#[test]
fn name_description_and_options_are_plain_without_options() {
    check(add, "add", "Adds two numbers.", &ToolOptions::default());
}

mod elsewhere {
    use loopwright_macros::tool;

    /// Not what the model reads.
    #[tool(
        crate = "loopwright_core",
        name = "read-page_2",
        description = "Reads a page.",
        instructions = include_str!("../Cargo.toml"),
        namespace = "web",
        timeout = "1m 30s",
        side_effects = "idempotent",
        retry = 3,
        exclusive
    )]
    pub(super) async fn read(url: String) -> String {
        url
    }
}

#[test]
fn every_option_arrives() {
    let options = ToolOptions {
        side_effects: SideEffects::Idempotent,
        timeout: Some(Duration::from_secs(90)),
        exclusive: true,
        retry: ToolRetry { attempts: 3, ..ToolRetry::default() },
        namespace: Some("web".into()),
        instructions: Some(include_str!("../Cargo.toml").into()),
        ..ToolOptions::default()
    };
    check(elsewhere::read, "read-page_2", "Reads a page.", &options);
}

#[test]
fn a_time_has_a_unit_or_is_in_seconds() {
    #[tool(crate = "loopwright_core", description = "Short.", timeout = "500ms")]
    async fn short() {}
    #[tool(crate = "loopwright_core", description = "Long.", timeout = 1_205)]
    async fn long() {}

    check_options(
        short,
        &ToolOptions { timeout: Some(Duration::from_millis(500)), ..ToolOptions::default() },
    );
    check_options(
        long,
        &ToolOptions { timeout: Some(Duration::from_secs(1205)), ..ToolOptions::default() },
    );
}

#[test]
fn effects_are_text_or_a_word() {
    #[tool(crate = "loopwright_core", description = "Looks.", side_effects = read_only, retry = 2)]
    async fn look() {}
    #[tool(crate = "loopwright_core", description = "Copies.", side_effects = "resumable")]
    async fn copy() {}
    #[tool(crate = "loopwright_core", description = "Pays.", side_effects = at_most_once)]
    async fn pay() {}

    let retry = ToolRetry { attempts: 2, ..ToolRetry::default() };
    check_options(
        look,
        &ToolOptions { side_effects: SideEffects::ReadOnly, retry, ..ToolOptions::default() },
    );
    check_options(
        copy,
        &ToolOptions { side_effects: SideEffects::Resumable, ..ToolOptions::default() },
    );
    check_options(pay, &ToolOptions::default());
}

const TEXT: &str = "Said elsewhere.";

/// Says something:
///
/// - a list
///   of things
///
/// That is all.
#[tool(crate = "loopwright_core")]
async fn say() {}

/**
Says something.
  Indented.
*/
#[tool(crate = "loopwright_core")]
async fn say_in_a_block() {}

#[tool(crate = "loopwright_core", description = TEXT)]
async fn say_a_constant() {}

#[tool(crate = "loopwright_core", description = concat!("Says ", 2, " things."))]
async fn say_what_is_made() {}

#[test]
fn the_description_is_what_the_doc_comment_says_or_what_is_given() {
    check_description(say, "Says something:\n\n- a list\n  of things\n\nThat is all.");
    check_description(say_in_a_block, "Says something.\n  Indented.");
    check_description(say_a_constant, "Said elsewhere.");
    check_description(say_what_is_made, "Says 2 things.");
}

/// Is called like its parameter.
#[tool(crate = "loopwright_core")]
async fn echo(mut echo: String) -> String {
    echo.push('!');
    echo
}

#[test]
fn a_parameter_may_be_called_like_the_tool() {
    assert_eq!(block_on(echo::run("ho".to_owned())), "ho!");
}

/// Is called like a keyword.
#[tool(crate = "loopwright_core")]
async fn r#match(r#type: u8) -> u8 {
    r#type
}

#[test]
fn a_raw_name_is_plain_to_the_model() {
    assert_eq!(&**AnyTool::new(r#match).name(), "match");
}

#[track_caller]
fn check(tool: impl Tool, name: &str, description: &str, options: &ToolOptions) {
    let tool = AnyTool::new(tool);
    assert_eq!((&**tool.name(), &*tool.spec().description), (name, description));
    assert_eq!(tool.options(), options);
}

#[track_caller]
fn check_description(tool: impl Tool, expect: &str) {
    assert_eq!(&*AnyTool::new(tool).spec().description, expect);
}

#[track_caller]
fn check_options(tool: impl Tool, expect: &ToolOptions) {
    assert_eq!(AnyTool::new(tool).options(), expect);
}

/// Moves files.
#[tool(crate = "loopwright_core", writes = "to, copies, also")]
async fn move_files(
    from: String,
    to: std::path::PathBuf,
    copies: Vec<String>,
    also: Option<String>,
) {
    drop((from, to, copies, also));
}

/// Sends a mail.
#[tool(crate = "loopwright_core", writes = nothing)]
async fn mail(text: String) {
    drop(text);
}

#[test]
fn a_tool_declares_the_files_that_a_call_writes() {
    let tools = ToolSet::new().with(move_files).with(mail).with(add);
    let writes = |tool: &str, arguments: &str| tools.writes(&ToolCall::new("1", tool, arguments));
    let paths = |paths: &[&str]| Writes::Paths(paths.iter().map(ToString::to_string).collect());
    assert_eq!(
        writes("move_files", r#"{ "from": "a", "to": "b", "copies": ["c", "d"], "also": "e" }"#),
        paths(&["b", "c", "d", "e"])
    );
    assert_eq!(writes("move_files", r#"{ "from": "a", "to": "b", "copies": [] }"#), paths(&["b"]));
    assert_eq!(writes("mail", r#"{ "text": "hi" }"#), Writes::Nothing);
    assert_eq!(writes("add", r#"{ "a": 1 }"#), Writes::Unknown);
}
