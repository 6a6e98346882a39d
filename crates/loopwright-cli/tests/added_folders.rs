//! Folders besides the working directory: what tools reach in them, and what may add them.

use std::fs;

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::{Done, World};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

/// A project, and a folder of documents beside it.
fn world() -> World {
    World::new().file("docs/guide.md", "old\n")
}

fn run(world: &World, replies: Vec<Reply>, options: &[&str]) -> (Done, Value, Server) {
    let server = Server::start(replies);
    let json = ["--output-format", "json"];
    let done = world.run(&[&MODEL[..], &[&server.url], &json, options, &["Go."]].concat());
    let report = serde_json::from_str(&done.stdout).unwrap_or_default();
    (done, report, server)
}

/// Replies that change the guide with a file tool, and make a file beside it with a command.
fn changing(world: &World) -> Vec<Reply> {
    let path = world.path("docs/guide.md");
    let edit = json!({ "path": path, "old_string": "old", "new_string": "new" });
    vec![
        streamed_tool("", "edit_file", &edit),
        streamed_call("", "echo made > ../docs/made.md && cat ../docs/guide.md"),
        streamed("Done.", "stop"),
    ]
}

fn guide(world: &World) -> String {
    fs::read_to_string(world.path("docs/guide.md")).unwrap()
}

