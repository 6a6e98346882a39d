//! Commands in an agent, in a sandbox that runs nothing.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_capabilities::bash::{
    Background, Bash, BashPolicy, NetworkUsed, OnDangerousCommand, UseBash,
};
use loopwright_capabilities::coding::UseCodingTools;
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_core::{
    AgentState, ChangedFile, FilesChanged, IntoTool as _, Step, ToolOutput, Writes,
};
use loopwright_sandbox::{
    Backend, Command, FakeSandbox, Network, NetworkAccess, NetworkOutcome, Output, SandboxPolicy,
};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, ScenarioStep};
use serde_json::json;

use crate::subagents::{processes, sandbox_helper, until};
use crate::support::{answers, calling, names, told};

fn says(output: Output) -> Arc<FakeSandbox> {
    Arc::new(FakeSandbox::new().otherwise(output))
}

#[test]
fn bash_takes_a_command_how_long_it_may_take_and_what_it_needs() {
    let tool = Bash::in_dir("/").into_tool();
    let schema = &*tool.spec().parameters;
    assert_eq!(schema["required"], json!(["command"]));
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["command", "network", "read", "timeout_seconds", "why", "write"]);
    assert_eq!(schema["properties"]["timeout_seconds"]["type"], "integer");
    assert_eq!(schema["properties"]["timeout_seconds"]["minimum"], 1);
    assert_eq!(schema["properties"]["command"]["type"], "string");
    assert_eq!(schema["additionalProperties"], json!(false));
}

#[test]
fn a_command_that_requested_hosts_or_paths_to_write_is_not_repeated_after_an_interruption() {
    let bash = Bash::in_dir("/srv").allow_needs(None).into_tool();
    let is_repeatable = |requested: &str, what: &str| {
        let arguments = json!({ "command": "make", requested: [what] });
        bash.is_repeatable(|| Cow::Owned(arguments))
    };
    let found = [("read", "/usr"), ("network", "a.example"), ("write", "/var/log")]
        .map(|(requested, what)| is_repeatable(requested, what));
    assert_eq!(found, [true, false, false]);
    assert!(bash.is_repeatable(|| Cow::Owned(json!({ "command": "make" }))));
}

#[test]
fn bash_describes_what_its_policy_allows() {
    let described = |policy: SandboxPolicy| {
        let tools = calling(
            UseBash::in_dir("/srv").with_policy(policy).with_background(Background::Allowed),
            &[],
        );
        let text = |name| tools.tools().get(name).unwrap().spec().description.to_string();
        [text("bash"), text("bash_start")]
    };
    let check = |policy: SandboxPolicy, expect: &str| {
        for text in described(policy) {
            assert!(text.contains(expect), "{text}");
        }
    };
    let policy = || SandboxPolicy::in_dir("/srv");
    check(
        policy(),
        "a sandbox: it can write only in the working directory and in /tmp, and has no network.",
    );
    let hosts = ["crates.io", "registry.internal@10.0.0.5"].map(|host| host.parse().unwrap());
    check(
        policy().with_network(Network::Domains(hosts.into())),
        "and can reach only `crates.io`, `registry.internal`.",
    );
    check(policy().with_network(Network::Host), "in /tmp, and uses the network of this machine.");
    check(
        policy().write("/srv/out").write("/data"),
        "only in the working directory, in `out`, in `/data` and in /tmp,",
    );
    check(policy().read_only(), "it can write only in /tmp, and has no network.");
    check(policy().read_only().write("/srv/out"), "it can write only in `out` and in /tmp,");
    check(policy().with_backend(Backend::Host), "The command is not confined:");
    check(policy().allow_weaker(Backend::Host), "in a sandbox if this machine has one:");
    // What is chosen later counts too.
    let host = Bash::in_dir("/srv").with_backend(Backend::Host).into_tool();
    assert!(host.spec().description.contains("The command is not confined:"));
}

