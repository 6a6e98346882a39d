//! Lines for people.

use loopwright_broadcast::ConsoleOptions;
use loopwright_core::EventEnvelope;
use serde_json::{Value, json};

use crate::support::{event, event_of};

fn check(it: Value, expect: &str) {
    let plain = ConsoleOptions { use_colors: false, ..ConsoleOptions::default() };
    assert_eq!(plain.line(&event(it)).unwrap(), format!("05:06:07.089 [----:a] {expect}"));
}

#[test]
fn item_10_every_label_says_what_counts() {
    check(
        json!({ "type": "execution_started", "name": "a", "messages": 2, "tools": 3, "resumed": false }),
        "[EXEC] execution started: messages 2, tools 3",
    );
    check(
        json!({ "type": "execution_completed", "status": "completed", "steps": 2, "usage": { "input": 5 }, "errors": 0 }),
        "[DONE] status completed, steps 2, tokens 5",
    );
    let failure = json!({ "kind": "other", "chain": ["x".repeat(200)] });
    let text = format!("[FAIL] status failed, steps 1: {}…", "x".repeat(99));
    check(
        json!({ "type": "execution_failed", "failure": failure, "steps": 1, "usage": {} }),
        &text,
    );
    check(
        json!({ "type": "step_started", "step": 1, "messages": 2, "tools": [] }),
        "[STEP] step 1 started: messages 2",
    );
    check(
        json!({
            "type": "step_completed", "step": 1, "kind": "final_response", "has_tool_calls": false,
            "errors": [], "usage": { "output": 4 }, "finish": "stop", "duration": { "secs": 2, "nanos": 0 },
        }),
        "[STEP] step 1 completed: has_tool_calls false, errors 0, finish stop, tokens 4, 2.0 s",
    );
    check(
        json!({ "type": "tool_call_blocked", "step": 1, "call": 0, "tool": "rm", "arguments": "{}", "reason": "no", "hook": "guard" }),
        "[BLCK] rm by guard: no",
    );
    let outcome = json!({ "should_continue": false, "resolved_by": "steps", "stop_reason": "steps_limit", "evaluations": [] });
    check(
        json!({ "type": "continuation_evaluated", "step": 1, "outcome": outcome }),
        "[EVAL] stop: steps_limit, resolved by steps",
    );
    check(
        json!({ "type": "inference_request_started", "step": 1, "messages": 2, "model": "m" }),
        "[LLM ] request: messages 2, model m",
    );
    check(
        json!({ "type": "subagent_spawning", "subagent": "helper", "prompt": "look", "depth": 1, "max_depth": 3 }),
        "[SUB ] helper started: depth 1/3, look",
    );
    check(
        json!({ "type": "decision_extraction_failed", "step": 1, "error": "odd", "attempt": 1, "max_attempts": 2 }),
        "[FAIL] extraction failed (attempt 1/2): odd",
    );
    check(
        json!({ "type": "validation_failed", "step": 1, "subject": "x", "errors": ["1", "2", "3", "4"] }),
        "[FAIL] validation failed: 1; 2; 3",
    );
}

fn started(arguments: &str) -> Value {
    json!({
        "type": "tool_call_started", "step": 1, "call": 0, "id": "c", "tool": "look",
        "arguments": arguments, "attempt": 1,
    })
}

#[test]
fn item_10_tools_are_shown_with_up_to_five_arguments_that_steer_no_terminal() {
    check(
        started(r#"{"a":1,"b":[1,2],"c":{},"d":"x\u001b[31m","e":null,"f":1,"g":1}"#),
        "[TOOL] look {a=1, b=[2], c={...}, d=x\u{fffd}[31m, e=null} (+2 more)",
    );
    check(started(r#"{"z":1,"a":2}"#), "[TOOL] look {z=1, a=2}");
    check(started("not  json"), "[TOOL] look not json");
    check(started(r#"{"api_key":"k"}"#), "[TOOL] look {api_key=[redacted]}");
    let outcome = json!({ "failed": { "kind": "tool", "chain": ["y".repeat(200)] } });
    let completed = json!({
        "type": "tool_call_completed", "step": 1, "call": 0, "id": "c", "tool": "look",
        "arguments": "{}", "outcome": outcome, "success": false, "duration": { "secs": 0, "nanos": 5_000_000 },
    });
    check(completed, &format!("[TOOL] look failed, 5 ms: {}…", "y".repeat(79)));
}

#[test]
fn item_10_agents_that_run_at_the_same_time_are_told_apart_by_each_line() {
    let step = json!({ "type": "step_started", "step": 1, "messages": 1, "tools": [] });
    let bare =
        ConsoleOptions { use_colors: false, show_timestamps: false, ..ConsoleOptions::default() };
    let child = EventEnvelope {
        parent: Some(loopwright_core::messages::AgentId::new("agent-0001")),
        ..event_of("agent-0002", "e", step.clone())
    };
    let lines =
        [event_of("agent-0001", "e", step.clone()), child, event_of("agent-0003", "e", step)];
    let heads = lines.map(|it| bare.line(&it).unwrap()[..11].to_owned());
    assert_eq!(heads, ["[----:0001]", "[0001:0002]", "[----:0003]"]);
}

#[test]
fn a_line_names_the_permission_mode_of_its_event() {
    let step = json!({ "type": "step_started", "step": 1, "messages": 1, "tools": [] });
    let bare =
        ConsoleOptions { use_colors: false, show_timestamps: false, ..ConsoleOptions::default() };
    let envelope =
        EventEnvelope { permission_mode: Some("unconfined".into()), ..event_of("a", "e", step) };
    let line = bare.line(&envelope).unwrap();
    assert_eq!(line, "[----:a] [unconfined] [STEP] step 1 started: messages 1");
}

#[test]
fn the_console_omits_event_kinds_that_are_switched_off() {
    let hook = json!({ "type": "hook_executed", "point": "before_step", "hook": "h", "duration": { "secs": 0, "nanos": 0 } });
    assert_eq!(ConsoleOptions::default().line(&event(hook.clone())), None);
    let all = ConsoleOptions {
        show_hooks: true,
        show_timestamps: false,
        show_agent_ids: false,
        ..ConsoleOptions::default()
    };
    assert_eq!(all.line(&event(hook)).unwrap(), "\u{1b}[2m[HOOK]\u{1b}[0m before_step h, 0 ms");
    let quiet = ConsoleOptions { show_inference: false, ..ConsoleOptions::default() };
    let asked =
        json!({ "type": "inference_request_started", "step": 1, "messages": 2, "model": "m" });
    assert_eq!(quiet.line(&event(asked)), None);
}
