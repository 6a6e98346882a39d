use std::path::Path;

use loopwright_sandbox::{ExitOutcome, Output, TimeoutKind};
use serde_json::{Value, json};

use super::output::{HookDecision, Said};
use super::{CommandHook, HookEvent, Matcher, OnFailure, Places, read};

fn said(event: HookEvent, output: &Output) -> Said {
    let mut said = Said::default();
    said.add(event, output, OnFailure::Continue);
    said
}

fn answered(event: HookEvent, answer: &Value) -> Said {
    said(event, &Output::exited(0, answer.to_string(), ""))
}

fn hooks(settings: &Value) -> (Vec<CommandHook>, Vec<String>) {
    read(Path::new("settings.json"), &settings.to_string())
}

#[test]
fn matchers_are_names_or_regular_expressions() {
    let matches = |matcher: &str, name: &str| Matcher::new(matcher).unwrap().matches(&[name]);
    assert!(matches("", "Bash") && matches("*", "Bash") && matches("Bash|Edit", "Edit"));
    assert!(matches("Bash,Edit", "Bash") && matches("mcp__.*__write", "mcp__files__write_file"));
    assert!(!matches("Bash", "BashOutput") && !matches("Edit|Write", "MultiEdit"));
    assert!(matches("Edit.*", "MultiEdit"), "an expression matches a part");
    assert!(Matcher::new("(").is_err());
}

#[test]
fn settings_are_read_and_what_is_not_run_is_a_warning() {
    let command = |command: &str| json!({ "type": "command", "command": command });
    let (read, warnings) = hooks(&json!({ "hooks": {
        "PreToolUse": [{ "matcher": "Bash", "hooks": [
            { "type": "command", "command": "check", "timeout": 5, "if": "Bash(rm *)", "onFailure": "block" },
            { "type": "prompt", "prompt": "is it safe?" },
            { "type": "command" },
        ] }],
        "UserPromptSubmit": [{ "hooks": [command("prompt")] }],
        "Stop": [{ "matcher": "(", "hooks": [command("stop")] }],
        "PostToolUse": "none",
        "WorktreeCreate": [{ "hooks": [command("tree")] }],
    } }));
    let mut shown: Vec<String> = read.iter().map(ToString::to_string).collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "PreToolUse Bash if Bash(rm *): check (settings.json)",
            "Stop: stop (settings.json)",
            "UserPromptSubmit: prompt (settings.json)",
        ]
    );
    let seconds: Vec<u64> = HookEvent::ALL
        .into_iter()
        .flat_map(|event| read.iter().filter(move |hook| hook.event == event))
        .map(|hook| hook.timeout.as_secs())
        .collect();
    assert_eq!(seconds, [5, 30, 600]);
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    assert!(
        hooks(
            &json!({ "disableAllHooks": true, "hooks": { "Stop": [{ "hooks": [command("x")] }] } })
        )
        .0
        .is_empty()
    );
}

/// The places of a project in a home directory.
fn places(workdir: &Path) -> Places<'_> {
    Places { workdir, project: Path::new("/project"), home: Some(Path::new("/home/ann")) }
}

#[test]
fn paths_in_a_condition_start_where_those_of_rules_start() {
    let concerns = |file: &str, rule: &str, path: &str| {
        let condition = json!({ "type": "command", "command": "check", "if": rule });
        let settings = json!({ "hooks": { "PreToolUse": [{ "hooks": [condition] }] } });
        let (hooks, _) = read(Path::new(file), &settings.to_string());
        let arguments = json!({ "path": path });
        hooks[0].concerns("edit_file", &arguments, places(Path::new("/project/sub")))
    };
    let project = "/project/.claude/settings.json";
    assert!(concerns(project, "Edit(/src/**)", "../src/a.rs"));
    assert!(!concerns(project, "Edit(/src/**)", "src/a.rs"));
    assert!(concerns(project, "Edit(src/**)", "src/a.rs"));
    assert!(concerns(project, "Edit(~/notes)", "/home/ann/notes"));
    let own = "/home/ann/.config/loopwright/hooks.json";
    assert!(concerns(own, "Edit(/src/**)", "/home/ann/src/a.rs"));
    assert!(!concerns(own, "Edit(/src/**)", "../src/a.rs"));
}