#[test]
fn coding_tools_are_files_and_commands() {
    let files = ["read_file", "write_file", "edit_file", "list_dir", "search_files", "grep"];
    let tools = names(UseCodingTools::in_dir("/").with_background(Background::Allowed));
    assert_eq!(tools[..6], files);
    assert_eq!(tools[6..], ["bash", "bash_start", "bash_read", "bash_stop"]);
    assert_eq!(names(UseCodingTools::in_dir("/")).last().map(String::as_str), Some("bash"));
}

#[tokio::test]
async fn a_command_is_run_by_the_shell_under_the_policy() {
    let sandbox = says(Output::exited(3, "out", "err"));
    let bash = UseBash::in_dir("/srv").with_sandbox(sandbox.clone());
    let told = answers(bash, &[("bash", json!({ "command": "make" }))]).await;
    assert_eq!(told, ["Exit code: 3\n\nout\n\nSTDERR:\nerr"]);
    assert_eq!(sandbox.commands(), [Command::shell("make")]);
    let display = BashPolicy::default();
    let policy = &sandbox.policies()[0];
    assert_eq!(policy.workdir, std::path::Path::new("/srv"));
    assert_eq!(policy.limits.timeout, display.timeout);
    assert_eq!(policy.output.head + policy.output.tail, display.capture_bytes);
}

#[tokio::test]
async fn paths_protected_from_file_tools_are_protected_from_commands() {
    let home = tempfile::tempdir().unwrap();
    let sandbox = says(Output::exited(0, "", ""));
    let root = WorkspaceRoot::new(home.path()).protect("Cargo.lock");
    let tools = UseCodingTools::in_dir(root).with_sandbox(sandbox.clone());
    let write = json!({ "path": "Cargo.lock", "content": "" });
    let calls = [("bash", json!({ "command": "make" })), ("write_file", write)];
    let told = answers(tools, &calls).await;
    assert!(
        told[1].starts_with("Error: `Cargo.lock` was not changed: it is protected"),
        "{}",
        told[1]
    );
    let expect = SandboxPolicy::in_dir(home.path()).protect("Cargo.lock").protected;
    assert_eq!(sandbox.policies()[0].protected, expect);
}

#[tokio::test]
async fn a_policy_of_ones_own_counts_as_a_whole() {
    let sandbox = says(Output::exited(0, "", ""));
    let own = SandboxPolicy::in_dir("/srv").with_timeout(Duration::from_secs(5));
    let bash = UseBash::in_dir("/other").with_policy(own.clone()).with_sandbox(sandbox.clone());
    let bash = bash.write_at_once();
    answers(bash, &[("bash", json!({ "command": "make" }))]).await;
    assert_eq!(sandbox.policies(), [own]);
}

/// Returns how many seconds a command gets for which this many are asked for.
async fn granted(bash: UseBash, asked: &[Option<u32>]) -> Vec<u64> {
    let sandbox = says(Output::exited(0, "", ""));
    let call = |seconds: &Option<u32>| match seconds {
        Some(seconds) => ("bash", json!({ "command": "make", "timeout_seconds": seconds })),
        None => ("bash", json!({ "command": "make" })),
    };
    let calls: Vec<_> = asked.iter().map(call).collect();
    answers(bash.with_sandbox(sandbox.clone()), &calls).await;
    sandbox.policies().iter().map(|it| it.limits.timeout.as_secs()).collect()
}

#[tokio::test]
async fn a_command_may_take_as_long_as_is_asked_for_and_allowed() {
    let asked = [None, Some(5), Some(300), Some(9999)];
    let bash = || UseBash::in_dir("/srv");
    assert_eq!(granted(bash(), &asked).await, [120, 5, 300, 600]);
    let display = BashPolicy { timeout: Duration::from_mins(20), ..BashPolicy::default() };
    assert_eq!(
        granted(bash().with_output_policy(display.clone()), &asked).await,
        [1200, 5, 300, 1200]
    );
    let minute = Duration::from_mins(1);
    assert_eq!(
        granted(bash().with_output_policy(display).with_max_timeout(minute), &asked).await,
        [60, 5, 60, 60]
    );
    let own = SandboxPolicy::in_dir("/srv").with_timeout(minute);
    assert_eq!(granted(bash().with_policy(own), &asked).await, [60, 5, 60, 60]);
}

