use std::io::Write;
use std::sync::{Arc, Mutex};

use loopwright_core::{EventSinks, FixedModel, LlmConfig, RunOptions, messages::Usage};
use loopwright_testing::{FakeModel, ModelDriver, ScenarioStep, block_on, test_loop};
use serde_json::{Value, json};

use super::text::Target;
use super::*;
use loopwright_mcp::McpProgress;

use crate::agent::Setup;
use crate::tools;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Sheet {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn conversation() -> Vec<ScenarioStep> {
    let calls = [
        ("list_dir", json!({"path": "."})),
        ("read_file", json!({"path": "../secret"})),
        ("no_such_tool", json!({"a": 1})),
    ];
    let look = ScenarioStep::tool_calls(calls).with_text("\n\nLet me look.");
    vec![
        look.with_usage(Usage::new(1000, 200)),
        ScenarioStep::final_answer("There is a\u{1b}[2J file.").with_usage(Usage::new(30, 4)),
    ]
}

/// Runs the conversation in a directory with one file; durations are redacted.
fn show(
    model: FakeModel,
    renderer: impl FnOnce(Output, Output) -> Box<dyn Renderer>,
) -> (String, String) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.txt"), "a").unwrap();
    let workdir = tools::workdir(root.path()).unwrap();
    let permissions = crate::permissions::RunPermissions::without_rules(&workdir);
    let models = Arc::new(FixedModel(Arc::new(model)));
    let setup = Setup::bare(models, LlmConfig::named("fake/model"), workdir, permissions);
    let (feed, notes) = UiSender::new();
    let agent = setup.build(feed.clone()).unwrap();
    let mut sinks = EventSinks::default();
    sinks.wiretap(feed.clone());
    feed.tell(UiEvent::Began(Beginning { model: Some(setup.model()), ..Beginning::default() }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let state = AgentState::new().with_user_message("hi");
    let run = agent.start(state, RunOptions { sinks, ..RunOptions::default() });
    let state = runtime.block_on(run.finish());
    feed.tell(UiEvent::Over(Box::new(Report::of(None, &state, None, Duration::from_millis(1234)))));
    let (stdout, stderr) = (Sheet::default(), Sheet::default());
    let renderer = renderer(Box::new(stdout.clone()), Box::new(stderr.clone()));
    render_loop(renderer, &notes, || panic!("nobody hangs up")).unwrap();
    (stdout.text(), plain(&redact(&stderr.text())))
}

fn redact(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once("· ") {
        Some((before, took)) if took.contains(" ms") => format!("{before}· T\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn text(scope: Scope, target: Target, model: FakeModel, details: Verbosity) -> (String, String) {
    show(model, |stdout, stderr| {
        Box::new(Text::to(stdout, Progress::to(stderr, details), scope, target))
    })
}

const PROGRESS: &str = "  ✓ list_dir . · T
  ✗ read_file ../secret · T
    `../secret` is outside the working directory; use a path inside it
  ✗ no_such_tool {\"a\":1} · T
";

#[test]
fn words_go_to_one_stream_and_everything_else_to_the_other() {
    for model in
        [FakeModel::script(conversation()).with_fragment_size(3), FakeModel::script(conversation())]
    {
        let (stdout, stderr) = text(Scope::All, Target::File, model, Verbosity::Calls);
        assert_eq!(stdout, "Let me look.\nThere is a\u{1b}[2J file.\n");
        let (calls, rest) = stderr.split_at(PROGRESS.len());
        assert_eq!(calls, PROGRESS);
        assert!(rest.starts_with("    unknown tool `no_such_tool`"), "{rest}");
        assert!(rest.ends_with("\n\n\n2 steps · 1,030 tokens in, 204 out · 1.2 s\n"), "{rest}");
    }
}

#[test]
fn a_terminal_is_not_steered_by_the_model() {
    let model = FakeModel::script(conversation()).with_fragment_size(1);
    let (stdout, _) = text(Scope::All, Target::Terminal, model, Verbosity::Calls);
    assert_eq!(stdout, "Let me look.\nThere is a\u{fffd}[2J file.\n");
}

#[test]
fn a_quiet_run_prints_the_answer_only() {
    let model = FakeModel::script(conversation()).with_fragment_size(3);
    let (stdout, stderr) = text(Scope::Answer, Target::File, model, Verbosity::Errors);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("There is a\u{1b}[2J file.\n", ""));
}

#[test]
fn results_are_shown_if_asked_for() {
    let model = FakeModel::script(conversation());
    let (_, stderr) = text(Scope::All, Target::File, model, Verbosity::Results);
    assert!(stderr.starts_with("  ✓ list_dir . · T\n    [file] a.txt\n"), "{stderr}");
}

#[test]
fn json_is_one_line_at_the_end() {
    let (stdout, stderr) =
        show(FakeModel::script(conversation()).with_fragment_size(3), |stdout, stderr| {
            Box::new(Json::to(stdout, Progress::to(stderr, Verbosity::Calls)))
        });
    assert_eq!(stdout.lines().count(), 1);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["type"], "result");
    assert_eq!(report["text"], "There is a\u{1b}[2J file.");
    assert!(!stdout.contains('\u{1b}') && stderr.starts_with(PROGRESS));
}

#[test]
fn stream_json_tells_whatever_happens() {
    for (model, deltas) in [
        (FakeModel::script(conversation()), 1),
        (FakeModel::script(conversation()).with_fragment_size(100), 1),
    ] {
        let (stdout, stderr) = show(model, |stdout, stderr| {
            Box::new(StreamJson::to(stdout, Progress::to(stderr, Verbosity::Errors), Scope::All))
        });
        assert_eq!(stderr, "");
        let lines: Vec<Value> =
            stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        let types: Vec<&str> = lines.iter().map(|it| it["type"].as_str().unwrap()).collect();
        let mut sorted = types.clone();
        // Calls that run at the same time end in any order.
        sorted.dedup();
        assert_eq!(
            sorted,
            [
                "init",
                "step_started",
                "text_delta",
                "tool_call",
                "tool_result",
                "step_completed",
                "continuation",
                "step_started",
                "text_delta",
                "step_completed",
                "continuation",
                "result",
            ]
        );
        assert_eq!(types.iter().filter(|it| **it == "text_delta").count(), 2 * deltas);
        assert_eq!(lines[0]["model"], "fake/model");
        let call = lines.iter().find(|it| it["type"] == "tool_call").unwrap();
        assert_eq!(call["arguments"], json!({"path": "."}));
        let results = lines.iter().filter(|it| it["type"] == "tool_result");
        let result = results.clone().find(|it| it["tool"] == "list_dir").unwrap();
        assert_eq!((&result["output"], &result["success"]), (&json!("[file] a.txt"), &json!(true)));
        let refused = results.clone().find(|it| it["tool"] == "read_file").unwrap();
        assert_eq!(refused["output"], Value::Null);
        assert!(refused["error"].as_str().unwrap().contains("outside"));
    }
}

#[test]
fn a_quiet_stream_is_the_result() {
    let (stdout, _) = show(FakeModel::script(conversation()), |stdout, stderr| {
        Box::new(StreamJson::to(stdout, Progress::to(stderr, Verbosity::Errors), Scope::Answer))
    });
    assert_eq!(stdout.lines().count(), 1);
    assert!(stdout.contains(r#""type":"result""#));
}

#[test]
fn a_reader_that_hangs_up_is_told_of_once_and_nothing_more_is_written() {
    struct Closed;
    impl Renderer for Closed {
        fn take(&mut self, _: &UiEvent) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let (feed, notes) = UiSender::new();
    for _ in 0..3 {
        feed.tell(UiEvent::Interrupted);
    }
    let report = Report::refused(crate::exit::ExitCode::Done, "", String::new());
    feed.tell(UiEvent::Over(Box::new(report)));
    let told = std::cell::Cell::new(0);
    let shown = render_loop(Box::new(Closed), &notes, || told.set(told.get() + 1));
    assert_eq!(shown.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(told.get(), 1);
}

fn subagent(name: &str) -> Source {
    use loopwright_core::messages::AgentId;
    Source {
        agent: Some(AgentId::new(name)),
        parent: Some(AgentId::new("lead")),
        ..Source::default()
    }
}

fn answer(of: &str, text: &str, calls: &[&str]) -> UiEvent {
    let call = |path: &&str| ToolCall::new("c", "read_file", format!("{{\"path\":\"{path}\"}}"));
    UiEvent::Answered(Answer {
        source: subagent(of),
        step: 1,
        aside: false,
        text: text.to_owned(),
        calls: calls.iter().map(call).collect(),
        is_priced: true,
    })
}

/// Events are made from their JSON form: only the loop makes them otherwise.
fn event(of: &str, event: Value) -> UiEvent {
    UiEvent::Event(subagent(of), serde_json::from_value(event).unwrap())
}

/// An agent begins, or continues in another process.
fn began(of: &str) -> UiEvent {
    let begun = json!({
        "type": "execution_started", "name": of, "messages": 1, "tools": 1, "resumed": false,
    });
    event(of, begun)
}

fn completed(of: &str, call: u16, value: Option<Value>) -> UiEvent {
    let output = ToolOutcome::Returned(loopwright_core::ToolOutput {
        value: value.map(Arc::new),
        ..loopwright_core::ToolOutput::text("done")
    });
    event(
        of,
        json!({
            "type": "tool_call_completed", "step": 1, "call": call, "id": null, "tool": "read_file",
            "arguments": format!("{{\"path\":\"{}{}\"}}", &of[..1], call + 1), "outcome": output, "success": true, "duration": {"secs": 0, "nanos": 1_000_000},
        }),
    )
}

fn delta(of: &str, delta: &Value) -> UiEvent {
    event(of, json!({"type": "stream_delta", "step": 1, "delta": delta}))
}

#[test]
fn calls_of_subagents_that_work_at_the_same_time_are_told_apart() {
    let (stdout, stderr) = (Sheet::default(), Sheet::default());
    let progress = Progress::to(Box::new(stderr.clone()), Verbosity::Calls);
    let mut text = Text::to(Box::new(stdout.clone()), progress, Scope::All, Target::File);
    for note in [
        began("ann"),
        began("ben"),
        answer("ann", "", &["a1", "a2"]),
        answer("ben", "", &["b1"]),
        delta("ann", &json!({"text": "inner"})),
        completed("ann", 1, None),
        completed("ben", 0, None),
        answer("ben", "inner", &[]),
        completed("ann", 0, None),
    ] {
        text.take(&note).unwrap();
    }
    let expect =
        "  ✓ ben › read_file b1 · T\n  ✓ ann › read_file a1 · T\n  ✓ ann › read_file a2 · T\n";
    assert_eq!((stdout.text(), plain(&redact(&stderr.text()))), (String::new(), expect.to_owned()));
}

#[test]
fn a_call_that_another_process_began_is_shown_with_its_agent_and_its_arguments() {
    let stderr = Sheet::default();
    let mut progress = Progress::to(Box::new(stderr.clone()), Verbosity::Calls);
    for note in [began("ann"), completed("ann", 1, None), answer("ann", "done", &[])] {
        progress.take(&note);
    }
    assert_eq!(plain(&redact(&stderr.text())), "  ✓ ann › read_file a2 · T\n");
}

#[test]
fn a_command_that_fails_gets_no_tick_and_its_line_says_how_it_failed() {
    let line = |value: Value| {
        let stderr = Sheet::default();
        let mut progress = Progress::to(Box::new(stderr.clone()), Verbosity::Calls);
        progress.take(&began("ann"));
        progress.take(&answer("ann", "", &["a1"]));
        progress.take(&completed("ann", 0, Some(value)));
        plain(&redact(&stderr.text()))
    };
    let command = |code: i32, is_late: bool| {
        line(json!({"success": code == 0, "exit_code": code, "timed_out": is_late}))
    };
    assert_eq!(command(0, false), "  ✓ ann › read_file a1 · T\n");
    assert_eq!(command(3, false), "  ✗ ann › read_file a1 · exit 3 · T\n    done\n");
    assert_eq!(command(124, true), "  ✗ ann › read_file a1 · timed out · T\n    done\n");
    let child = |status: &str| line(json!({"subagent": "b", "status": status}));
    assert_eq!(child("completed"), "  ✓ ann › read_file a1 · T\n");
    assert_eq!(child("stopped"), "  ✗ ann › read_file a1 · stopped · T\n");
}

#[test]
fn notes_of_a_command_are_lines_below_its_call() {
    let stderr = Sheet::default();
    let mut progress = Progress::to(Box::new(stderr.clone()), Verbosity::Calls);
    progress.take(&began("ann"));
    progress.take(&answer("ann", "", &["a1"]));
    let notes = json!(["the change to `.envrc` was not applied", "`~/.ssh` is hidden"]);
    progress.take(&completed("ann", 0, Some(json!({"success": true, "notes": notes}))));
    let expect = "  ✓ ann › read_file a1 · T\n    the change to `.envrc` was not applied\n    `~/.ssh` is hidden\n";
    assert_eq!(plain(&redact(&stderr.text())), expect);
}

#[test]
fn something_turns_while_a_model_reasons_or_prepares_a_call_until_words_are_shown() {
    let own =
        |event: Value| UiEvent::Event(Source::default(), serde_json::from_value(event).unwrap());
    let delta = |delta: Value| own(json!({"type": "stream_delta", "step": 1, "delta": delta}));
    let begin =
        own(json!({"type": "inference_request_started", "step": 1, "messages": 1, "model": null}));
    let waits = |scope: Scope, notes: &[UiEvent]| {
        let progress = Progress::to(Box::new(Sheet::default()), Verbosity::Calls);
        let mut text = Text::to(Box::new(Sheet::default()), progress, scope, Target::File);
        for note in notes {
            text.take(note).unwrap();
        }
        text.waits_for()
    };
    let thinks = delta(json!({"reasoning": "hm"}));
    let says = delta(json!({"text": "I"}));
    let calls = delta(json!({"tool_call": {"index": 0, "name": "edit_file"}}));
    let of = |notes: &[&UiEvent]| notes.iter().map(|it| (*it).clone()).collect::<Vec<_>>();
    let waited = |scope, notes: &[&UiEvent]| waits(scope, &of(notes));
    assert_eq!(waited(Scope::All, &[&begin]), ["waiting for the model"]);
    assert_eq!(waited(Scope::All, &[&begin, &thinks]), ["thinking: hm"]);
    assert_eq!(waited(Scope::All, &[&begin, &thinks, &says]), [""; 0]);
    assert_eq!(waited(Scope::All, &[&begin, &says, &calls]), ["preparing edit_file"]);
    assert_eq!(waited(Scope::Answer, &[&begin, &says]), ["answering"]);
}

#[test]
fn the_progress_of_a_call_of_a_server_is_shown_beside_the_call() {
    let own = |event: AgentEvent| UiEvent::Event(Source::default(), event);
    let started = |call: u16, tool: &str| {
        let started = json!({"type": "tool_call_started", "step": 1, "call": call, "attempt": 1, "tool": tool, "arguments": "{}"});
        own(serde_json::from_value(started).unwrap())
    };
    let mut reached = McpProgress::new("mcp__files__copy", 2.0, "b.txt\u{1b}[2J");
    reached.total = Some(5.0);
    let mut progress = Progress::to(Box::new(Sheet::default()), Verbosity::Calls);
    for note in [started(0, "bash"), started(1, "mcp__files__copy"), own(reached.into())] {
        progress.take(&note);
    }
    assert_eq!(progress.waits_for(), ["bash ", "mcp__files__copy  · 2 of 5 · b.txt\u{fffd}[2J"]);
}

/// Plays notes as JSON lines, and returns their types.
fn played(notes: Vec<UiEvent>) -> Vec<String> {
    let sheet = Sheet::default();
    let progress = Progress::to(Box::new(io::sink()), Verbosity::Errors);
    let renderer = StreamJson::to(Box::new(sheet.clone()), progress, Scope::All);
    let (tell, heard) = std::sync::mpsc::channel();
    for note in notes {
        tell.send(note).unwrap();
    }
    drop(tell);
    render_loop(Box::new(renderer), &heard, || {}).unwrap();
    let lines = sheet.text();
    let lines = lines.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    lines.map(|it| it["type"].as_str().unwrap().to_owned()).collect()
}

fn looking() -> UiEvent {
    let response = ScenarioStep::tool_call("look", json!({})).with_text("Let me see.");
    let message = response.to_response().unwrap().message;
    UiEvent::Answered(Answer {
        source: Source::default(),
        step: 1,
        aside: false,
        text: message.text(),
        calls: message.tool_calls().cloned().collect(),
        is_priced: false,
    })
}

fn over(stop_reason: &'static str) -> UiEvent {
    let report =
        crate::report::Report::refused(crate::exit::ExitCode::Internal, stop_reason, String::new());
    UiEvent::Over(Box::new(report))
}

#[test]
fn answer_that_the_journal_did_not_take_is_not_shown() {
    let notes =
        |stop_reason| vec![UiEvent::Began(Beginning::default()), looking(), over(stop_reason)];
    assert_eq!(played(notes("journal")), ["init", "result"]);
    assert_eq!(played(notes("hook")), ["init", "text_delta", "tool_call", "result"]);
}

#[test]
fn answer_is_shown_once_an_event_says_that_it_is_durable() {
    let told = Arc::<Mutex<Vec<AgentEvent>>>::default();
    let tells = Arc::clone(&told);
    let sink = move |envelope: &EventEnvelope| tells.lock().unwrap().push(envelope.event.clone());
    let agent = test_loop(ModelDriver::new(FakeModel::script(["hello"])));
    let agent = agent.with_event_sink(Arc::new(sink));
    block_on(agent.execute(AgentState::new().with_user_message("go")));
    let told = told.lock().unwrap();
    let is_asked = |it: &AgentEvent| matches!(it, AgentEvent::InferenceRequestStarted(_));
    let asked = told.iter().position(is_asked).unwrap();
    let mut held = Held::default();
    assert_eq!(held.pass(looking()).count(), 0);
    let mut shows =
        |it: &&AgentEvent| held.pass(UiEvent::Event(Source::default(), (*it).clone())).count() == 2;
    let event = told[asked..].iter().find(&mut shows);
    assert!(matches!(event, Some(AgentEvent::StepCompleted(_))), "{event:?}");
}

#[test]
fn a_compaction_on_the_way_is_told_in_a_line() {
    let stderr = Sheet::default();
    let mut progress = Progress::to(Box::new(stderr.clone()), Verbosity::Calls);
    let volume = |turns: u64, tokens: u64| json!({"turns": turns, "tokens": tokens});
    progress.take(&event(
        "ann",
        json!({
            "type": "conversation_compacted", "before": volume(34, 12_400), "after": volume(5, 1830),
            "files": [], "problems": [],
        }),
    ));
    let expect = "compacted: 34 messages to 5, about 12,400 tokens to 1,830\n";
    assert_eq!(plain(&stderr.text()), expect);
}

/// Returns what a terminal shows of a sheet, and the row and the column of the cursor.
fn screen(sheet: &Sheet) -> (String, (u16, u16)) {
    let size = |count: u16| std::num::NonZeroU16::new(count).unwrap();
    let mut parser = vt100::Parser::new(size(12), size(40), 0);
    parser.process(sheet.text().replace('\n', "\r\n").as_bytes());
    (parser.screen().contents(), parser.screen().cursor_position())
}

#[test]
fn what_is_typed_is_seen_below_the_answer_that_is_written_and_then_behind_it() {
    let sheet = Sheet::default();
    let width = || markdown::Width::of(40);
    let target = Target::Styled(markdown::Markdown::new(width(), markdown::Preview::Shown), width);
    let progress = Progress::to(Box::new(sheet.clone()), Verbosity::Calls);
    let mut text = Text::to(Box::new(sheet.clone()), progress, Scope::All, target);
    let mut take = |note: UiEvent| {
        text.take(&note).unwrap();
        screen(&sheet)
    };
    let words = |words: &str| {
        let delta = loopwright_core::StreamFragment::Text(words.to_owned());
        let event = json!({"type": "stream_delta", "step": 1, "delta": delta});
        UiEvent::Event(Source::default(), serde_json::from_value(event).unwrap())
    };
    let typing = |draft: &str| UiEvent::Typing(draft.to_owned());
    take(words("The **answer** goes"));
    let seen = take(typing("/cost"));
    assert_eq!(seen, ("The answer goes\n› /cost".to_owned(), (0, 15)));
    take(typing(""));
    let seen = take(UiEvent::Told("60 tokens\ncost".to_owned()));
    assert_eq!(seen.0, "The answer goes\n60 tokens\ncost");
    let seen = take(UiEvent::Sent("Stop that.".to_owned()));
    assert_eq!(seen.0, "The answer goes\n60 tokens\ncost\n› Stop that.");
    take(UiEvent::Queued("/clear".to_owned()));
    let seen = take(words(" on"));
    let below = "60 tokens\ncost\n› Stop that.\n› /clear · runs after this turn";
    assert_eq!(seen, (format!("The answer goes on\n{below}"), (0, 18)));
    // The end of a long line is seen, and the last of many lines.
    take(typing("a"));
    let seen = take(typing(&("b".repeat(50) + " the end")));
    let end = format!("› …{} the end", "b".repeat(28));
    assert_eq!(seen.0, format!("The answer goes on\n{below}\n{end}"));
    take(typing(""));
    let answer = Answer {
        source: Source::default(),
        step: 1,
        aside: false,
        text: "The **answer** goes on".to_owned(),
        calls: Vec::new(),
        is_priced: true,
    };
    let seen = take(UiEvent::Answered(answer));
    assert_eq!(seen, (format!("The answer goes on\n{below}"), (5, 0)));
}
