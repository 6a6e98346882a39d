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
            "unknown option `timout`; did you mean `timeout`? @ timout",
            "unknown option `desc`; did you mean `description`? @ desc",
            "unknown option `colour`; available: `name`, `description`, `instructions`, `namespace`, `timeout`, \
             `side_effects`, `writes`, `approval`, `retry`, `exclusive`, `crate` @ colour",
            "unknown option `Exclusive`; did you mean `exclusive`? @ Exclusive",
        ]
    );
}

#[test]
fn repeated_options_are_named() {
    assert_eq!(
        about_options(r#"name = "one", exclusive, name = "two", exclusive"#),
        ["`name` is set twice @ name", "`exclusive` is set twice @ exclusive"]
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
            "`timeout` has no value; write one after the `=` @ timeout",
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
            r#"expected a duration, such as `"500ms"`, `"30s"` or `"5m"`, or a whole number of seconds @ true"#,
            r#"expected something like `side_effects = "idempotent"` @ 7"#,
            r#"expected the maximum number of attempts, including the first: a whole number of at least 1 @ "3""#,
            "`exclusive` takes no value; write only the option's name, or omit the option @ true",
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
            r#"`name` is empty; set it, or omit it @ """#,
            r#"`description` is empty; set it, or omit it @ " ""#,
            r#"`instructions` is empty; set it, or omit it @ """#,
            r#"`namespace` is empty; set it, or omit it @ """#,
            "`timeout` must be longer than zero; set a longer time, or omit the option @ 0",
            r#"`side_effects` is empty; set it, or omit it @ """#,
            "expected the maximum number of attempts, including the first: a whole number of at least 1 @ 0",
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
            r#"expected a duration, such as `"500ms"`, `"30s"` or `"5m"`, or a whole number of seconds @ {place}"#
        );
        assert_eq!(about_options(&format!("timeout = {value}")), [message]);
    }
}

