//! Permission rules: what runs, what asks, what is denied, and who is asked.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::terminal::{Seen, Terminal};
use crate::world::{Done, World};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

fn run(world: &World, replies: Vec<Reply>, options: &[&str]) -> Done {
    let server = Server::start(replies);
    world.run(&[&MODEL[..], &[&server.url], options, &["Go."]].concat())
}

/// Runs at a terminal, and types lines when they are asked for.
fn answering(
    world: &World,
    replies: Vec<Reply>,
    options: &[&str],
    lines: &[(&'static str, &'static str)],
) -> Seen {
    let server = Server::start(replies);
    let terminal =
        lines.iter().fold(Terminal::new(100), |it, (after, line)| it.typing(after, line));
    terminal.run(world, &[&MODEL[..], &[&server.url], options, &["Go."]].concat())
}

fn removing() -> Vec<Reply> {
    vec![streamed_call("", "rm a.txt"), streamed("Done.", "stop")]
}

fn is_there(world: &World) -> bool {
    world.path("project/a.txt").exists()
}

fn terminal() -> World {
    World::at_terminal()
}

fn result(done: &Done) -> Value {
    serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap()
}

#[test]
fn a_call_that_needs_approval_pauses_is_denied_or_ends_the_run() {
    let world = World::new();
    let asking = |on_ask| {
        let options = ["--permission-mode", "ask", "--on-ask", on_ask, "--output-format", "json"];
        run(&world, removing(), &options)
    };
    let paused = asking("pause");
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let pending = &result(&paused)["pending"];
    assert_eq!(
        pending,
        &json!([{
            "call": "0",
            "request": pending[0]["request"],
            "tool": "bash",
            "arguments": { "command": "rm a.txt" },
            "question": "no rule matches, mode `ask`",
            "kind": "approval",
        }])
    );
    let denied = asking("deny");
    assert_eq!(denied.status, 8, "{}", denied.stderr);
    let reason =
        "not permitted without approval (no rule matches, mode `ask`); continue without it";
    assert_eq!(
        result(&denied)["denials"],
        json!([{ "tool": "bash", "arguments": { "command": "rm a.txt" }, "reason": reason }])
    );
    assert_eq!(asking("fail").status, 8);
    assert!(is_there(&world));
}

#[test]
fn an_answer_at_the_terminal_approves_denies_or_edits() {
    let world = terminal();
    let ask = ["--permission-mode", "ask"];
    let denied = answering(&world, removing(), &ask, &[("1 yes", "3 keep it")]);
    assert!(is_there(&world), "{}", denied.text());
    let edited = answering(&world, removing(), &ask, &[("1 yes", "e mv a.txt b.txt")]);
    assert!(!is_there(&world) && world.path("project/b.txt").exists(), "{}", edited.text());
    let world = terminal();
    let approved = answering(&world, removing(), &ask, &[("1 yes", "1")]);
    assert_eq!((approved.status, is_there(&world)), (0, false), "{}", approved.text());
}

#[test]
fn always_is_kept_for_the_project_as_the_rule_that_was_shown() {
    let world = terminal();
    let ask = ["--permission-mode", "ask"];
    let seen = answering(&world, removing(), &ask, &[("2 always: Bash(rm a.txt)", "2")]);
    assert_eq!((seen.status, is_there(&world)), (0, false), "{}", seen.text());
    let kept = std::fs::read_to_string(world.path(".config/loopwright/folders.toml")).unwrap();
    let root = world.path("project").display().to_string();
    assert_eq!(kept, format!("[\"{root}\"]\nallow = [\"Bash(rm a.txt)\"]\n"));
    let world = world.file("project/a.txt", "new");
    let done = run(&world, removing(), &ask);
    assert_eq!((done.status, is_there(&world)), (0, false), "{}", done.stderr);
}

/// A command that asks for a host, and shows whether it has a way there.
fn needing(host: &str) -> Vec<Reply> {
    let arguments = json!({
        "command": "echo proxy=$https_proxy > a.txt", "network": [host], "why": "to fetch crates",
    });
    vec![streamed_tool("", "bash", &arguments), streamed("Done.", "stop")]
}