#[tokio::test]
async fn a_time_above_the_maximum_is_reduced_and_the_result_says_so() {
    let result = |seconds: u32| async move {
        let bash = UseBash::in_dir("/srv").with_sandbox(says(Output::exited(0, "made", "")));
        let bash = bash.with_max_timeout(Duration::from_mins(1)).write_at_once();
        let call = json!({ "command": "make", "timeout_seconds": seconds });
        answers(bash, &[("bash", call)]).await
    };
    assert_eq!(result(60).await, ["made"]);
    let note =
        "made\n\n[the requested time of 61 seconds was reduced to the maximum of 60 seconds]";
    assert_eq!(result(61).await, [note]);
}

#[tokio::test]
async fn a_command_cannot_be_given_no_time() {
    let sandbox = says(Output::exited(0, "", ""));
    let call = json!({ "command": "make", "timeout_seconds": 0 });
    let told =
        answers(UseBash::in_dir("/srv").with_sandbox(sandbox.clone()), &[("bash", call)]).await;
    assert!(told[0].starts_with("Error: "), "{}", told[0]);
    assert_eq!(sandbox.commands(), []);
}

#[tokio::test]
async fn a_command_is_told_what_the_sandbox_keeps_from_it() {
    let stderr = "cat: /home/me/.netrc: No such file or directory";
    let output = Output { driver: "namespaces".to_owned(), ..Output::exited(1, "", stderr) };
    let bash = UseBash::in_dir("/srv").with_sandbox(says(output));
    let told = answers(bash, &[("bash", json!({ "command": "cat ~/.netrc" }))]).await;
    let note = "[`/home/me/.netrc` is not visible in the sandbox]";
    assert_eq!(told, [format!("Exit code: 1\n\nSTDERR:\n{stderr}\n\n{note}")]);
}

#[tokio::test]
async fn changing_the_policy_keeps_time_limit_and_output_policy() {
    let sandbox = says(Output::exited(0, "", ""));
    let bash = UseBash::in_dir("/srv").with_sandbox(sandbox.clone());
    let bash = bash.confine(|policy| policy.with_memory(7).with_timeout(Duration::from_secs(1)));
    answers(bash, &[("bash", json!({ "command": "make" }))]).await;
    let limits = &sandbox.policies()[0].limits;
    assert_eq!((limits.memory, limits.timeout), (7, BashPolicy::default().timeout));
}

#[tokio::test]
async fn a_dangerous_command_is_run_with_a_note_or_blocked() {
    let call = [("bash", json!({ "command": "rm  -rf /" }))];
    let sandbox = says(Output::exited(1, "", "no"));
    let told = answers(UseBash::in_dir("/srv").with_sandbox(sandbox.clone()), &call).await;
    assert_eq!(
        told,
        [
            "Exit code: 1\n\nSTDERR:\nno\n\n[The command looks dangerous because it contains `rm -rf /`, but it was run.]"
        ]
    );
    assert_eq!(sandbox.commands().len(), 1);
    let display = BashPolicy { on_danger: OnDangerousCommand::Block, ..BashPolicy::default() };
    let bash = UseBash::in_dir("/srv").with_sandbox(sandbox.clone()).with_output_policy(display);
    let told = answers(bash, &call).await;
    assert_eq!(
        told,
        ["Error: Command blocked by safety policy: it contains `rm -rf /`; ask the user to run it"]
    );
    assert_eq!(sandbox.commands().len(), 1, "it was not run");
}

#[tokio::test]
async fn a_command_that_the_sandbox_refuses_is_an_error() {
    let bash = UseBash::in_dir("/srv").with_sandbox(Arc::new(FakeSandbox::new()));
    let told = answers(bash, &[("bash", json!({ "command": "make" }))]).await;
    assert!(told[0].starts_with("Error: no output is queued for"), "{}", told[0]);
}