#[test]
fn unknown_side_effects_name_the_nearest_or_all() {
    for (value, message) in [
        (
            r#""idempotant""#,
            r#"unknown kind of side effects `idempotant`; did you mean `idempotent`? @ "idempotant""#,
        ),
        (
            "harmless",
            "unknown kind of side effects `harmless`; available: `read_only`, `idempotent`, `resumable`, \
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
    let harm = "a failed call may have taken effect, so only calls that are safe to repeat are \
        retried";
    let promise = |effects: &str| {
        format!(
            "{harm}, and `side_effects = \"{effects}\"` does not promise this; declare \
                `\"read_only\"` or `\"idempotent\"`, or omit `retry` @ retry"
        )
    };
    let silent = "add `side_effects = \"idempotent\"`, or `side_effects = \"read_only\"` if the \
        tool only reads";
    assert_eq!(about_options("retry = 3"), [format!("{harm}; {silent} @ retry")]);
    let once = r#"retry = 3, side_effects = "at_most_once""#;
    assert_eq!(about_options(once), [promise("at_most_once")]);
    assert_eq!(about_options("side_effects = resumable, retry = 3"), [promise("resumable")]);
}

#[test]
fn side_effects_that_cannot_be_read_are_one_problem_beside_retry() {
    assert_eq!(
        about_options(r#"side_effects = "purr", retry = 3"#),
        [
            "unknown kind of side effects `purr`; available: `read_only`, `idempotent`, `resumable`, `at_most_once` \
          @ \"purr\""
        ]
    );
}

#[test]
fn names_are_those_that_providers_accept() {
    let letters = "use the letters `a` to `z` and `A` to `Z`, digits, `_` and `-`";
    assert_eq!(
        about_options(r#"name = "web.read""#),
        [format!("providers do not accept `.` in a tool name: {letters} @ \"web.read\"")]
    );
    let long = format!("\"{}\"", "a".repeat(65));
    assert_eq!(
        about_options(&format!("name = {long}")),
        [format!("providers do not accept a tool name with 65 characters: use 1 to 64 @ {long}")]
    );
    assert_eq!(about_options(&format!("name = \"{}\"", "a".repeat(64))), NO_MESSAGES);
    assert_eq!(
        about_function("async fn größe() {}"),
        [format!(
            "providers do not accept `ö` in a tool name: {letters}; give the tool another name with \
             `name = \"…\"` @ größe"
        )]
    );
}

#[test]
fn function_named_like_a_variable_of_the_schema_is_to_be_renamed() {
    assert_eq!(
        about_function("async fn schema() {}"),
        [
            "a function of this name conflicts with `#[derive(JsonSchema)]`; rename the function, and keep the tool's name with `name = \"schema\"` @ schema"
        ]
    );
}

#[test]
fn a_tool_has_a_description() {
    let silent = "the tool has no description for the model; write a doc comment above the \
        function, or `description = \"…\"`";
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
        ["`#[tool]` cannot read this text: pass it as `description = …` \
          @ include_str ! (\"page.md\")"]
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
        [
            "a tool cannot take `self`: put `#[tool]` on a free function and pass its state as `#[state] name: &Type` @ & self"
        ]
    );
    assert_eq!(code, "");
}

#[test]
fn a_tool_has_no_qualifiers_but_async() {
    assert_eq!(
        about_function("async unsafe fn careless() {}"),
        [
            "a tool cannot be `unsafe`: the model that calls it cannot uphold safety conditions; put an `unsafe` block into the body \
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
        ["a tool cannot be `extern`: only the agent loop calls it @ extern \"C\""]
    );
}

#[test]
fn a_tool_has_no_generics() {
    let item = "async fn generic<T: Send, const N: usize>(values: [T; N]) -> usize { 1 }";
    let message = "a tool cannot be generic: the model sees one schema; use concrete types";
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
    let take = "an argument is deserialized from JSON and must be owned; take";
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
        "the schema of an argument is derived from its type; name the type instead of `impl …`";
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
    let name = "the model passes arguments by name; give this argument a name";
    assert_eq!(
        about_function(function),
        [
            format!("{name}, and destructure it in the body @ (x , y)"),
            format!("{name} @ _"),
            format!("{name}, and destructure it in the body @ whole @ _"),
            format!("{name}, and destructure it in the body @ ref lent"),
        ]
    );
}

#[test]
fn arguments_have_attributes_of_schemas_and_lints_only() {
    let function = "async fn at_times(#[cfg(unix)] mode: u32, #[arg::short] all: bool) {}";
    let takes = "only doc comments, `#[serde(…)]`, `#[schemars(…)]` and lint attributes are \
        allowed";
    assert_eq!(
        about_function(function),
        [
            format!("an argument cannot have `#[cfg]`; {takes} @ # [cfg (unix)]"),
            format!("an argument cannot have `#[arg::short]`; {takes} @ # [arg :: short]"),
        ]
    );
}

#[test]
fn the_context_is_lent_once() {
    assert_eq!(
        about_function("async fn twice(cx: &ToolCx<'_>, text: String, also_cx: &ToolCx<'_>) {}"),
        [
            "a tool can take the context only once; remove this parameter @ also_cx : & ToolCx < '_ >"
        ]
    );
    let lent = "a tool only borrows the context; take `&ToolCx<'_>`";
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
            &["a call only borrows the state; take `&Arc<String>` @ Arc < String >"][..],
        ),
        (
            "#[state] notes: &mut String",
            &[
                "calls may run concurrently and share the state; take `&…`, with a `Mutex` around the parts that change \
               @ mut",
            ],
        ),
        (
            "#[state] notes: &dyn Display",
            &[
                "a tool cannot store a bare trait object as its state; take `&Arc<dyn …>` @ dyn Display",
            ],
        ),
        (
            "#[state(shared)] #[serde(default)] notes: &String",
            &[
                "`#[state]` takes no value @ # [state (shared)]",
                "the model does not pass the state of a tool; remove this attribute @ # [serde (default)]",
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
            "unknown argument `{name}`; list the arguments that contain the paths of written files, \
             such as `writes = \"from, to\"`, or set `writes = \"nothing\"` @ {at}"
        )
    };
    assert_eq!(about(r#"writes = "path""#), [unknown("path", "\"path\"")]);
    assert_eq!(about(r#"writes = "to, cx""#), [unknown("cx", "\"to, cx\"")]);
    assert_eq!(
        about(r#"writes = "to", side_effects = "read_only""#),
        [
            "a tool with `side_effects = \"read_only\"` writes no files; omit `writes`, or declare other side effects @ \"to\""
        ]
    );
    assert_eq!(about("writes"), [r#"`writes` needs a value, such as `writes = "path"` @ writes"#]);
}