#[test]
fn file_tools_and_commands_use_a_folder_that_is_typed_and_a_rewind_undoes_file_tools() {
    let world = world();
    let options = ["--add-dir", "../docs", "--permission-mode", "accept-edits"];
    let allow = ["--allow", "Bash"];
    let (done, report, server) = run(&world, changing(&world), &[&options[..], &allow].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(guide(&world), "new\n");
    assert!(world.path("docs/made.md").exists(), "{}", done.stdout);
    let prompt = server.request().to_string();
    assert!(prompt.contains(world.path("docs").to_str().unwrap()), "{prompt}");

    let session = report["session_id"].as_str().unwrap();
    let undone = world.run(&["sessions", "rewind", "--files", session, "0"]);
    assert_eq!(undone.status, 0, "{}", undone.stderr);
    assert_eq!(guide(&world), "old\n", "{}", undone.stdout);
}

#[test]
fn a_sub_agent_uses_the_added_folders_of_its_parent() {
    let helper = "---\nname: helper\ndescription: Helps.\n---\n\nHelp.\n";
    let world = world().file("project/.claude/agents/helper.md", helper);
    let spawn = json!({ "subagent": "helper", "prompt": "Change the guide." });
    let mut replies = vec![streamed_tool("", "spawn_subagent", &spawn)];
    replies.extend(changing(&world));
    replies.push(streamed("All done.", "stop"));
    let options = ["--add-dir", "../docs", "--permission-mode", "accept-edits"];
    let (done, ..) = run(&world, replies, &[&options[..], &["--allow", "Bash"]].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(guide(&world), "new\n", "{}", done.stdout);
    assert!(world.path("docs/made.md").exists(), "{}", done.stdout);
}

#[test]
fn a_continued_run_uses_the_folders_that_are_added_to_it() {
    let world = world();
    let allow = ["--permission-mode", "accept-edits", "--allow", "Bash"];
    let first = run(&world, changing(&world), &[&["--add-dir", "../docs"][..], &allow].concat());
    let session = first.1["session_id"].as_str().unwrap();
    let continued = |from: &str, to: &str, options: &[&str]| {
        let path = world.path("docs/guide.md");
        let edit = json!({ "path": path, "old_string": from, "new_string": to });
        let replies = vec![streamed_tool("", "edit_file", &edit), streamed("Done.", "stop")];
        let resume = ["--resume", session];
        let (done, ..) = run(&world, replies, &[&resume[..], options, &allow].concat());
        (done.status, guide(&world))
    };
    assert_eq!(continued("new", "newer", &["--add-dir", "../docs"]), (0, "newer\n".to_owned()));
    // Without the option, the call needs approval.
    assert_eq!(continued("newer", "newest", &[]), (9, "newer\n".to_owned()));
}

#[test]
fn a_folder_is_the_same_however_its_path_is_written() {
    let world = world();
    std::os::unix::fs::symlink(world.path("docs"), world.path("docs-link")).unwrap();
    std::os::unix::fs::symlink(world.path("project"), world.path("project-link")).unwrap();
    let settings =
        format!("[permissions]\nfolders = [\"{}\"]\n", world.path("docs-link").display());
    let world = world.file(".config/loopwright/config.toml", &settings);
    let typed = ["../docs/", "../docs/../docs", "../docs-link", "../project-link", "."];
    let options = typed.iter().flat_map(|it| ["--add-dir", it]).collect::<Vec<_>>();
    let (done, _, server) = run(&world, vec![streamed("Done.", "stop")], &options);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let prompt = server.request()["messages"].to_string();
    let only = format!("by absolute path: {}.\\n", world.path("docs").display());
    assert!(prompt.contains(&only), "{prompt}");
}

#[test]
fn without_the_option_nothing_in_the_folder_is_changed() {
    let world = world();
    let (done, _, _) = run(&world, changing(&world), &[]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(guide(&world), "old\n");
    assert!(!world.path("docs/made.md").exists());
}

#[test]
fn in_mode_plan_an_added_folder_is_read_and_not_changed() {
    let world = world();
    let options = ["--add-dir", "../docs", "--permission-mode", "plan"];
    let (done, report, _) = run(&world, changing(&world), &options);
    assert_eq!(report["denials"][0]["tool"], "edit_file", "{}", done.stdout);
    assert_eq!(guide(&world), "old\n");
    assert!(!world.path("docs/made.md").exists(), "{}", done.stdout);
}

#[test]
fn what_git_or_an_editor_would_run_is_protected_in_an_added_folder() {
    let world = world().file("docs/.git/config", "[core]\n");
    let hook = world.path("docs/.git/hooks/post-checkout");
    let write = json!({ "path": hook, "content": "#!/bin/sh", "create_dirs": true });
    let replies = vec![
        streamed_tool("", "write_file", &write),
        streamed_call("", "echo x > ../docs/.git/config; echo x > ../docs/.envrc"),
        streamed("Done.", "stop"),
    ];
    let (done, ..) = run(&world, replies, &["--add-dir", "../docs"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!hook.exists());
    assert_eq!(fs::read_to_string(world.path("docs/.git/config")).unwrap(), "[core]\n");
    assert!(!world.path("docs/.envrc").exists());
}

#[test]
fn what_the_program_keeps_for_its_user_is_protected_in_an_added_folder() {
    let world = world().file(".config/loopwright/folders.toml", "");
    let kept = world.path(".config/loopwright/folders.toml");
    let write = json!({ "path": kept, "content": "x = 1", "overwrite": true });
    let replies = vec![
        streamed_tool("", "write_file", &write),
        streamed_call("", "echo 'x = 1' > ../.config/loopwright/folders.toml"),
        streamed_call("", "rm -r ../.config/loopwright"),
        streamed("Done.", "stop"),
    ];
    let (done, ..) = run(&world, replies, &["--add-dir", "../.config"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(fs::read_to_string(kept).unwrap(), "", "{}", done.stdout);
}

#[test]
fn the_settings_of_a_project_add_folders_once_it_is_trusted() {
    let settings = r#"{ "permissions": { "additionalDirectories": ["../docs"] } }"#;
    let world = world().file("project/.claude/settings.json", settings);
    let (done, ..) = run(&world, changing(&world), &[]);
    assert!(done.stderr.contains("loopwright trust"), "{}", done.stderr);
    assert_eq!(guide(&world), "old\n");
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    run(&world, changing(&world), &[]);
    assert_eq!(guide(&world), "new\n");
}

#[test]
fn a_folder_that_cannot_be_added_ends_the_run_if_it_was_typed_and_warns_otherwise() {
    let check = |folder: &str, expect: &str| {
        let world = world().file(".config/loopwright/hooks.json", "{}");
        let (done, ..) = run(&world, Vec::new(), &["--add-dir", folder]);
        assert_eq!(done.status, 2, "{}", done.stderr);
        assert!(done.stderr.contains(expect), "{}", done.stderr);

        let config = format!(
            "[permissions]\nfolders = [\"{}\"]\n",
            world.path("project").join(folder).display()
        );
        let world = world.file(".config/loopwright/config.toml", &config);
        let (done, ..) = run(&world, vec![streamed("Done.", "stop")], &[]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(done.stderr.contains(expect), "{}", done.stderr);
    };
    check("../gone", "/gone cannot be added: No such file or directory");
    check("a.txt", "/project/a.txt cannot be added: not a directory");
    check("..", "is broader than a single project; add a folder inside it");
    check("/etc", "is broader than a single project; add a folder inside it");
    check("../.config/loopwright", "Loopwright keeps its settings and sessions there");
}

#[test]
fn a_folder_that_is_added_in_a_chat_is_used_from_the_next_message_on() {
    let world = world();
    let path = world.path("docs/guide.md");
    let edit = json!({ "path": path, "old_string": "old", "new_string": "new" });
    let turn = || [streamed_tool("", "edit_file", &edit), streamed("Done.", "stop")];
    let server = Server::start(turn().into_iter().chain(turn()).collect::<Vec<_>>());
    let line = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    let lines = "first\n/diff\n/add-dir ../gone\n/add-dir ../docs\nsecond\n/diff\n";
    let done = world.run_with(&line, lines);
    assert_eq!(guide(&world), "new\n", "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("/gone cannot be added"), "{}", done.stderr);
    assert!(done.stderr.contains("the tools can now use /docs"), "{}", done.stderr);
    assert!(done.stderr.contains("docs/guide.md"), "{}", done.stderr);
}

#[test]
fn a_script_that_a_hook_runs_is_protected_in_a_folder_that_is_added_in_a_chat() {
    let hook = json!({ "type": "command", "command": "sh ci/guard.sh" });
    let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [hook] }] } });
    let world = World::new()
        .file("project/.git/HEAD", "ref: refs/heads/main\n")
        .file("project/ci/guard.sh", "exit 2\n")
        .file("project/sub/a.txt", "a")
        .file(".config/loopwright/hooks.json", &hooks.to_string());
    let path = world.path("project/ci/guard.sh");
    let write = json!({ "path": path, "content": "exit 0\n", "overwrite": true });
    let server =
        Server::start([streamed_tool("", "write_file", &write), streamed("Done.", "stop")]);
    let line = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url, "-C", "sub"];
    let done = world.run_with(&line, "/add-dir .\nGo.\n");
    assert!(done.stderr.contains("the tools can now use /project\n"), "{}", done.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), "exit 2\n", "{}", done.stderr);
}