fn has_network(world: &World) -> bool {
    let text = std::fs::read_to_string(world.path("project/a.txt")).unwrap();
    text == "proxy=http://127.0.0.1:3128\n"
}

#[test]
fn a_command_gets_the_hosts_that_it_asks_for_when_they_are_allowed() {
    let world = World::new();
    let deny = ["--on-ask", "deny", "--output-format", "json"];
    let denied = run(&world, needing("crates.io"), &deny);
    let reason = "not permitted without approval (network access to `crates.io`: no rule matches, mode `auto`); \
                  continue without it";
    assert_eq!(result(&denied)["denials"][0]["reason"], reason, "{}", denied.stdout);
    let allow = ["--allow", "Network(domain:crates.io)"];
    run(&world, needing("other.example"), &[&deny[..], &allow].concat());
    assert!(!has_network(&world));
    let allowed = run(&world, needing("crates.io"), &[&deny[..], &allow].concat());
    assert!(has_network(&world), "{}{}", allowed.stdout, allowed.stderr);
}

#[test]
fn the_dialog_shows_what_a_command_asks_for_and_always_allows_it() {
    let world = terminal();
    let seen = answering(
        &world,
        needing("crates.io"),
        &[],
        &[("2 always: Network(domain:crates.io)", "2")],
    );
    for part in ["+ network access to `crates.io`", "because: to fetch crates"] {
        assert!(seen.text().contains(part), "{}", seen.text());
    }
    assert!(has_network(&world), "{}", seen.text());
    let world = world.file("project/a.txt", "");
    run(&world, needing("crates.io"), &["--on-ask", "deny"]);
    assert!(has_network(&world));
}

#[test]
fn shadow_rules_decide_nothing_and_are_reported() {
    let rules =
        r#"{ "permissions": { "deny": ["Bash(rm *)", "Bash(ls *)"], "defaultMode": "plan" } }"#;
    let world = World::new().file("shadow.json", rules);
    let file = world.path("shadow.json").display().to_string();
    let done = run(&world, removing(), &["--shadow", &file]);
    assert!(!is_there(&world), "{}", done.stderr);
    let lines: Vec<&str> =
        done.stderr.lines().filter(|line| line.starts_with("shadow rule ")).collect();
    assert_eq!(lines.len(), 2, "{}", done.stderr);
    assert!(
        lines.iter().any(|line| line.contains("rm *")
            && line.ends_with("1 call matched, 1 decision would change")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("ls *")
            && line.ends_with("0 calls matched, 0 decisions would change")),
        "{lines:?}"
    );
    assert_eq!(run(&world, removing(), &["--shadow", "missing.json"]).status, 2);
}

#[test]
fn a_rule_of_an_untrusted_project_allows_nothing_and_denies() {
    let settings = r#"{ "permissions": { "allow": ["Bash(rm *)"], "deny": ["Bash(ls *)"] } }"#;
    let world = World::new().file("project/.claude/settings.json", settings);
    let ask = ["--permission-mode", "ask", "--on-ask", "deny"];
    let done = run(&world, removing(), &ask);
    assert!(is_there(&world));
    let hint = "warning: this project is not trusted: 1 permission setting is ignored; review with `loopwright trust`";
    assert!(done.stderr.contains(hint), "{}", done.stderr);
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    let listing = vec![streamed_call("", "ls a.txt"), streamed("Done.", "stop")];
    let listed = run(&world, listing, &["--output-format", "json"]);
    assert_eq!(result(&listed)["denials"][0]["tool"], "bash", "{}", listed.stdout);
    // What is trusted is what the files said then.
    let world = world.file("project/.claude/settings.json", &settings.replace("ls", "cat"));
    let done = run(&world, removing(), &ask);
    assert!(is_there(&world));
    assert!(done.stderr.contains("have changed since they were trusted"), "{}", done.stderr);
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    run(&world, removing(), &ask);
    assert!(!is_there(&world));
}