#[tokio::test]
async fn a_command_in_the_background_is_read_and_stopped() {
    let notes = vec![".envrc was moved away".to_owned()];
    let sandbox = says(Output { notes, ..Output::exited(0, "listening\n", "") });
    let bash = UseBash::in_dir("/srv").with_sandbox(sandbox).with_background(Background::Allowed);
    let calls = [
        ("bash_start", json!({ "command": "serve" })),
        ("bash_start", json!({ "command": "serve" })),
        ("bash_stop", json!({ "id": 2 })),
        ("bash_read", json!({ "id": 2 })),
        ("bash_read", json!({ "id": "one" })),
    ];
    let told = answers(bash, &calls).await;
    assert_eq!(told[0], "Command 1 is running; read its output with bash_read.");
    let ended = "[.envrc was moved away]\n\n[command 2 exited with status 0]";
    assert!(told[2].contains(ended), "{}", told[2]);
    let missing = "Error: unknown background command 2; background commands end with the run or the program that started them";
    assert_eq!(told[3..], [missing.to_owned(), missing.replace('2', "one")]);
}

#[tokio::test]
async fn hosts_that_a_command_in_the_background_asked_for_are_told() {
    let reason = "a.example is not granted".to_owned();
    let outcome = NetworkOutcome::Refused { reason };
    let access = NetworkAccess { host: "a.example".to_owned(), port: 443, connections: 1, outcome };
    let sandbox = says(Output { network: vec![access.clone()], ..Output::exited(1, "", "") });
    let model = FakeModel::script([
        ScenarioStep::tool_call("bash_start", json!({ "command": "serve" })),
        ScenarioStep::tool_call("bash_stop", json!({ "id": "1" })),
        "done".into(),
    ]);
    let events = EventRecorder::new();
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(
            UseBash::in_dir("/srv").with_sandbox(sandbox).with_background(Background::Allowed),
        )
        .with_event_sink(events.sink())
        .build()
        .unwrap();
    let state = agent.execute(AgentState::new().with_user_message("go")).await;
    assert_eq!(
        told(&state)[1],
        "[network: a.example is not granted]\n\n[command 1 exited with status 1]"
    );
    assert_eq!(events.events_of::<NetworkUsed>(), [NetworkUsed { hosts: vec![access] }]);
}

#[tokio::test]
async fn a_command_in_the_background_ends_with_its_run() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    // A length that no other process sleeps.
    let sleep = format!("sleep {}.375", 100_000 + std::process::id());
    let command = sleep.clone();
    let alive = MockTool::with_cx("alive", "", move |_, _| {
        let command = command.clone();
        Box::pin(async move {
            until(|| processes(&command) == 1).await;
            Ok(ToolOutput::text("it runs"))
        })
    });
    let read = json!({ "id": "1", "wait_seconds": 0 });
    let model = FakeModel::script([
        ScenarioStep::tool_call("bash_start", json!({ "command": sleep })),
        ScenarioStep::tool_call("alive", json!({})),
        "done".into(),
        ScenarioStep::tool_call("bash_read", read),
        "done".into(),
    ]);
    let home = tempfile::tempdir().unwrap();
    let bash = UseBash::in_dir(home.path())
        .with_backend(Backend::Host)
        .with_background(Background::Allowed);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseTools::new().with_tool(alive))
        .with_capability(bash)
        .build()
        .unwrap();
    let first = agent.execute(AgentState::new().with_user_message("go")).await;
    assert_eq!(told(&first)[1], "it runs");
    until(|| processes(&sleep) == 0).await;
    let second = agent.execute(first.with_user_message("more")).await;
    let [told] = &told(&second)[..] else { panic!() };
    assert!(told.starts_with("Error: unknown background command 1"), "{told}");
}