#[test]
fn a_condition_is_a_rule_that_the_call_matches() {
    let condition = json!({ "type": "command", "command": "check", "if": "Bash(rm *)" });
    let (read, _) = hooks(&json!({ "hooks": { "PreToolUse": [{ "hooks": [condition] }] } }));
    let places = places(Path::new("/project"));
    let concerns = |command: &str| read[0].concerns("bash", &json!({ "command": command }), places);
    assert!(concerns("rm a") && concerns("ls && rm a") && concerns("eval $X"));
    assert!(!concerns("ls"));
}

#[test]
fn status_2_blocks_with_what_is_on_standard_error() {
    let blocked = said(HookEvent::PreToolUse, &Output::exited(2, "ignored", "use rg\n"));
    assert_eq!(blocked.decision, Some(HookDecision::Block("use rg".to_owned())));
    let failed = said(HookEvent::PreToolUse, &Output::exited(1, "", "broken"));
    assert_eq!((failed.decision, failed.messages.len()), (None, 1));
    let late = Output::ended(ExitOutcome::TimedOut(TimeoutKind::Wall));
    assert_eq!(said(HookEvent::PreToolUse, &late).decision, None);
    let mut strict = Said::default();
    strict.add(HookEvent::PreToolUse, &late, OnFailure::Block);
    assert!(matches!(strict.decision, Some(HookDecision::Block(_))));
}

#[test]
fn output_is_read_as_json() {
    let specific =
        |fields: Value| answered(HookEvent::PreToolUse, &json!({ "hookSpecificOutput": fields }));
    let denied =
        specific(json!({ "permissionDecision": "deny", "permissionDecisionReason": "no" }));
    assert_eq!(denied.decision, Some(HookDecision::Block("no".to_owned())));
    let asked = specific(json!({ "permissionDecision": "ask" }));
    assert!(matches!(asked.decision, Some(HookDecision::Ask(_))));
    assert_eq!(
        specific(json!({ "permissionDecision": "allow" })).decision,
        Some(HookDecision::Allow)
    );
    let changed =
        specific(json!({ "updatedInput": { "command": "ls" }, "additionalContext": "c" }));
    assert_eq!(
        (changed.input, changed.context),
        (Some(json!({ "command": "ls" })), vec!["c".to_owned()])
    );
    let stopped = answered(
        HookEvent::Stop,
        &json!({ "continue": false, "stopReason": "s", "systemMessage": "m" }),
    );
    assert_eq!((stopped.stop, stopped.messages), (Some("s".to_owned()), vec!["m".to_owned()]));
    let blocked =
        answered(HookEvent::Stop, &json!({ "decision": "block", "reason": "test first" }));
    assert_eq!(blocked.decision, Some(HookDecision::Block("test first".to_owned())));
}

#[test]
fn an_unreadable_answer_of_a_hook_before_a_call_blocks_it() {
    for text in [
        "{",
        r#"{"hookSpecificOutput": 1}"#,
        r#"{"hookSpecificOutput": {"permissionDecision": "deni"}}"#,
    ] {
        let said = said(HookEvent::PreToolUse, &Output::exited(0, text, ""));
        assert!(matches!(said.decision, Some(HookDecision::Block(_))), "{text}: {said:?}");
    }
}

#[test]
fn the_strongest_of_several_decisions_counts() {
    let mut all = Said::default();
    for decision in ["allow", "deny", "ask"] {
        let answer =
            json!({ "hookSpecificOutput": { "permissionDecision": decision } }).to_string();
        all.add(HookEvent::PreToolUse, &Output::exited(0, answer, ""), OnFailure::Continue);
    }
    assert!(matches!(all.decision, Some(HookDecision::Block(_))));
}

#[test]
fn plain_text_is_for_the_model_at_prompts_and_starts() {
    let output = Output::exited(0, "it is Monday\n", "");
    assert_eq!(said(HookEvent::UserPromptSubmit, &output).context, ["it is Monday"]);
    assert_eq!(said(HookEvent::SessionStart, &output).context, ["it is Monday"]);
    assert!(said(HookEvent::PostToolUse, &output).context.is_empty());
}