#[test]
fn in_mode_plan_commands_run_and_change_nothing() {
    let world = World::new();
    let write = json!({ "path": "b.txt", "content": "b" });
    let replies = vec![
        streamed_call("", "cat a.txt && rm a.txt"),
        streamed_tool("", "write_file", &write),
        streamed("Done.", "stop"),
    ];
    let options = ["--permission-mode", "plan", "--output-format", "json"];
    let done = run(&world, replies, &options);
    assert!(is_there(&world) && !world.path("project/b.txt").exists(), "{}", done.stdout);
    let denials = &result(&done)["denials"];
    assert_eq!(denials.as_array().map(Vec::len), Some(1), "{denials}");
    assert_eq!(denials[0]["tool"], "write_file");
}

#[test]
fn in_mode_plan_the_model_reads_which_changes_were_discarded() {
    let world = World::new();
    let server = Server::start(vec![
        streamed_call("", "rm a.txt && echo x > made && ls"),
        streamed("Done.", "stop"),
    ]);
    let options = ["--base-url", &server.url, "--permission-mode", "plan", "Go."];
    let done = world.run(&[&["run", "-m", "openai-compatible/test"], &options[..]].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    server.request();
    let request = server.request()["messages"].to_string();
    let note = "ran on a copy of the folder, and its changes were discarded: `a.txt`, `made`";
    assert!(request.contains(note), "{request}");
    assert!(is_there(&world) && !world.path("project/made").exists());
}

#[test]
fn a_rule_of_the_users_file_is_explained_with_its_line() {
    let config = "[permissions]\nmode = \"ask\"\ndeny = [\n  \"Bash(git push *)\",\n]\n";
    let world = World::new().file(".config/loopwright/config.toml", config);
    let done = world.run(&["policy", "explain", "git status && git push"]);
    assert_eq!(
        done.stdout,
        "deny: rule `Bash(git push *)` of /.config/loopwright/config.toml:4\n  ask    git status\n         no rule matches, mode `ask`\n  deny   git push\n         rule `Bash(git push *)` of /.config/loopwright/config.toml:4\n"
    );
    let table = "{\"command\": \"git push\", \"expect\": \"deny\"}\n{\"command\": \"ls\", \"expect\": \"deny\"}\n";
    let world = world.file("project/calls.jsonl", table);
    let tested = world.run(&["policy", "test", "calls.jsonl"]);
    assert_eq!(tested.status, 3, "{}", tested.stderr);
    assert!(tested.stderr.contains("line 2: `ls`: expected deny, got ask"), "{}", tested.stderr);
}

#[test]
fn a_table_decides_about_commands_as_explain_does_unless_a_line_says_confined() {
    let unconfined = r#"{"command": "ls", "confined": false, "expect": "ask"}"#;
    let table = format!("{}\n{unconfined}\n", r#"{"command": "ls", "expect": "allow"}"#);
    let world = World::new().file("project/calls.jsonl", &table);
    let explained = world.run(&["policy", "explain", "ls"]).stdout;
    assert!(explained.starts_with("allow: "), "{explained}");
    let tested = world.run(&["policy", "test", "calls.jsonl"]);
    assert_eq!(tested.status, 0, "{}", tested.stderr);
}

#[test]
fn approvals_lists_requests_of_all_sessions_and_a_decision_resumes_the_run() {
    let world = World::new();
    let ask = ["--permission-mode", "ask"];
    assert_eq!(run(&world, removing(), &ask).status, 9);
    let listed = world.run(&["approvals", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let waiting = &listed["sessions"][0];
    assert_eq!(waiting["pending"][0]["arguments"], json!({ "command": "rm a.txt" }));
    let id = waiting["session"]["id"].as_str().unwrap();
    let decisions = format!("decide {} approve [JSON]|deny [REASON]|stop\n", &id[..8]);
    let shown = world.run(&["approvals"]).stdout;
    assert!(shown.ends_with(&decisions), "{shown}");
    assert_eq!(world.run(&["sessions", "decide", id, "approve"]).status, 0);
    assert!(is_there(&world));
    let server = Server::start(vec![streamed("Done.", "stop")]);
    let options = ["--base-url", &server.url, "--resume", id];
    let done = world.run(&[&["run", "-m", "openai-compatible/test"], &options[..]].concat());
    assert_eq!((done.status, is_there(&world)), (0, false), "{}", done.stderr);
    let none = world.run(&["approvals"]);
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "no calls are waiting\n"));
}

#[test]
fn rules_of_an_agent_bind_it_and_the_agents_that_it_starts() {
    let ruled = |name: &str, tools: &str| {
        format!("---\nname: {name}\ndescription: D.\ntools: {tools}\n---\n\nGo.\n")
    };
    let world = World::new()
        .file("project/.claude/agents/ruled.md", &ruled("ruled", "Bash(git:*), Read"))
        .file("project/.claude/agents/lead.md", &ruled("lead", "Bash, Agent"));
    let direct = run(&world, removing(), &["--agent", "ruled", "--output-format", "json"]);
    assert_eq!(direct.status, 8, "{}", direct.stderr);
    let denials = &result(&direct)["denials"];
    assert_eq!(
        denials[0]["reason"],
        "not permitted (not among the tools of agent `ruled`); continue without it"
    );
    let spawn = json!({ "subagent": "ruled", "prompt": "Remove it." });
    let replies = [
        vec![streamed_tool("", "spawn_subagent", &spawn)],
        removing(),
        vec![streamed("Done.", "stop")],
    ];
    let child = run(&world, replies.concat(), &["--agent", "lead"]);
    assert!(is_there(&world), "{}", child.stderr);
    let free = run(&world, removing(), &["--agent", "lead"]);
    assert_eq!((free.status, is_there(&world)), (0, false), "{}", free.stderr);
}

#[test]
fn a_page_may_be_requested_where_a_rule_names_the_tool_and_from_no_machine_near_this_one() {
    let fetch = |url: &str| streamed_tool("", "web_fetch", &json!({ "url": url }));
    let offers = |request: &Value| {
        let tools = request["tools"].as_array().unwrap();
        tools.iter().any(|tool| tool["function"]["name"] == "web_fetch")
    };
    let requests = |url: &str, options: &[&str]| {
        let server = Server::start([fetch(url), streamed("Done.", "stop")]);
        let world = World::new();
        let done = world.run(&[&MODEL[..], &[&server.url], options, &["Go."]].concat());
        let (first, second) = (server.request(), server.request());
        let answer = second["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
        (offers(&first), answer, done.stderr)
    };
    let near = "http://127.0.0.1/";
    let (is_offered, answer, error) = requests(near, &[]);
    assert!(!is_offered, "{error}");
    assert!(answer.contains("unknown tool `web_fetch`"), "{answer}");
    let allowed = ["--allow", "WebFetch(domain:127.0.0.1)"];
    let (is_offered, answer, error) = requests(near, &allowed);
    assert!(is_offered, "{error}");
    let wanted = "the host resolves to 127.0.0.1, which is not a public address";
    assert!(answer.contains(wanted), "{answer}");
    let other = ["--allow", "WebFetch(domain:a.example)", "--on-ask", "deny"];
    let (is_offered, answer, error) = requests("http://b.example/", &other);
    assert!(is_offered, "{error}");
    assert!(answer.contains("not permitted without approval"), "{answer}");
}

#[test]
fn a_denied_file_is_kept_from_programs_whose_commands_rules_cannot_read() {
    let world = World::new()
        .file("project/src/a.txt", "source")
        .file("project/.env", "KEY=sesame")
        .file("project/x.sh", "cat .env; echo more >> src/a.txt; echo new > src/b.txt; rm -r src; echo built > out.txt")
        .file(
            "project/.claude/settings.json",
            r#"{ "permissions": { "deny": ["Edit(src/**)", "Read(./.env)"] } }"#,
        );
    let server = Server::start([streamed_call("", "sh x.sh"), streamed("Done.", "stop")]);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."];
    let done = world.run(&model);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let (_, body) = server.heard().pop().unwrap();
    assert!(!body.to_string().contains("sesame"), "{body}");
    let read = |path: &str| std::fs::read_to_string(world.path("project").join(path)).ok();
    let found = ["src/a.txt", "src/b.txt", ".env", "out.txt"].map(read);
    let found = found.each_ref().map(Option::as_deref);
    assert_eq!(found, [Some("source"), None, Some("KEY=sesame"), Some("built\n")], "{body}");
    // The result names what was not done.
    let mut messages = body["messages"].as_array().unwrap().iter();
    let result = messages.find(|it| it["role"] == "tool").unwrap()["content"].to_string();
    assert!(result.contains("src"), "{result}");
    // What tries a command out sees no more than the agent.
    let tried = world.run(&["sandbox", "exec", "--workdir", ".", "--", "cat", ".env"]);
    assert!(tried.status != 0 && !tried.stdout.contains("sesame"), "{tried:?}");
    let shown = world.run(&["sandbox", "explain"]).stdout;
    assert!(
        shown.lines().any(|it| it.starts_with("hidden") && it.ends_with("project/.env")),
        "{shown}"
    );
    assert!(shown.lines().any(|it| it.starts_with("protected") && it.ends_with("src")), "{shown}");
}

/// Returns the results of calls that models read and that name the rule for `src`.
fn denied_in_src(server: &Server, world: &World) -> BTreeSet<String> {
    let heard = server.heard();
    let messages = heard.iter().flat_map(|(_, body)| body["messages"].as_array().unwrap());
    let results = messages.filter(|it| it["role"] == "tool");
    let results = results.filter_map(|it| it["content"].as_str());
    let project = world.path("project").display().to_string();
    results.filter(|it| it.contains("Edit(src/**)")).map(|it| it.replace(&project, "~")).collect()
}

#[test]
fn rules_see_the_folder_of_the_previous_command_after_a_restart_and_in_a_sub_agent() {
    let settings = r#"{ "permissions": { "deny": ["Edit(src/**)"] } }"#;
    let denied = "Blocked: not permitted (rule `Edit(src/**)` of ~/.claude/settings.json:1); continue without it";
    let denied = BTreeSet::from([denied.to_owned()]);
    let world = || {
        World::new()
            .file("project/src/a.txt", "source")
            .file("project/.claude/settings.json", settings)
    };
    let steps = [streamed_call("", "cd src"), streamed("There.", "stop")];
    let server = Server::start(steps.into_iter().chain(removing()));
    let restarted = world();
    for turn in [&["Go."][..], &["--continue", "Remove it."]] {
        restarted.run(&[&MODEL[..], &[&server.url], turn].concat());
    }
    assert_eq!(denied_in_src(&server, &restarted), denied);
    let spawn = json!({ "subagent": "helper", "prompt": "Remove it." });
    let steps = [streamed_tool("", "spawn_subagent", &spawn), streamed_call("", "cd src")];
    let steps = steps.into_iter().chain(removing()).chain([streamed("Done.", "stop")]);
    let server = Server::start(steps);
    let with_helper = world().file(
        "project/.claude/agents/helper.md",
        "---\nname: helper\ndescription: D.\ntools: Bash\n---\n\nGo.\n",
    );
    with_helper.run(&[&MODEL[..], &[&server.url, "Go."]].concat());
    assert_eq!(denied_in_src(&server, &with_helper), denied);
}

#[test]
fn a_command_reaches_the_settings_of_the_program_by_no_request_and_no_configured_path() {
    let world = || {
        World::new()
            .file(".config/loopwright/a.txt", "sesame")
            .file(".local/state/loopwright/b.txt", "sesame")
            .file(".local/state/loopwright/sessions/c.txt", "sesame")
            .file(".local/other.txt", "legible")
    };
    let command = "cat H/.config/loopwright/* H/.local/state/loopwright/* H/.local/state/loopwright/*/*; \
                   cat H/.local/other.txt; echo x > H/.config/loopwright/a.txt";
    let heard = |world: &World, fields: Value| {
        let home = world.path("").display().to_string();
        let mut arguments = json!({ "command": command.replace("H/", &home), "why": "x" });
        arguments.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let server =
            Server::start([streamed_tool("", "bash", &arguments), streamed("Done.", "stop")]);
        let options = ["--permission-mode", "auto", "--allow", "Read", "--allow", "Edit", "Go."];
        world.run(&[&MODEL[..], &[&server.url], &options].concat());
        let (_, body) = server.heard().pop().unwrap();
        let own = std::fs::read_to_string(world.path(".config/loopwright/a.txt")).unwrap();
        assert_eq!(
            (own.as_str(), body.to_string().contains("sesame")),
            ("sesame", false),
            "{body}"
        );
        body.to_string()
    };
    for fields in [
        json!({ "read": ["~/.config/loopwright"] }),
        json!({ "write": ["~/.local/state/loopwright/sessions"] }),
    ] {
        let body = heard(&world(), fields);
        assert!(body.contains("cannot be requested: commands can never read it"), "{body}");
    }
    let body = heard(&world(), json!({ "write": ["~/.config", "~/.local"] }));
    assert!(body.contains("legible"), "{body}");
    let configured =
        "[sandbox]\nwrite = [\"~/.local\"]\nread = [\"~/.local/state/loopwright/sessions\"]\n";
    let body = heard(&world().file(".config/loopwright/config.toml", configured), json!({}));
    assert!(body.contains("legible"), "{body}");
}

#[test]
fn a_link_that_a_rule_names_is_not_replaced_and_a_hidden_path_of_the_home_is_hidden() {
    let config =
        "[permissions]\ndeny = [\"Edit(/cfg)\"]\n[sandbox]\nread = [\"~\"]\nhide = [\"~/.aws\"]\n";
    let world = World::new()
        .file("project/loopwright.toml", "[permissions]\ndeny = [\"Edit(/cfg)\"]\n")
        .file("project/real/cfg", "kept")
        .file(".config/loopwright/config.toml", config)
        .file(".aws/credentials", "sesame");
    std::os::unix::fs::symlink("real/cfg", world.path("project/cfg")).unwrap();
    let home = world.path("").display().to_string();
    let world = world.file(
        "project/x.sh",
        &format!("rm cfg; echo new > cfg; cat {home}.aws/credentials; echo ran > out.txt"),
    );
    let server = Server::start([streamed_call("", "sh x.sh"), streamed("Done.", "stop")]);
    world.run(&[&MODEL[..], &[&server.url, "Go."]].concat());
    let (_, body) = server.heard().pop().unwrap();
    assert!(!body.to_string().contains("sesame"), "{body}");
    assert!(world.path("project/out.txt").exists(), "{body}");
    let link = std::fs::read_link(world.path("project/cfg"));
    assert!(link.is_ok_and(|it| it.ends_with("real/cfg")), "{body}");
    assert_eq!(std::fs::read_to_string(world.path("project/cfg")).unwrap(), "kept");
}

#[test]
fn a_denied_file_is_kept_from_commands_in_every_folder_that_they_are_given() {
    let deny = "[permissions]\ndeny = [\"Read(~/notes/private/**)\", \"Edit(~/notes/kept/**)\"]\n";
    let world = World::new()
        .file(".config/loopwright/config.toml", deny)
        .file("notes/private/a/x", "sesame")
        .file("notes/kept/a/x", "kept")
        .file("notes/x", "plain");
    let notes = world.path("notes").display().to_string();
    let line = format!(
        "cat {notes}/private/a/x {notes}/x; echo x > {notes}/kept/a/x; echo x > {notes}/new"
    );
    let seen = |option: &str, path: &str| {
        let path = format!("{notes}{path}");
        let done = world.run(&[
            "sandbox",
            "exec",
            "--workdir",
            ".",
            option,
            &path,
            "--",
            "sh",
            "-c",
            &line,
        ]);
        let text = |path: &str| std::fs::read_to_string(world.path(path)).unwrap_or_default();
        assert_eq!(text("notes/kept/a/x"), "kept", "{option} {path}");
        (done.stdout, text("notes/new"))
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(seen("--read", ""), (text("plain"), text("")));
    for inside in ["/private", "/private/a", "/kept/a"] {
        assert_eq!(seen("--read", inside), (text(""), text("")), "{inside}");
        assert_eq!(seen("--write", inside), (text(""), text("")), "{inside}");
    }
    assert_eq!(seen("--write", ""), (text("plain"), text("x\n")));
    // A folder that may not be changed is read-only, and one that may not be read has no commands.
    let exec = |workdir: &str| {
        let workdir = format!("{notes}/{workdir}");
        world.run(&[
            "sandbox",
            "exec",
            "--workdir",
            &workdir,
            "--",
            "sh",
            "-c",
            "cat x; echo y > x",
        ])
    };
    let (kept, private) = (exec("kept/a"), exec("private/a"));
    assert_eq!(kept.stdout, "kept", "{}", kept.stderr);
    assert!(private.stderr.contains("is hidden from them"), "{}{}", private.stdout, private.stderr);
}

#[test]
fn a_denied_skill_is_hidden_from_the_model_and_its_commands_are_not_started_as_an_agent() {
    let skill = |name: &str, more: &str| {
        format!("---\nname: {name}\ndescription: Is {name}.\n{more}---\nDo {name}.\n")
    };
    let agent = "---\nname: keeper\ndescription: D.\nskills: [keys]\n---\n\nGo.\n";
    let own = ".config/loopwright";
    let world = World::new()
        .file(&format!("{own}/skills/keys/SKILL.md"), &skill("keys", ""))
        .file(&format!("{own}/skills/ship/SKILL.md"), &skill("ship", "context: fork\n"))
        .file(&format!("{own}/agents/keeper.md"), agent);
    let messages = |options: &[&str], prompt: &str| {
        let server = Server::start([streamed("Done.", "stop")]);
        let line = [&MODEL[..], &[&server.url], options, &[prompt]].concat();
        let done = world.run(&line);
        let messages = server.heard().into_iter().map(|(_, body)| body["messages"].clone()).next();
        (done.status, messages.unwrap_or_default().to_string(), done.stderr)
    };
    let listed = |options: &[&str]| {
        let (_, messages, _) = messages(options, "Go.");
        ["Is keys.", "Is ship."].map(|it| messages.contains(it))
    };
    assert_eq!(listed(&[]), [true, true]);
    assert_eq!(listed(&["--deny", "Skill(keys)"]), [false, true]);
    assert_eq!(listed(&["--deny", "Skill"]), [false, false]);

    // An agent that starts with a skill does not start without it.
    let (status, text, _) = messages(&["--agent", "keeper"], "Go.");
    assert_eq!((status, text.contains("Do keys.")), (0, true));
    let (status, text, error) = messages(&["--agent", "keeper", "--deny", "Skill(keys)"], "Go.");
    assert_eq!((status, text.as_str()), (3, "null"), "{error}");
    assert!(error.contains("starts with the skill `keys`, which rule `Skill(keys)`"), "{error}");
}

#[test]
fn lint_names_agents_and_skills_that_the_folder_does_not_have() {
    let settings = r#"{
        "permissions": { "deny": ["Agent(Helper)", "Agent(helper)", "Skill(gone)", "Skill(keys)", "Agent(Explore)"] }
    }"#;
    let world = World::new()
        .file(".agents/skills/keys/SKILL.md", "---\nname: keys\ndescription: D.\n---\nGo.\n")
        .file(
            "project/.claude/agents/helper.md",
            "---\nname: helper\ndescription: D.\n---\n\nGo.\n",
        )
        .file("project/.claude/settings.json", settings);
    let done = world.run(&["policy", "lint"]);
    let told: Vec<&str> = done.stderr.lines().collect();
    let expect = [
        "/project/.claude/settings.json:2: `Agent(Helper)`: unknown agent `Helper`; write `Agent(helper)`",
        "/project/.claude/settings.json:2: `Skill(gone)`: unknown skill `gone`",
    ];
    assert_eq!((done.status, told), (3, expect.to_vec()));
}