#[tokio::test]
async fn a_command_begins_where_the_last_one_ended_if_that_is_wanted() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("sub")).unwrap();
    let calls = ["cd sub", "basename \"$PWD\""];
    let calls = calls.map(|command| ("bash", json!({ "command": command })));
    let bash = |bash: Bash| UseTools::new().with_tool(bash.with_backend(Backend::Host));
    let plain = answers(bash(Bash::in_dir(home.path())), &calls).await;
    assert_eq!(plain, ["(no output)", home.path().file_name().unwrap().to_str().unwrap()]);
    let keeping = answers(bash(Bash::in_dir(home.path()).persist_cwd()), &calls).await;
    assert_eq!(keeping, ["(no output)", "sub"]);
}

/// Runs one line after the other as an agent's commands, and returns what each of them said.
async fn said(folder: &std::path::Path, lines: &[&str]) -> Vec<String> {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let staging = tempfile::tempdir().unwrap();
    let calls: Vec<_> = lines.iter().map(|line| ("bash", json!({ "command": line }))).collect();
    answers(UseBash::in_dir(folder).with_staging(staging.path()), &calls).await
}

/// Returns what git says in a folder, without settings from elsewhere.
fn git(folder: &std::path::Path, words: &[&str]) -> Option<String> {
    let output = std::process::Command::new("git")
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output();
    let output = output.inspect_err(|_| println!("left out, because there is no `git` here"));
    Some(String::from_utf8(output.ok()?.stdout).unwrap())
}

#[tokio::test]
async fn git_objects_are_kept_and_hooks_are_not() {
    let home = tempfile::tempdir().unwrap();
    let told = said(
        home.path(),
        &[
            "git init -q -b main && git config user.name A && git config user.email a@b",
            "echo one > a && git add a && git commit -q -m one",
            "git remote add origin https://localhost/x && git switch -q -c topic && git branch -q -u main",
        ],
    )
    .await;
    let settings = ["config", "--local", "--list"];
    let Some(kept) = git(home.path(), &settings) else { return };
    assert_eq!(told, ["(no output)", "(no output)", "(no output)"]);
    for expect in [
        "user.name=A\n",
        "remote.origin.url=https://localhost/x\n",
        "branch.topic.merge=refs/heads/main\n",
    ] {
        assert!(kept.contains(expect), "{kept}");
    }
    assert_eq!(git(home.path(), &["log", "--format=%s%d"]).unwrap(), "one (HEAD -> topic, main)\n");
    assert!(home.path().join(".git/hooks").read_dir().unwrap().count() > 0, "samples of hooks");
    let told = said(
        home.path(),
        &[
            "git config core.fsmonitor ./run.sh",
            "git config filter.x.clean ./run.sh",
            "echo './run.sh' > .git/hooks/pre-commit",
        ],
    )
    .await;
    let [fsmonitor, filter, hook] = &told[..] else { panic!("{told:?}") };
    for told in [fsmonitor, filter] {
        assert!(
            told.contains("`.git/config` was not applied: it would change git settings"),
            "{told}"
        );
    }
    assert!(
        hook.contains("`.git/hooks/pre-commit` was not applied: it makes git run a program"),
        "{hook}"
    );
    assert_eq!(git(home.path(), &settings).unwrap(), kept);
    assert!(!home.path().join(".git/hooks/pre-commit").exists());
}

#[tokio::test]
async fn paths_protected_by_a_policy_stay_unchanged() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let (home, staging) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policy = SandboxPolicy::in_dir(home.path()).protect("Cargo.lock");
    let bash = UseBash::in_dir(home.path()).with_policy(policy).with_staging(staging.path());
    let told = answers(bash, &[("bash", json!({ "command": "touch Cargo.lock b" }))]).await;
    assert!(told[0].contains("`Cargo.lock` was not applied: it is protected"), "{told:?}");
    assert!(!home.path().join("Cargo.lock").exists());
    assert!(home.path().join("b").exists());
}

