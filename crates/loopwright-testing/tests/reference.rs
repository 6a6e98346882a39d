//! The page of all events is made of the code.

use std::{fmt::Write as _, fs, path::Path};

use crate::WORKSPACE;

const SOURCE: &str = "crates/loopwright-core/src/contract/event.rs";
const PAGE: &str = "docs/reference/events.md";

const BEGINNING: &str = "\
# Events

The events that a run emits to listeners in Rust: `on_event(|it: &StepStarted, envelope| …)` receives one type, `wiretap` all of them. The types are
in `loopwright::runtime::events`. Each event comes in an `EventEnvelope` with its number within the run (`seq`), the time (`at`), the agent, its
parent (`parent`), the execution and, in mode `unconfined`, the permission mode (`permission_mode`). In JSON, `type` contains the name in parentheses, beside the fields. Later versions can add
events. Capabilities and programs define [custom events](../how-to/custom-events.md). Programs that are not written in Rust receive [envelopes](../broadcasting.md).

This page is generated from the code: `LOOPWRIGHT_WRITE=1 cargo test -p loopwright-testing --test main reference`.
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
