//! What runs report to `tracing`.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use loopwright_core::AgentLoop;
use loopwright_testing::{FakeModel, MockTool, ModelDriver, ScenarioStep, block_on, test_loop};
use serde_json::json;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::with_default,
};

use crate::support::{asked, lock, options};

/// Keeps what is reported. Clones share it.
#[derive(Clone, Default)]
struct Recorder {
    next: Arc<AtomicU64>,
    /// The names of the spans that are entered.
    entered: Arc<Mutex<Vec<u64>>>,
    spans: Arc<Mutex<BTreeMap<u64, Span>>>,
    events: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Span {
    line: String,
    parent: Option<u64>,
    fields: BTreeMap<String, String>,
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Recorder {
    fn current(&self) -> Option<u64> {
        lock(&self.entered).last().copied()
    }

    fn name_of(&self, id: Option<u64>) -> String {
        id.and_then(|id| Some(lock(&self.spans).get(&id)?.line.clone())).unwrap_or_default()
    }

    /// Level, target and name of each span, with those of the span around it, in the order they were opened.
    fn tree(&self) -> Vec<String> {
        let spans: Vec<Span> = lock(&self.spans).values().cloned().collect();
        spans.iter().map(|it| format!("{} < {}", it.line, self.name_of(it.parent))).collect()
    }

    fn fields(&self, line: &str) -> Vec<BTreeMap<String, String>> {
        let spans = lock(&self.spans);
        spans.values().filter(|it| it.line == line).map(|it| it.fields.clone()).collect()
    }

    fn everything(&self) -> String {
        let spans: Vec<_> = lock(&self.spans).values().map(|it| it.fields.clone()).collect();
        format!("{spans:?} {:?}", lock(&self.events))
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("loopwright::")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, SeqCst) + 1;
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let metadata = attributes.metadata();
        let line = format!("{} {} {}", metadata.level(), metadata.target(), metadata.name());
        let parent = attributes.parent().map(Id::into_u64);
        let parent = parent.or_else(|| self.current().filter(|_| attributes.is_contextual()));
        lock(&self.spans).insert(id, Span { line, parent, fields: fields.0 });
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = lock(&self.spans).get_mut(&span.into_u64()) {
            span.fields.extend(fields.0);
        }
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let within = self.name_of(self.current());
        let message = &fields.0["message"];
        let line = format!("{} {} {message} < {within}", metadata.level(), metadata.target());
        lock(&self.events).push(line);
    }

    fn enter(&self, span: &Id) {
        lock(&self.entered).push(span.into_u64());
    }

    fn exit(&self, _span: &Id) {
        lock(&self.entered).pop();
    }
}

const RUN: &str = "INFO loopwright::run run";
const STEP: &str = "DEBUG loopwright::step step";
const MODEL: &str = "DEBUG loopwright::model model_call";
const TOOL: &str = "DEBUG loopwright::tool tool_call";

fn agent(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentLoop {
    let look = MockTool::returning("look", "Looks.", "PRIVATE output");
    test_loop(ModelDriver::new(FakeModel::script(steps))).with_tool(look)
}

fn recorded(agent: &AgentLoop) -> Recorder {
    let recorder = Recorder::default();
    with_default(recorder.clone(), || {
        block_on(agent.start(asked().with_user_message("PRIVATE question"), options()).finish())
    });
    recorder
}

#[test]
fn a_run_is_a_span_of_steps_with_model_calls_and_tool_calls() {
    let look = ScenarioStep::tool_call("look", json!({ "key": "PRIVATE argument" }));
    let recorder = recorded(&agent([look, "PRIVATE answer".into()]));
    let below = |child: &str, parent: &str| format!("{child} < {parent}");
    assert_eq!(
        recorder.tree(),
        [
            below(RUN, ""),
            below(STEP, RUN),
            below(MODEL, STEP),
            below(TOOL, STEP),
            below(STEP, RUN),
            below(MODEL, STEP),
        ]
    );
    let fields = &recorder.fields(TOOL)[0];
    assert_eq!((&*fields["tool"], &*fields["outcome"]), ("\"look\"", "\"returned\""));
    let fields = &recorder.fields(MODEL)[1];
    assert_eq!((&*fields["auxiliary"], &*fields["finish_reason"]), ("false", "\"stop\""));
    let fields = &recorder.fields(RUN)[0];
    assert!(fields.contains_key("execution_id") && fields.contains_key("agent_id"), "{fields:?}");
    assert_eq!(recorder.fields(STEP)[1]["step"], "2");
    assert_eq!(
        *lock(&recorder.events),
        [
            below("DEBUG loopwright::model model responded", MODEL),
            below("DEBUG loopwright::tool tool call ended", TOOL),
            below("DEBUG loopwright::step step completed", STEP),
            below("DEBUG loopwright::model model responded", MODEL),
            below("DEBUG loopwright::step step completed", STEP),
            below("INFO loopwright::run run ended", RUN),
        ]
    );
}

#[test]
fn nothing_that_users_models_and_tools_write_is_reported() {
    let look = ScenarioStep::tool_call("look", json!({ "key": "PRIVATE argument" }));
    let recorder = recorded(&agent([look, ScenarioStep::error("PRIVATE error")]));
    assert!(!recorder.everything().contains("PRIVATE"), "{}", recorder.everything());
}

#[test]
fn a_model_call_that_fails_is_a_warning() {
    let recorder = recorded(&agent([ScenarioStep::error("down")]));
    let warnings: Vec<_> =
        lock(&recorder.events).iter().filter(|it| it.starts_with("WARN")).cloned().collect();
    assert_eq!(
        warnings,
        [
            format!("WARN loopwright::model model call failed < {MODEL}"),
            format!("WARN loopwright::step step failed < {STEP}"),
        ]
    );
}
