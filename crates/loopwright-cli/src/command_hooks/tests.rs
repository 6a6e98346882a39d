use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, UseHook, UseTools};
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_capabilities::llm::UseLlm;
use loopwright_capabilities::permissions::Permissions;
use loopwright_core::messages::ToolCall;
use loopwright_core::{
    AgentLoop, AgentState, BoxError, Hook, HookCx, HookPoint, HookPoints, RunOptions, ToolDecision,
};
use loopwright_permissions::Policy;
use loopwright_sandbox::{ExitOutcome, FakeSandbox, Output, SandboxPolicy, TimeoutKind};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::hook::{HookSetup, UseCommandHooks};
use super::output::{HookDecision, Said};
use super::{Action, CommandHook, CommandHooks, HookEvent, Matcher, OnFailure, Places, read};

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
    assert!(matches("Bash, Edit", "Edit") && matches("Bash | Edit", "Bash"), "blanks do not count");
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
            "PreToolUse Bash: asks: settings.json:1: a hook in `hooks.PreToolUse` has the unsupported type `prompt`",
            "PreToolUse Bash: blocks: settings.json:1: a hook in `hooks.PreToolUse` has no `command`",
            "Stop: stop (settings.json)",
            "UserPromptSubmit: prompt (settings.json)",
        ]
    );
    let seconds: Vec<u64> = HookEvent::ALL
        .into_iter()
        .flat_map(|event| read.iter().filter(move |hook| hook.event == event))
        .map(|hook| hook.timeout.as_secs())
        .collect();
    assert_eq!(seconds, [5, 600, 600, 30, 600]);
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    assert!(
        hooks(
            &json!({ "disableAllHooks": true, "hooks": { "Stop": [{ "hooks": [command("x")] }] } })
        )
        .0
        .is_empty()
    );
}