#[tokio::test]
async fn a_link_that_appears_between_two_commands_withholds_its_target_from_the_second() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("src")).unwrap();
    std::fs::write(root.join("secret"), "sesame\n").unwrap();
    std::fs::write(root.join("src/a"), "source\n").unwrap();
    let folder = root.clone();
    let link = MockTool::new("link", "", move |_| {
        std::os::unix::fs::symlink("secret", folder.join("kept")).unwrap();
        std::os::unix::fs::symlink("src", folder.join("set")).unwrap();
        Ok::<_, String>("linked")
    });
    let policy = SandboxPolicy::in_dir(&root).hide(root.join("kept")).protect(root.join("set"));
    let command = || json!({ "command": "cat secret; echo more >> src/a; echo ran >> ran" });
    let model = FakeModel::script([
        ScenarioStep::tool_call("bash", command()),
        ScenarioStep::tool_call("link", json!({})),
        ScenarioStep::tool_call("bash", command()),
        "done".into(),
    ]);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseTools::new().with_tool(link))
        .with_capability(UseBash::in_dir(&root).with_policy(policy))
        .build()
        .unwrap();
    let told = told(&agent.execute(AgentState::new().with_user_message("go")).await);
    assert_eq!([0, 2].map(|at: usize| told[at].contains("sesame")), [true, false], "{told:?}");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert_eq!([read("src/a"), read("ran")], ["source\nmore\n", "ran\nran\n"]);
}

#[tokio::test]
async fn refused_changes_of_each_command_of_a_session_are_undone() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    for is_staged in [false, true] {
        let (home, staging) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let read = |name: &str| std::fs::read_to_string(home.path().join(name)).ok();
        std::fs::create_dir(home.path().join("old")).unwrap();
        std::fs::write(home.path().join("old/.envrc"), "own\n").unwrap();
        let command = |number: u8| {
            let changes = ["> old/.envrc", "> new/.envrc", ">> ran"];
            let changes = changes.map(|it| format!("echo {number} {it}")).join("; ");
            let line = format!("mkdir -p new; {changes}");
            ScenarioStep::tool_call("bash", json!({ "command": line }))
        };
        let steps = [command(1), command(2), "done".into(), command(3), "done".into()];
        let bash = UseBash::in_dir(home.path());
        let bash = if is_staged { bash.with_staging(staging.path()) } else { bash.write_at_once() };
        let agent = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
            .with_capability(bash)
            .build()
            .unwrap();
        let left = || ["old/.envrc", "new/.envrc", "ran"].map(read);
        let begun = agent.execute(AgentState::new().with_user_message("go")).await;
        let own = Some("own\n".to_owned());
        assert_eq!(left(), [own.clone(), None, Some("1\n2\n".to_owned())], "{is_staged}");
        let first = told(&begun);
        let ended = agent.execute(begun.with_user_message("more")).await;
        assert_eq!(left(), [own, None, Some("1\n2\n3\n".to_owned())], "{is_staged}");
        let told = [first, told(&ended)].concat();
        let is_told = |it: &String| it.contains("old/.envrc") && it.contains("new/.envrc");
        assert_eq!(told.iter().map(is_told).collect::<Vec<_>>(), [true; 3], "{told:?}");
    }
}

/// Runs commands and returns the files that each of them reports as changed.
async fn changed(bash: UseBash, lines: &[&str]) -> Vec<FilesChanged> {
    changed_by("bash", bash, lines).await
}

