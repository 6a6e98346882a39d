//! What the macro says about tools that it refuses, and where: each message ends in ` @ ` and the code that it points at.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{ItemStruct, LitStr};

use crate::expansion::expand;

/// Expands `#[tool(options)] item`; returns the messages for the compiler and the code that stands beside them.
fn expanded(options: &str, item: &str) -> (Vec<String>, String) {
    let (options, item) = (options.parse().unwrap(), item.parse().unwrap());
    let (mut messages, mut code) = (Vec::new(), TokenStream::new());
    let mut tokens = expand(options, &item).into_iter();
    while let Some(token) = tokens.next() {
        // `::core::compile_error! { "…" }`
        let is_call = token.to_string() == "compile_error";
        if let (true, Some(TokenTree::Group(group))) = (is_call, tokens.clone().nth(1)) {
            messages.push(syn::parse2::<LitStr>(group.stream()).unwrap().value());
            tokens.nth(1);
        } else {
            code.extend([token]);
        }
    }
    (messages, code.to_string().replace(":: core ::", "").trim().to_owned())
}

fn messages(options: &str, item: &str) -> Vec<String> {
    expanded(options, item).0
}

/// Returns the messages about the options of a tool that has no other problems.
fn about_options(options: &str) -> Vec<String> {
    messages(options, "/// Does nothing.\nasync fn nothing() {}")
}

/// Returns the messages about a function with a doc comment, below a plain `#[tool]`.
fn about_function(function: &str) -> Vec<String> {
    messages("", &format!("/// Does something.\n{function}"))
}

const NO_MESSAGES: [&str; 0] = [];

#[test]
fn a_tool_without_problems_has_no_messages() {
    let (messages, code) = expanded("", "/// Does nothing.\nasync fn nothing() {}");
    assert_eq!(messages, NO_MESSAGES);
    assert!(code.contains("struct nothing"), "{code}");
}