#[test]
fn a_hook_that_cannot_be_read_blocks_and_hides_no_other() {
    let ok = r#"{"hooks":[{"type":"command","command":"ok"}]}"#;
    let of = |event: &str, groups: &str| {
        let text = format!("{{\"hooks\": {{\n\"{event}\": {groups} }} }}");
        let (hooks, warnings) = read(Path::new("s.json"), &text);
        (hooks.iter().map(ToString::to_string).collect::<Vec<_>>(), warnings)
    };
    let run = |event: &str, what: &str| format!("{event}{what} (s.json)");
    let cases = [
        (format!(r#"[{{"matcher":"x"}},{ok}]"#), " x", "an entry in `hooks.E` has no `hooks`"),
        (format!("[7,{ok}]"), "", "an entry in `hooks.E` is not an object"),
        (
            format!(r#"[{{"matcher":"x","hooks":{{}}}},{ok}]"#),
            " x",
            "`hooks` of an entry in `hooks.E` is not a list",
        ),
        (
            format!(r#"[{{"matcher":"x","hooks":[1]}},{ok}]"#),
            " x",
            "a hook in `hooks.E` is not an object",
        ),
        (
            format!(r#"[{{"hooks":[{{"command":"a"}}]}},{ok}]"#),
            "",
            "a hook in `hooks.E` has no `type`",
        ),
        (
            format!(r#"[{{"hooks":[{{"type":"command","command":7}}]}},{ok}]"#),
            "",
            "a hook in `hooks.E` has no `command`",
        ),
    ];
    for (groups, matcher, problem) in cases {
        for (event, effect) in [
            ("PreToolUse", "so calls that it could match are blocked"),
            ("UserPromptSubmit", "so messages are blocked"),
        ] {
            let problem = format!("s.json:2: {}", problem.replace('E', event));
            let expect = vec![format!("{event}{matcher}: blocks: {problem}"), run(event, ": ok")];
            let warned = vec![format!("{problem}, {effect}")];
            assert_eq!(of(event, &groups), (expect, warned), "{groups}");
        }
        let warned = vec![format!("s.json:2: {}; it is ignored", problem.replace('E', "Stop"))];
        assert_eq!(of("Stop", &groups), (vec![run("Stop", ": ok")], warned), "{groups}");
    }
    let all = |text: &str| {
        let (hooks, warnings) = read(Path::new("s.json"), text);
        (hooks.iter().map(ToString::to_string).collect::<Vec<_>>(), warnings.len())
    };
    let blocks = |problem: &str| (vec![format!("PreToolUse: blocks: {problem}")], 1);
    assert_eq!(all(r#"{"hooks":[7]}"#), blocks("s.json:1: `hooks` is not an object"));
    assert_eq!(
        all(r#"{"hooks":{"PreToolUse":"x"}}"#),
        blocks("s.json:1: `hooks.PreToolUse` is not a list")
    );
    assert_eq!(
        all("{\n"),
        blocks("s.json:2: the file cannot be read: EOF while parsing an object at line 2 column 0")
    );
    for text in ["{}", r#"{"hooks":[]}"#, r#"{"hooks":null}"#, r#"{"hooks":{"PreToolUse":null}}"#] {
        assert_eq!(all(text), (Vec::new(), 0), "{text}");
    }
    let twice = format!(r#"{{"hooks":{{"Stop":[{ok}],"Stop":[]}},"hooks":{{"Stop":[{ok}]}}}}"#);
    assert_eq!(all(&twice), (vec![run("Stop", ": ok"), run("Stop", ": ok")], 0));
}

#[test]
fn settings_of_a_hook_that_cannot_be_read_are_warnings_and_the_hook_runs() {
    let text = r#"{ "disableAllHooks": "yes",
"hooks": { "PreToolUse": [
{ "matcher": {}, "name": "x", "hooks": [{ "type": "command", "command": "a", "timeout": "60",
"if": 7, "onFailure": "stop", "once": 1,
"async": true, "statusMessage": "s", "shell": "zsh" }] },
{ "hooks": [{ "type": "command", "command": "b", "timeout": 5, "if": null, "async": false, "shell": "bash",
"once": true }] }] } }"#;
    let (hooks, warnings) = read(Path::new("s.json"), text);
    assert_eq!(
        warnings,
        [
            "s.json:1: `disableAllHooks` is not `true` or `false`; the hooks run",
            "s.json:3: a `matcher` in `hooks.PreToolUse` is not a string; every name matches",
            "s.json:3: `name` of an entry in `hooks.PreToolUse` is ignored",
            "s.json:4: `if` of a hook in `hooks.PreToolUse` is not a rule; every call matches",
            "s.json:3: `timeout` of a hook in `hooks.PreToolUse` is not a number of seconds; the default timeout applies",
            "s.json:4: `onFailure` of a hook in `hooks.PreToolUse` is not `block` or `continue`; a failure blocks",
            "s.json:4: `once` of a hook in `hooks.PreToolUse` is not `true` or `false`; the hook runs each time",
            "s.json:5: `async` of a hook in `hooks.PreToolUse` is ignored; the agent waits for the hook",
            "s.json:5: `statusMessage` of a hook in `hooks.PreToolUse` is ignored",
            "s.json:5: `shell` of a hook in `hooks.PreToolUse` is ignored",
        ]
    );
    let read =
        hooks.iter().map(|it| (it.to_string(), it.timeout.as_secs(), it.on_failure, it.is_once));
    let expect = [
        ("PreToolUse: a (s.json)".to_owned(), 600, OnFailure::Block, false),
        ("PreToolUse: b (s.json)".to_owned(), 5, OnFailure::Continue, true),
    ];
    assert_eq!(read.collect::<Vec<_>>(), expect);
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
fn an_answer_replaces_the_result_of_a_call_and_what_is_unknown_in_it_is_a_message() {
    let answer = json!({
        "permissionDecision": "deny", "suppressOutput": true, "colour": 1,
        "hookSpecificOutput": { "hookEventName": "x", "updatedToolOutput": "[redacted]", "size": 2 },
    });
    let unknown = "the output of a hook has unknown keys: `colour`, `size`".to_owned();
    let after = answered(HookEvent::PostToolUse, &answer);
    assert_eq!((after.output, after.messages), (Some(json!("[redacted]")), vec![unknown.clone()]));
    let before = answered(HookEvent::PreToolUse, &answer);
    let ignored = "`updatedToolOutput` of a hook is ignored for the event `PreToolUse`".to_owned();
    assert_eq!((before.output, before.messages), (None, vec![unknown, ignored]));
    assert_eq!(before.decision, Some(HookDecision::Block("no reason given".to_owned())));
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

/// Reports each call, and never decides about it.
struct Stuck(CancellationToken);

#[async_trait]
impl Hook for Stuck {
    fn points(&self) -> HookPoints {
        HookPoint::BeforeTool.into()
    }

    async fn before_tool(
        &self,
        _call: &ToolCall,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        self.0.cancel();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_call_is_asked_about_again_if_the_run_ended_before_the_question_of_a_hook_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (mut found, _) = hooks(&json!({ "hooks": { "PreToolUse": [
        { "hooks": [{ "type": "command", "command": "true", "once": true }] },
    ] } }));
    found[0].action = Action::Ask("really?".to_owned());
    let setup = HookSetup {
        hooks: CommandHooks::new(found),
        sandbox: Arc::new(FakeSandbox::new()),
        policy: SandboxPolicy::in_dir(folder.path()),
        files: WorkspaceRoot::new(folder.path()),
        permissions: Permissions::new(Policy::builder("/project").build()),
        project: folder.path().to_owned(),
        home: None,
        session: None,
        tell: |_| {},
    };
    let tool = MockTool::returning("paint", "", "painted");
    let agent = |model: FakeModel, stuck: Option<Stuck>| -> AgentLoop {
        let builder = AgentBuilder::base()
            .with(UseLlm::from_model(model))
            .with(UseTools::new().with_tool(tool.clone()))
            .with(UseCommandHooks(Some(setup.clone())));
        let builder = match stuck {
            Some(hook) => builder.with(UseHook::new(hook)),
            None => builder,
        };
        builder.build().unwrap()
    };
    let is_reached = CancellationToken::new();
    let model = FakeModel::script([ScenarioStep::tool_call("paint", json!({}))]);
    let asked = AgentState::new().with_user_message("go");
    let first = agent(model, Some(Stuck(is_reached.clone())));
    let mut run = first.start(asked, RunOptions::default());
    tokio::select! {
        _ = run.next() => {}
        () = is_reached.cancelled() => {}
    }
    let state = run.state().clone();
    drop(run);
    assert_eq!((state.pending().len(), tool.keys().len()), (0, 0), "{state:?}");
    let state = agent(FakeModel::script(["Done."]), None).execute(state).await;
    let questions: Vec<_> = state.pending().iter().map(|it| it.question.text.clone()).collect();
    assert_eq!((questions, tool.keys().len()), (vec!["really?".to_owned()], 0), "{state:?}");
}
