//! The page of all events is made of the code.

use std::{fmt::Write as _, fs, path::Path};

use crate::WORKSPACE;

const SOURCE: &str = "crates/loopwright-core/src/contract/event.rs";
const PAGE: &str = "docs/reference/events.md";

const BEGINNING: &str = "\
# Events

What a run tells its listeners in Rust: `on_event(|it: &StepStarted, envelope| …)` hears one kind, `wiretap` all of them. The kinds are
in `loopwright::runtime::events`. Each comes in an `Envelope` with its number within the run (`seq`), the moment (`at`), the agent, the agent
that this one works for (`parent`) and the execution. As JSON, `type` is the name in parentheses, beside the fields. There may be
others in time. Capabilities and programs define [events of their own](../how-to/custom-events.md). Programs that are not written in Rust listen to [envelopes](../broadcasting.md).

This page is made of the code: `LOOPWRIGHT_WRITE=1 cargo test -p loopwright-testing --test main reference`.
";

#[test]
fn the_page_of_events_is_that_of_the_code() {
    let root = Path::new(WORKSPACE);
    let page = page(&fs::read_to_string(root.join(SOURCE)).unwrap());
    if std::env::var_os("LOOPWRIGHT_WRITE").is_some() {
        fs::write(root.join(PAGE), &page).unwrap();
    }
    assert!(
        fs::read_to_string(root.join(PAGE)).is_ok_and(|it| it == page),
        "{PAGE} is stale: LOOPWRIGHT_WRITE=1 cargo test -p loopwright-testing --test main reference"
    );
}

/// Writes a table for each event of the macro call in the source.
fn page(source: &str) -> String {
    let (_, events) = source.split_once("\nevents! {\n").unwrap();
    let (events, _) = events.split_once("\n}\n").unwrap();
    let mut page = BEGINNING.to_owned();
    let mut doc = Vec::new();
    let mut has_fields = false;
    for line in events.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
        } else if let Some(name) = line.strip_suffix(" {") {
            let doc = std::mem::take(&mut doc).join("\n");
            write!(page, "\n## `{name}` (`{}`)\n\n{doc}\n", snake(name)).unwrap();
            has_fields = false;
        } else if let Some((name, kind)) = line.trim_end_matches(',').split_once(": ") {
            if !has_fields {
                page.push_str("\n| field | type | |\n|---|---|---|\n");
                has_fields = true;
            }
            let doc = std::mem::take(&mut doc).join(" ");
            writeln!(page, "| `{name}` | `{kind}` | {doc} |").unwrap();
        }
    }
    page
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[test]
fn an_event_is_told_with_its_fields() {
    let source = "
events! {
    /// It began.
    /// Again.
    RunBegan {
        /// How often,
        /// in all.
        #[serde(default)]
        times: Vec<u32>,
    }
    /// It has ended.
    Over {}
}
";
    let expect = "
## `RunBegan` (`run_began`)

It began.
Again.

| field | type | |
|---|---|---|
| `times` | `Vec<u32>` | How often, in all. |
";
    assert_eq!(page(source).strip_prefix(BEGINNING).unwrap(), expect);
}