#[test]
fn unknown_options_name_the_nearest_or_all() {
    assert_eq!(
        about_options(r#"timout = "30s", desc = "Nothing.", colour = "red", Exclusive"#),
        [
            "there is no option `timout`: did you mean `timeout`? @ timout",
            "there is no option `desc`: did you mean `description`? @ desc",
            "there is no option `colour`: there are `name`, `description`, `instructions`, `namespace`, `timeout`, \
             `side_effects`, `writes`, `approval`, `retry`, `exclusive`, `crate` @ colour",
            "there is no option `Exclusive`: did you mean `exclusive`? @ Exclusive",
        ]
    );
}

#[test]
fn repeated_options_are_named() {
    assert_eq!(
        about_options(r#"name = "one", exclusive, name = "two", exclusive"#),
        ["`name` is given twice @ name", "`exclusive` is given twice @ exclusive"]
    );
}

#[test]
fn text_in_place_of_an_option_asks_for_an_option() {
    let message = r#"expected an option, such as `timeout = "30s"`"#;
    assert_eq!(about_options(r#""Does nothing.""#), [message]);
}

#[test]
fn option_written_like_a_call_asks_for_an_equals_sign() {
    assert_eq!(about_options(r#"name("nothing")"#), ["expected a comma, or `name = …`"]);
}

#[test]
fn options_without_a_comma_ask_for_one() {
    let options = r#"crate = "loopwright_core" exclusive"#;
    assert_eq!(about_options(options), ["expected a comma"]);
}

#[test]
fn options_without_values_ask_for_them() {
    assert_eq!(
        about_options("name, side_effects, retry, timeout ="),
        [
            "`timeout` has no value: write one after the `=` @ timeout",
            r#"`name` needs a value, such as `name = "read_page"` @ name"#,
            r#"`side_effects` needs a value, such as `side_effects = "idempotent"` @ side_effects"#,
            "`retry` needs a value, such as `retry = 3` @ retry",
        ]
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_reported_with_the_right_kind() {
    let options = r#"name = 7, description = 7, instructions = true, namespace = web, timeout = true,
        side_effects = 7, retry = "3", exclusive = true"#;
    assert_eq!(
        about_options(options),
        [
            r#"expected something like `name = "read_page"` @ 7"#,
            r#"expected something like `description = "Reads a page."` @ 7"#,
            r#"expected something like `instructions = "Reads a page."` @ true"#,
            r#"expected something like `namespace = "web"` @ web"#,
            r#"expected a time, such as `"500ms"`, `"30s"` or `"5m"`, or a whole number of seconds @ true"#,
            r#"expected something like `side_effects = "idempotent"` @ 7"#,
            r#"expected how often a call is tried, the first time included: a whole number from 1 up @ "3""#,
            "`exclusive` takes no value: write the word, or leave it out @ true",
        ]
    );
}

#[test]
fn empty_values_are_to_be_filled_or_left_out() {
    let options = r#"name = "", description = " ", instructions = "", namespace = "", timeout = 0,
        side_effects = "", retry = 0"#;
    assert_eq!(
        about_options(options),
        [
            r#"`name` is empty: fill it, or leave it out @ """#,
            r#"`description` is empty: fill it, or leave it out @ " ""#,
            r#"`instructions` is empty: fill it, or leave it out @ """#,
            r#"`namespace` is empty: fill it, or leave it out @ """#,
            "no call ends in no time: give it more, or leave `timeout` out @ 0",
            r#"`side_effects` is empty: fill it, or leave it out @ """#,
            "expected how often a call is tried, the first time included: a whole number from 1 up @ 0",
        ]
    );
}

#[test]
fn a_crate_is_given_as_a_path() {
    let options = r#"crate = "loopwright-core""#;
    let message = r#"expected something like `crate = "loopwright_core"` @ "loopwright-core""#;
    assert_eq!(about_options(options), [message]);
}

#[test]
fn times_that_cannot_be_read_are_shown_what_can() {
    for value in ["30s", "1.5", r#""30""#, "-1", r#""a while""#] {
        let place = if value == "-1" { "- 1" } else { value };
        let message = format!(
            r#"expected a time, such as `"500ms"`, `"30s"` or `"5m"`, or a whole number of seconds @ {place}"#
        );
        assert_eq!(about_options(&format!("timeout = {value}")), [message]);
    }
}

#[test]
fn unknown_side_effects_name_the_nearest_or_all() {
    for (value, message) in [
        (
            r#""idempotant""#,
            r#"there is no kind of side effects `idempotant`: did you mean `idempotent`? @ "idempotant""#,
        ),
        (
            "harmless",
            "there is no kind of side effects `harmless`: there are `read_only`, `idempotent`, `resumable`, \
             `at_most_once` @ harmless",
        ),
        (
            "SideEffects::ReadOnly",
            r#"expected something like `side_effects = "idempotent"` @ SideEffects :: ReadOnly"#,
        ),
    ] {
        assert_eq!(about_options(&format!("side_effects = {value}")), [message]);
    }
}

#[test]
fn a_call_is_only_tried_again_if_that_does_no_harm() {
    let harm = "a failed call may have done its work all the same, so it is only tried again if that does no harm";
    let promise = |effects: &str| {
        format!(
            "{harm}, which `side_effects = \"{effects}\"` does not promise: make it `\"read_only\"` or \
             `\"idempotent\"`, or leave `retry` out @ retry"
        )
    };
    let silent = "add `side_effects = \"idempotent\"`, or `side_effects = \"read_only\"` if the tool only looks";
    assert_eq!(about_options("retry = 3"), [format!("{harm}: {silent} @ retry")]);
    let once = r#"retry = 3, side_effects = "at_most_once""#;
    assert_eq!(about_options(once), [promise("at_most_once")]);
    assert_eq!(about_options("side_effects = resumable, retry = 3"), [promise("resumable")]);
}

#[test]
fn side_effects_that_cannot_be_read_are_one_problem_beside_retry() {
    assert_eq!(
        about_options(r#"side_effects = "purr", retry = 3"#),
        [
            "there is no kind of side effects `purr`: there are `read_only`, `idempotent`, `resumable`, `at_most_once` \
          @ \"purr\""
        ]
    );
}

#[test]
fn names_are_those_that_providers_accept() {
    let letters = "use the letters `a` to `z` and `A` to `Z`, digits, `_` and `-`";
    assert_eq!(
        about_options(r#"name = "web.read""#),
        [format!("providers do not accept `.` in the name of a tool: {letters} @ \"web.read\"")]
    );
    let long = format!("\"{}\"", "a".repeat(65));
    assert_eq!(
        about_options(&format!("name = {long}")),
        [format!("providers do not accept a tool's name of 65 characters: use 1 to 64 @ {long}")]
    );
    assert_eq!(about_options(&format!("name = \"{}\"", "a".repeat(64))), NO_MESSAGES);
    assert_eq!(
        about_function("async fn größe() {}"),
        [format!(
            "providers do not accept `ö` in the name of a tool: {letters}; give the tool another name with \
             `name = \"…\"` @ größe"
        )]
    );
}

#[test]
fn function_named_like_a_variable_of_the_schema_is_to_be_renamed() {
    assert_eq!(
        about_function("async fn schema() {}"),
        [
            "a function of this name is in the way of `#[derive(JsonSchema)]`: give it another, and the tool this one \
          with `name = \"schema\"` @ schema"
        ]
    );
}

#[test]
fn a_tool_has_a_description() {
    let silent = "the model has to be told what this tool does: write a doc comment above the function, or \
                  `description = \"…\"`";
    assert_eq!(
        messages("", "async fn silent(\n/// Says something.\ntext: String) {}"),
        [format!("{silent} @ silent")]
    );
    assert_eq!(messages("", "///\nasync fn blank() {}"), [format!("{silent} @ blank")]);
}

#[test]
fn description_that_is_not_known_yet_is_to_be_passed() {
    assert_eq!(
        messages("", "#[doc = include_str!(\"page.md\")]\nasync fn unknown_yet() {}"),
        [
            "this text is not known yet when `#[tool]` makes the description of it: pass it as `description = …` \
          @ include_str ! (\"page.md\")"
        ]
    );
}

#[test]
fn a_tool_is_an_async_function() {
    assert_eq!(
        about_function("fn add(a: i64, b: i64) -> i64 { a + b }"),
        ["a tool is an `async fn`: write `async` before `fn` @ fn"]
    );
}

#[test]
fn an_item_that_is_no_function_stays_as_it_is() {
    let item = "struct Add { a: i64 }";
    let (messages, code) = expanded("", item);
    assert_eq!(messages, ["`#[tool]` goes on an `async fn`"]);
    let expected: ItemStruct = syn::parse_str(item).unwrap();
    assert_eq!(code, expected.to_token_stream().to_string());
}

#[test]
fn a_method_cannot_be_a_tool_and_leaves_nothing() {
    let (messages, code) = expanded("", "/// Adds.\nasync fn add(&self, a: i64) -> i64 { a }");
    assert_eq!(
        messages,
        ["a tool cannot take `self`: put `#[tool]` on a free function and take what it needs as \
          `#[state] name: &Type` @ & self"]
    );
    assert_eq!(code, "");
}

#[test]
fn a_tool_has_no_qualifiers_but_async() {
    assert_eq!(
        about_function("async unsafe fn careless() {}"),
        [
            "a tool cannot be `unsafe`: the model that calls it keeps no promises; put an `unsafe` block into the body \
          @ unsafe"
        ]
    );
    assert_eq!(
        about_function("const fn constant() {}"),
        [
            "a tool cannot be `const`: it runs when the model calls it @ const",
            "a tool is an `async fn`: write `async` before `fn` @ fn",
        ]
    );
    assert_eq!(
        about_function("async extern \"C\" fn foreign() {}"),
        ["a tool cannot be `extern`: it is called by the loop @ extern \"C\""]
    );
}

#[test]
fn a_tool_has_no_generics() {
    let item = "async fn generic<T: Send, const N: usize>(values: [T; N]) -> usize { 1 }";
    let message = "a tool cannot be generic: the model is shown one schema; name the types";
    assert_eq!(about_function(item), [format!("{message} @ < T : Send , const N : usize >")]);
    assert_eq!(
        about_function("async fn lifetime<'a>(cx: &'a ToolCx<'a>) -> usize { 1 }"),
        [
            "a tool cannot have lifetimes: arguments are owned, and the context is taken as `&ToolCx<'_>` @ < 'a >"
        ]
    );
}

#[test]
fn arguments_are_owned() {
    let function = "async fn borrow(text: &str, path: &'static std::path::Path, numbers: &[u8], page: &mut Page,
        maybe: Option<&str>, cow: std::borrow::Cow<'_, str>) {}";
    let take = "an argument is read from JSON and belongs to the tool: take";
    assert_eq!(
        about_function(function),
        [
            format!("{take} `String` @ & str"),
            format!("{take} an owned type @ & 'static std :: path :: Path"),
            format!("{take} `Vec<…>` @ & [u8]"),
            format!("{take} `Page` @ & mut Page"),
            format!("{take} an owned type @ Option < & str >"),
            format!("{take} an owned type @ std :: borrow :: Cow < '_ , str >"),
        ]
    );
}

#[test]
fn arguments_have_types_with_names() {
    let message =
        "the schema of an argument is made from its type: name the type instead of `impl …`";
    assert_eq!(
        about_function(
            "async fn something(text: impl Into<String>, texts: Vec<impl AsRef<str>>) {}"
        ),
        [
            format!("{message} @ impl Into < String >"),
            format!("{message} @ Vec < impl AsRef < str > >"),
        ]
    );
}

#[test]
fn arguments_have_names() {
    let function = "async fn apart((x, y): (i64, i64), _: u8, whole @ _: u8, ref lent: u8) {}";
    let name = "the model passes arguments by name: give this one a name";
    assert_eq!(
        about_function(function),
        [
            format!("{name}, and take it apart in the body @ (x , y)"),
            format!("{name} @ _"),
            format!("{name}, and take it apart in the body @ whole @ _"),
            format!("{name}, and take it apart in the body @ ref lent"),
        ]
    );
}

#[test]
fn arguments_have_attributes_of_schemas_and_lints_only() {
    let function = "async fn at_times(#[cfg(unix)] mode: u32, #[arg::short] all: bool) {}";
    let takes = "it takes doc comments, `#[serde(…)]`, `#[schemars(…)]` and the levels of lints";
    assert_eq!(
        about_function(function),
        [
            format!("an argument cannot have `#[cfg]`: {takes} @ # [cfg (unix)]"),
            format!("an argument cannot have `#[arg::short]`: {takes} @ # [arg :: short]"),
        ]
    );
}

#[test]
fn the_context_is_lent_once() {
    assert_eq!(
        about_function("async fn twice(cx: &ToolCx<'_>, text: String, also_cx: &ToolCx<'_>) {}"),
        ["the context is taken twice: once is enough @ also_cx : & ToolCx < '_ >"]
    );
    let lent = "the context is only lent to a tool: take `&ToolCx<'_>`";
    assert_eq!(
        about_function("async fn wants(cx: &mut ToolCx<'_>) {}"),
        [format!("{lent} @ & mut ToolCx < '_ >")]
    );
    assert_eq!(
        about_function("async fn keeps(cx: ToolCx<'_>) {}"),
        [format!("{lent} @ ToolCx < '_ >")]
    );
}

#[test]
fn the_state_is_lent_and_unknown_to_the_model() {
    for (parameter, expected) in [
        (
            "#[state] notes: Arc<String>",
            &["the state is only lent to a call: take `&Arc<String>` @ Arc < String >"][..],
        ),
        (
            "#[state] notes: &mut String",
            &[
                "calls may run at the same time and share the state: take `&…`, with a `Mutex` around what changes \
               @ mut",
            ],
        ),
        (
            "#[state] notes: &dyn Display",
            &["the state is a field of the tool: take `&Arc<dyn …>` @ dyn Display"],
        ),
        (
            "#[state(shared)] #[serde(default)] notes: &String",
            &[
                "`#[state]` takes no value @ # [state (shared)]",
                "the model does not pass the state of a tool: leave this out @ # [serde (default)]",
            ],
        ),
    ] {
        assert_eq!(about_function(&format!("async fn state({parameter}) {{}}")), expected);
    }
}

#[test]
fn written_files_are_named_by_arguments() {
    let about = |options: &str| {
        messages(
            options,
            "/// Moves a file.\nasync fn rename(cx: &ToolCx<'_>, from: String, to: String) {}",
        )
    };
    assert_eq!(about(r#"writes = "from, to""#), NO_MESSAGES);
    assert_eq!(about("writes = to"), NO_MESSAGES);
    assert_eq!(about(r#"writes = "nothing""#), NO_MESSAGES);
    let unknown = |name: &str, at: &str| {
        format!(
            "there is no argument `{name}`: name the arguments that hold the paths of the files that a call writes, \
             such as `writes = \"from, to\"`, or write `writes = \"nothing\"` @ {at}"
        )
    };
    assert_eq!(about(r#"writes = "path""#), [unknown("path", "\"path\"")]);
    assert_eq!(about(r#"writes = "to, cx""#), [unknown("cx", "\"to, cx\"")]);
    assert_eq!(
        about(r#"writes = "to", side_effects = "read_only""#),
        [
            "a tool with `side_effects = \"read_only\"` writes no file: leave `writes` out, or declare other side \
          effects @ \"to\""
        ]
    );
    assert_eq!(about("writes"), [r#"`writes` needs a value, such as `writes = "path"` @ writes"#]);
}