async fn changed_by(tool: &str, bash: UseBash, lines: &[&str]) -> Vec<FilesChanged> {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let calls: Vec<_> = lines.iter().map(|line| (tool, json!({ "command": line }))).collect();
    let agent = calling(bash, &calls);
    let call = loopwright_core::messages::ToolCall::new("1", tool, r#"{"command":"true"}"#);
    assert_eq!(agent.tools().writes(&call), Writes::Unknown);
    let state = agent.execute(AgentState::new().with_user_message("go")).await;
    (0..)
        .map_while(|step| state.step_at(step))
        .flat_map(Step::tool_executions)
        .map(|(_, outcome)| outcome.output().unwrap().files.clone())
        .collect()
}

#[tokio::test]
async fn a_command_reports_the_files_that_it_changed_if_its_changes_are_collected() {
    let (home, staging) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines = ["echo one > a && echo two > b", "true", "echo three > a; rm b; touch .envrc"];
    let bash = UseBash::in_dir(home.path()).with_staging(staging.path());
    let created = [ChangedFile::created("a"), ChangedFile::created("b")];
    let changes = [ChangedFile::modified("a"), ChangedFile::deleted("b")];
    let expected =
        [created.into_iter().collect(), FilesChanged::None, changes.into_iter().collect()];
    assert_eq!(changed(bash, &lines).await, expected);
}

#[tokio::test]
async fn a_command_that_writes_at_once_may_have_changed_any_file() {
    let home = tempfile::tempdir().unwrap();
    let bash = UseBash::in_dir(home.path()).with_backend(Backend::Host);
    assert_eq!(changed(bash, &["echo one > a"]).await, [FilesChanged::Unknown]);
}

#[tokio::test]
async fn a_result_says_that_changes_were_made_at_once_where_they_cannot_be_collected() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let Ok(home) = tempfile::tempdir_in("/dev/shm") else {
        println!("left out, because there is no `/dev/shm` here");
        return;
    };
    let call = [("bash", json!({ "command": "touch a" }))];
    let told = |bash| answers(bash, &call);
    let note = "changes were applied immediately and cannot be undone, because they cannot be staged here: you own no folder on the same file system";
    let direct = told(UseBash::in_dir(home.path())).await;
    assert!(direct[0].contains(note), "{direct:?}");
    let elsewhere = tempfile::tempdir().unwrap();
    let direct = told(UseBash::in_dir(home.path()).with_staging(elsewhere.path())).await;
    assert!(direct[0].contains("cannot be staged here: "), "{direct:?}");
    let collected = UseBash::in_dir(elsewhere.path());
    assert_eq!(told(collected).await, ["(no output)"]);
}

#[tokio::test]
async fn a_command_whose_changes_are_discarded_runs_and_changes_nothing() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let (home, staging) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(home.path().join("target")).unwrap();
    std::fs::write(home.path().join("a"), "old\n").unwrap();
    let line = "echo new > a && echo b > target/b && cat a target/b && echo x > .envrc";
    let direct = |policy: SandboxPolicy| policy.with_direct_path("target").discard_changes();
    let bash = || UseBash::in_dir(home.path()).with_staging(staging.path()).confine(direct);
    let told = answers(bash(), &[("bash", json!({ "command": line }))]).await;
    let note = "the command ran on a copy of the folder, and its changes were discarded: `.envrc`, `a`, `target/b`";
    assert!(told[0].starts_with("new\nb\n") && told[0].contains(note), "{told:?}");
    assert_eq!(changed(bash(), &[line]).await, [FilesChanged::None]);
    assert_eq!(std::fs::read_to_string(home.path().join("a")).unwrap(), "old\n");
    let left = |name: &str| home.path().join(name).exists();
    assert_eq!(["target/b", ".envrc"].map(left), [false, false]);
}

#[tokio::test]
async fn where_changes_cannot_be_collected_a_command_whose_changes_are_discarded_cannot_write() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let home = tempfile::tempdir().unwrap();
    let bash = |policy: SandboxPolicy| {
        let bash = UseBash::in_dir(home.path()).confine(|_| policy.discard_changes());
        bash.write_at_once()
    };
    let policy = SandboxPolicy::in_dir(home.path());
    let call = [("bash", json!({ "command": "touch a || echo refused" }))];
    for policy in [policy.clone(), policy.clone().read_only()] {
        let told = answers(bash(policy), &call).await;
        assert!(told[0].contains("refused"), "{told:?}");
    }
    assert!(!home.path().join("a").exists());
}

#[tokio::test]
async fn a_command_in_the_background_may_have_changed_any_file() {
    let (home, staging) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bash = || UseBash::in_dir(home.path()).with_background(Background::Allowed);
    for bash in [bash().with_backend(Backend::Host), bash().with_staging(staging.path())] {
        let changed = changed_by("bash_start", bash, &["echo one > a"]).await;
        assert_eq!(changed, [FilesChanged::Unknown]);
    }
}
