//! `chat`, as a script uses it: each line of standard input is a turn.

use serde_json::{Value, json};

use crate::server::{Server, error, streamed, streamed_call, streamed_tool, whole};
use crate::world::{Done, World};

/// Chats with a provider that gives these answers.
fn chat(world: &World, server: &Server, options: &[&str], lines: &str) -> Done {
    let model = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    world.run_with(&[&model, options].concat(), lines)
}

fn answering<const N: usize>(words: [&str; N]) -> Server {
    Server::start(words.map(|it| streamed(it, "stop")))
}

fn said(world: &World) -> Vec<String> {
    let list = world.run(&["sessions", "list", "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let id = list["sessions"][0]["id"].as_str().unwrap();
    let shown = world.run(&["sessions", "show", id, "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let entries = shown["entries"].as_array().unwrap().iter();
    let words = entries.filter(|it| matches!(it["type"].as_str(), Some("said" | "answered")));
    words.map(|it| it["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_message_of_the_command_line_is_the_first_turn() {
    let (world, server) = (World::new(), answering(["red", "blue"]));
    let done = chat(&world, &server, &["first?"], "second?\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, "red\nblue\n"), "{}", done.stderr);
    assert_eq!(said(&world), ["first?", "red", "second?", "blue"]);
    let server = answering(["green"]);
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let bare = world.run_with(&[&["and third?"], &model[..]].concat(), "");
    assert_eq!((bare.status, bare.stdout.as_str()), (0, "green\n"), "{}", bare.stderr);
}

#[test]
fn a_session_is_not_chosen_without_a_terminal() {
    let (world, server) = (World::new(), answering(["red"]));
    let done = chat(&world, &server, &["--resume"], "first?\n");
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("`loopwright sessions list` lists them"), "{}", done.stderr);
}

#[test]
fn each_line_is_a_turn_of_one_session() {
    let (world, server) = (World::new(), answering(["one", "two", "three"]));
    let done = chat(&world, &server, &[], "1?\n\n2? \\\nand more\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\ntwo\n"), "{}", done.stderr);
    assert_eq!(said(&world), ["1?", "one", "2? \nand more", "two"]);
    let last = done.stderr.lines().last().unwrap();
    assert!(last.starts_with("resume with: loopwright chat --resume "), "{last}");
    let done = chat(&world, &server, &["--continue"], "3?\n/quit\nnever\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, "three\n"), "{}", done.stderr);
    assert_eq!(said(&world)[4..], ["3?", "three"]);
}

#[test]
fn nothing_is_kept_before_something_is_said() {
    let (world, server) = (World::new(), answering([]));
    let done = chat(&world, &server, &[], "/help\n/model\n/rewind\n/fork\n/dance\n/quit\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, ""));
    for told in
        ["/rewind [STEP]", "openai-compatible/test", "no messages yet", "unknown command /dance"]
    {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }
    let list = world.run(&["sessions", "list"]);
    assert_eq!(list.stdout, "");
    let done = chat(&world, &answering(["one"]), &["--no-session"], "1?\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\n"));
    assert!(!done.stderr.contains("resume with"), "{}", done.stderr);
    assert_eq!(world.run(&["sessions", "list"]).stdout, "");
}

#[test]
fn help_lists_the_commands_before_and_in_a_chat() {
    let (world, server) = (World::new(), answering([]));
    let told = chat(&world, &server, &[], "/help\n").stderr;
    let help = world.run(&["chat", "--help"]).stdout;
    let commands = told.lines().filter(|it| it.starts_with('/'));
    let commands: Vec<&str> = commands.filter_map(|it| it.split_whitespace().next()).collect();
    assert!(commands.contains(&"/compact"), "{told}");
    for command in commands {
        assert!(help.contains(command), "{command}: {help}");
    }
}

#[test]
fn the_model_changes_between_turns() {
    let (world, server) = (World::new(), answering(["one", "two"]));
    let lines = "1?\n/model openai-compatible/other\n/model nobody/x\n2?\n";
    let done = chat(&world, &server, &[], lines);
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\ntwo\n"), "{}", done.stderr);
    assert!(done.stderr.contains("nobody"), "{}", done.stderr);
    assert_eq!(server.request()["model"], "test");
    assert_eq!(server.request()["model"], "other");
}

#[test]
fn a_change_of_the_permission_mode_is_a_line_between_the_runs_of_a_stream() {
    let (world, server) = (World::new(), answering(["one", "two"]));
    let lines = "1?\n/mode\n/mode plan\n/mode plan\n/mode fast\n/mode next\n2?\n";
    let done = chat(&world, &server, &["--json"], lines);
    let told: Vec<Value> =
        done.stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let told: Vec<&Value> = told.iter().filter(|it| it.get("permission_mode").is_some()).collect();
    let named = |it: &&Value| json!([it["type"], it["permission_mode"]]);
    let changed = |before: &str, now: &str| json!({"type": "permission_mode_changed", "before": before, "permission_mode": now});
    assert_eq!(told[2..4], [&changed("auto", "plan"), &changed("plan", "ask")], "{}", done.stderr);
    assert_eq!(
        told.iter().map(named).collect::<Vec<_>>(),
        [
            json!(["init", "auto"]),
            json!(["result", "auto"]),
            json!(["permission_mode_changed", "plan"]),
            json!(["permission_mode_changed", "ask"]),
            json!(["init", "ask"]),
            json!(["result", "ask"]),
        ]
    );
    let quiet = chat(&world, &answering([]), &["--json", "-q"], "/mode plan\n");
    assert_eq!(quiet.stdout, "");
    let text = chat(&world, &answering([]), &[], "/mode plan\n");
    assert_eq!((text.stdout.as_str(), text.stderr.as_str()), ("", "mode plan\n"));
}

#[test]
fn the_last_message_can_be_rewound_and_replaced() {
    let (world, server) = (World::new(), answering(["one", "two", "three"]));
    let done = chat(&world, &server, &[], "1?\n2?\n/rewind\n3?\n/rewind 9\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(said(&world), ["1?", "one", "3?", "three"]);
    assert!(done.stderr.contains("unknown step 9"), "{}", done.stderr);
}

#[test]
fn the_first_message_can_be_rewound_and_replaced() {
    let (world, server) = (World::new(), answering(["one", "two"]));
    let done = chat(&world, &server, &[], "1?\n/rewind\n2?\n/rewind\n/rewind\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(said(&world), Vec::<String>::new());
    drop(server.request());
    let request = server.request();
    let messages = request["messages"].as_array().unwrap();
    let told: Vec<&Value> = messages.iter().filter(|it| it["role"] != "system").collect();
    assert_eq!(told.len(), 1, "{request}");
    let told = "rewound to the start of the session\n";
    assert_eq!(done.stderr.matches(told).count(), 2, "{}", done.stderr);
    assert!(done.stderr.contains("nothing to undo"), "{}", done.stderr);
}

#[test]
fn a_rewind_after_a_compaction_says_that_nothing_said_was_taken_back() {
    let (world, server) = (World::new(), answering(["one", "two"]));
    let done = chat(&world, &server, &[], "1?\n2?\n/compact\n/rewind\n/rewind\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(said(&world), ["1?", "one"]);
    let told = "the last run changed nothing; still at the end of step 2\n";
    assert!(done.stderr.contains(told), "{}", done.stderr);
    assert!(done.stderr.contains("rewound to the end of step 1\n"), "{}", done.stderr);
}

#[test]
fn a_rewind_after_a_compaction_that_failed_undoes_no_compaction() {
    let world = World::new();
    let long = "word ".repeat(2000);
    let words = [&*long, "two", "three", "four", "five"].map(|it| streamed(it, "stop"));
    let server = Server::start(words.into_iter().chain([error(400, "bad request")]));
    let done = chat(&world, &server, &[], "1?\n2?\n3?\n4?\n5?\n/compact\n/rewind\n/rewind\n");
    assert_eq!(server.heard().len(), 6, "{}", done.stderr);
    let told = "the last run changed nothing; still at the end of step 5\n";
    assert!(done.stderr.contains(told), "{}", done.stderr);
    assert!(done.stderr.contains("rewound to the end of step 4\n"), "{}", done.stderr);
}

#[test]
fn each_message_can_be_taken_back_with_what_follows_it() {
    let cases = [("1", vec!["again"]), ("2", vec!["one?", "one", "again"])];
    for (number, before) in cases {
        let (world, server) = (World::new(), answering(["one", "two", "three"]));
        let done = chat(&world, &server, &[], &format!("one?\ntwo?\n/turns\n{number}\nagain\n"));
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert_eq!(said(&world), [before, vec!["three"]].concat(), "{}", done.stderr);
    }
}

#[test]
fn a_command_is_listed_as_it_was_typed_and_keeps_the_outputs_before_it() {
    let push = "Push to $1, then $2.";
    let world = World::new().file("project/.claude/commands/git/push.md", push);
    let server = answering(["one", "two", "three"]);
    let lines = "/review it\n!echo hi\n/git:push a b\n/turns\n2\nagain\n/resume\n1\n";
    let done = chat(&world, &server, &[], lines);
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\ntwo\nthree\n"), "{}", done.stderr);
    assert!(done.stderr.contains("  1  /review it\n  2  /git:push a b\n"), "{}", done.stderr);
    let titles = done.stderr.lines().filter(|it| it.ends_with(" s  /review it"));
    assert_eq!(titles.count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("> again\n"), "{}", done.stderr);
    assert_eq!(said(&world)[2], "I ran `echo hi`, which printed:\n```\nhi\n```\n\nagain");
}

#[test]
fn a_command_in_a_folder_is_found_by_its_own_name_if_no_other_has_it() {
    let world = World::new()
        .file("project/.claude/commands/git/push.md", "Push to $1.")
        .file("project/.claude/commands/git/tidy.md", "Tidy.")
        .file("project/.claude/commands/db/tidy.md", "Tidy.");
    let server = answering(["one"]);
    let done = chat(&world, &server, &[], "/push main\n/tidy\n/pusch\n");
    let text = server.request()["messages"].to_string();
    assert!(text.contains("/git:push main") && text.contains("Push to main."), "{text}");
    for told in [
        "unknown command /tidy; did you mean /db:tidy or /git:tidy?",
        "unknown command /pusch; did you mean /git:push?",
    ] {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }
}

#[test]
fn a_typed_command_says_what_the_sandbox_keeps_from_it() {
    let world = World::new().file("project/.env", "SECRET=1\n");
    let server = answering(["one"]);
    let lines = "!cat .env\n!echo curl: Could not resolve host: a.example >&2; exit 6\n\
        !: > /dev/tcp/127.0.0.1/9\nGo on.\n";
    let done = chat(&world, &server, &["--deny", "Read(./.env)"], lines);
    let sent = server.request()["messages"].to_string();
    for told in [
        "[`.env` is hidden in the sandbox]",
        "[the sandbox has no network]",
        "[each command has its own loopback interface",
    ] {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
        assert!(sent.contains(told), "{told}: {sent}");
    }
}

#[test]
fn a_fork_goes_on_and_its_source_stays() {
    let (world, server) = (World::new(), answering(["one", "two"]));
    let done = chat(&world, &server, &[], "1?\n/fork\n2?\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(said(&world), ["1?", "one", "2?", "two"]);
    let list = world.run(&["sessions", "list", "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_hook_keeps_a_conversation_from_being_compacted() {
    let command = "cat > compact.json; echo keep it >&2; exit 2";
    let hook = json!({ "type": "command", "command": command, "timeout": 20 });
    let settings = json!({ "hooks": { "PreCompact": [{ "matcher": "manual", "hooks": [hook] }] } });
    let world = World::new().file(".config/loopwright/hooks.json", &settings.to_string());
    let long = "word ".repeat(2000);
    let server = answering([&*long, "two", "three", "four", "five"]);
    let done = chat(&world, &server, &[], "1?\n2?\n3?\n4?\n5?\n/compact\n");
    let told = "a hook prevented the compaction: keep it";
    assert!(done.stderr.contains(told), "{}", done.stderr);
    let input = std::fs::read_to_string(world.path("project/compact.json")).unwrap();
    assert!(input.contains(r#""trigger":"manual""#), "{input}");
    assert_eq!(server.heard().len(), 5);
}

#[test]
fn a_long_talk_is_made_short_and_a_rewind_brings_it_back() {
    let world = World::new();
    let long = "word ".repeat(2000);
    let words = [&long, "two", "three", "four", "five", "all of it", "seven", "eight"];
    let sum = whole("all of it", None);
    let server = Server::start(words.iter().enumerate().map(|(at, text)| match at {
        5 => sum.clone(),
        _ => streamed(text, "stop"),
    }));
    let done = chat(&world, &server, &[], "/compact\n1?\n2?\n3?\n4?\n5?\n/compact\n6?\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("no messages yet"), "{}", done.stderr);
    let saved = "compacted: 10 messages to 9, about 2,510 tokens to 51";
    assert!(done.stderr.contains(saved), "{}", done.stderr);
    let requests: Vec<Value> = (0..7).map(|_| server.request()).collect();
    assert!(requests[5]["tools"].is_null(), "{}", requests[5]);
    let sent = |at: usize| {
        let messages = requests[at]["messages"].as_array().unwrap().iter();
        let messages = messages.filter(|it| it["role"] != "system");
        messages.map(|it| it["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(sent(6)[0].ends_with("<summary>\nall of it\n</summary>"), "{:?}", sent(6));
    assert_eq!(sent(6)[1..], ["2?", "two", "3?", "three", "4?", "four", "5?", "five", "6?"]);

    // To the end of the step before it, and on from there.
    let done = chat(&world, &server, &["--continue"], "/rewind 5\n6?\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let request = server.request();
    assert!(request.to_string().contains("word word word"), "{request}");
}

#[test]
fn a_turn_that_fails_does_not_end_the_talk_and_is_told_to_scripts() {
    let world = World::new();
    let server = Server::start([error(400, "bad request"), streamed("two", "stop")]);
    let done = chat(&world, &server, &[], "1?\n2?\n");
    assert_eq!((done.status, done.stdout.as_str()), (5, "two\n"), "{}", done.stderr);
}

#[test]
fn a_rewind_names_the_files_that_stay_and_undoes_them_if_that_is_asked_for() {
    let write = |text: &str| {
        let arguments = serde_json::json!({
            "path": "new.txt", "content": text, "overwrite": true,
        });
        crate::server::streamed_tool("", "write_file", &arguments)
    };
    let (world, server) = (
        World::new(),
        Server::start([
            write("one"),
            streamed("Written.", "stop"),
            write("two"),
            streamed("Written.", "stop"),
        ]),
    );
    let file = || std::fs::read_to_string(world.path("project/new.txt")).ok();
    let done = chat(&world, &server, &[], "write\n/rewind\nwrite\n/rewind files\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let kept = "files left unchanged: new.txt; to undo the changes to them, type `/rewind 0 files`";
    assert!(done.stderr.contains(kept), "{}", done.stderr);
    assert!(done.stderr.contains("new.txt restored"), "{}", done.stderr);
    assert_eq!(file().as_deref(), Some("one"));
}

#[test]
fn a_change_that_a_rewind_left_in_a_file_can_be_undone_before_the_session_continues() {
    let arguments = serde_json::json!({ "path": "new.txt", "content": "one" });
    let write = crate::server::streamed_tool("", "write_file", &arguments);
    let (world, server) = (World::new(), Server::start([write, streamed("Written.", "stop")]));
    let done = chat(&world, &server, &[], "write\n/rewind\n/rewind 0 files\n/diff\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let told = [
        "files left unchanged: new.txt; to undo the changes to them, type `/rewind 0 files`",
        "new.txt removed",
        "only file changes were undone; still at the end of step 0",
        "no file has changed in this session",
    ];
    assert!(told.iter().all(|it| done.stderr.contains(it)), "{}", done.stderr);
    assert!(!world.path("project/new.txt").exists());
}

#[test]
fn a_skill_or_a_command_file_is_used_by_its_name() {
    let world =
        World::new().file("project/.claude/commands/git/push.md", "Push to $1, then $2.").file(
            ".agents/skills/tidy/SKILL.md",
            "---\nname: tidy\ndescription: Tidies.\n---\nTidy $ARGUMENTS.\n",
        );
    let server = answering(["one", "two", "three"]);
    let lines = "/skills\n/tidy the desk\n/git:push a b\n/Users live here\n/dance\n";
    let done = chat(&world, &server, &[], lines);
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\ntwo\nthree\n"), "{}", done.stderr);
    assert!(done.stderr.contains("git:push  Push to $1, then $2."), "{}", done.stderr);
    assert!(done.stderr.contains("unknown command /dance"), "{}", done.stderr);
    let said = said(&world);
    assert!(said[0].contains("Tidy the desk."), "{said:?}");
    assert!(said[2].contains("Push to a, then b."), "{said:?}");
    assert_eq!(said[4], "/Users live here");
}

#[test]
fn a_file_is_attached_and_the_output_of_a_command_is_told_with_the_next_message() {
    let world = World::new().file("project/notes.txt", "buy milk\n");
    let server = answering(["one", "two"]);
    let done = chat(&world, &server, &[], "!cat notes.txt\nread @notes.txt\nagain\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\ntwo\n"), "{}", done.stderr);
    assert!(done.stderr.contains("buy milk"), "{}", done.stderr);
    assert!(done.stderr.contains("attached: notes.txt"), "{}", done.stderr);
    let said = said(&world);
    let printed = "I ran `cat notes.txt`, which printed:\n```\nbuy milk";
    assert!(said[0].starts_with(printed), "{said:?}");
    let attached = "read @notes.txt\n\n<file path=\"notes.txt\">\nbuy milk\n</file>";
    assert!(said[0].ends_with(attached), "{said:?}");
    assert_eq!(said[2], "again");
}

#[test]
fn another_session_is_begun_and_the_first_one_is_resumed_by_what_was_said_in_it() {
    let (world, server) = (World::new(), answering(["red", "blue", "green"]));
    let lines = "first?\n/clear\nsecond?\n/resume RED\n1\nthird?\n/resume nothing like it\n";
    let done = chat(&world, &server, &[], lines);
    assert_eq!((done.status, done.stdout.as_str()), (0, "red\nblue\ngreen\n"), "{}", done.stderr);
    assert_eq!(said(&world), ["first?", "red", "third?", "green"]);
    assert!(done.stderr.contains("> first?\nred\n"), "{}", done.stderr);
    assert!(done.stderr.contains("no such session in this directory"), "{}", done.stderr);
    let list: Value =
        serde_json::from_str(&world.run(&["sessions", "list", "--json"]).stdout).unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_resumed_session_has_its_own_agent_model_and_mode() {
    let reviewer = "---\nname: reviewer\ndescription: Reviews.\ntools: Read\n---\n\nYou review.\n";
    let world = World::new().file("project/.loopwright/agents/reviewer.md", reviewer);
    let server = answering(["red", "blue", "green", "grey", "white"]);
    let done = chat(&world, &server, &["--agent", "reviewer"], "first?\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let other = ["-m", "openai-compatible/other", "--base-url", &server.url];
    let lines = "second?\n/mode plan\n/resume red\n1\n/mode\nthird?\n/clear\nfourth?\n/resume blue\n1\nfifth?\n";
    let done = world.run_with(&[&["chat"], &other[..]].concat(), lines);
    assert_eq!(
        (done.status, done.stdout.as_str()),
        (0, "blue\ngreen\ngrey\nwhite\n"),
        "{}",
        done.stderr
    );
    let heading = " · agent reviewer · openai-compatible/test · mode auto\n";
    assert!(done.stderr.contains(heading), "{}", done.stderr);
    assert!(done.stderr.contains("red\nmode auto\n"), "{}", done.stderr);
    let sent = || {
        let request = server.request();
        let system = request["messages"][0]["content"].as_str().unwrap().to_owned();
        let tools = request["tools"].as_array().map_or(0, Vec::len);
        (request["model"].as_str().unwrap().to_owned(), system.contains("You review."), tools == 1)
    };
    let (own, others) = (("test".to_owned(), true, true), ("other".to_owned(), false, false));
    let all: Vec<_> = (0..5).map(|_| sent()).collect();
    assert_eq!(all, [own.clone(), others.clone(), own.clone(), own, others]);
}

#[test]
fn a_session_begun_after_another_was_resumed_has_the_configured_instructions() {
    let config = "system_prompt = \"Be brief.\"\n";
    let world = World::new().file(".config/loopwright/config.toml", config);
    let server = answering(["red", "blue", "green"]);
    let lines = "1?\n/clear\n2?\n/resume red\n1\n/clear\n3?\n";
    let done = chat(&world, &server, &[], lines);
    assert_eq!(done.status, 0, "{}", done.stderr);
    for _ in 0..3 {
        let request = server.request();
        let system = request["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("Be brief."), "{system}");
    }
}

#[test]
fn a_skill_of_a_project_that_is_not_trusted_attaches_only_what_the_user_typed() {
    let skill =
        "---\nname: tidy\ndescription: Tidies.\n---\nTidy as @secret.txt says: $ARGUMENTS\n";
    let world = World::new()
        .file("project/.agents/skills/tidy/SKILL.md", skill)
        .file("project/secret.txt", "hidden\n")
        .file("project/desk.txt", "untidy\n");
    let server = answering(["one", "two"]);
    let done = chat(&world, &server, &[], "/tidy @desk.txt\n/review @desk.txt\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(done.stderr.matches("attached: desk.txt\n").count(), 2, "{}", done.stderr);
    let said = said(&world);
    assert!(said[0].contains("<file path=\"desk.txt\">\nuntidy"), "{said:?}");
    assert!(!said[0].contains("hidden"), "{said:?}");
    assert!(said[2].contains("<file path=\"desk.txt\">\nuntidy"), "{said:?}");
}

#[test]
fn a_typed_skill_whose_call_or_agent_a_rule_denies_runs_in_the_conversation() {
    let skill = "---\nname: ship\ndescription: Ships.\ncontext: fork\n---\nShip to $ARGUMENTS.\n";
    let first = |options: &[&str]| {
        let world = World::new().file(".agents/skills/ship/SKILL.md", skill);
        let done = chat(&world, &answering(["one"]), options, "/ship main\n");
        let runs_here = done.stderr.contains("`/ship` runs in this conversation");
        (said(&world)[0].contains("Ship to main."), runs_here)
    };
    assert_eq!(first(&[]), (false, false));
    assert_eq!(first(&["--deny", "Skill(ship)"]), (true, true));
    assert_eq!(first(&["--deny", "Agent(general-purpose)"]), (true, true));
    assert_eq!(first(&["--deny", "Agent(other)"]), (false, false));
}

#[test]
fn a_skill_of_the_user_attaches_the_files_that_it_names_unless_a_rule_denies_them() {
    let skill =
        "---\nname: tidy\ndescription: Tidies.\n---\nTidy as @rules.txt and @secret.txt say.\n";
    let world = World::new()
        .file(".agents/skills/tidy/SKILL.md", skill)
        .file("project/rules.txt", "by color\n")
        .file("project/secret.txt", "hidden\n");
    let server = answering(["one"]);
    let done = chat(&world, &server, &["--deny", "Read(secret.txt)"], "/tidy\n");
    assert!(done.stderr.contains("attached: rules.txt\n"), "{}", done.stderr);
    let said = said(&world);
    assert!(said[0].contains("<file path=\"rules.txt\">\nby color"), "{said:?}");
    assert!(!said[0].contains("hidden"), "{said:?}");
}

#[test]
fn context_and_cost_show_tokens_and_dollars() {
    let (world, server) = (World::new(), answering(["one"]));
    let done = chat(&world, &server, &[], "/cost\n/context\nhello there\n/context\n/cost\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    for told in ["no messages yet", "instructions", "tools (", "your messages", "answers", "steps"]
    {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }
}

#[test]
fn the_conversation_is_exported_to_a_new_file_only() {
    let (world, server) = (World::new(), answering(["one"]));
    let done = chat(&world, &server, &[], "/export a.md\nhello\n/export a.md\n/export a.md\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.lines().any(|line| line == "no messages yet"), "{}", done.stderr);
    assert!(done.stderr.contains("choose another name: /export FILE"), "{}", done.stderr);
    let written = std::fs::read_to_string(world.path("project/a.md")).unwrap();
    assert_eq!(written, "# hello\n\n## You\n\nhello\n\n## Agent\n\none\n");
}

#[test]
fn the_effort_is_part_of_the_next_request() {
    let (world, server) = (World::new(), answering(["one", "two"]));
    let done = chat(&world, &server, &[], "/effort\n/effort low\n1?\n/effort default\n2?\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("effort default\neffort low\n"), "{}", done.stderr);
    assert_eq!(server.request()["reasoning_effort"], "low");
    assert!(server.request().get("reasoning_effort").is_none());
}

#[test]
fn differences_to_what_files_were_before_the_session_are_shown() {
    let world = World::new().file("project/b.txt", "gone\n");
    let write = serde_json::json!({ "path": "a.txt", "content": "one\n2\n", "overwrite": true });
    let server = Server::start([
        streamed_tool("", "write_file", &write),
        streamed_call("", "rm b.txt; echo new > c.txt"),
        streamed("done", "stop"),
    ]);
    let done = chat(&world, &server, &[], "/diff\nchange it\n/diff\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, "done\n"), "{}", done.stderr);
    let told =
        done.stderr.split("a.txt: changed").nth(1).unwrap_or_else(|| panic!("{}", done.stderr));
    for line in ["2 - two", "2 + 2", "b.txt: removed", "1 - gone", "c.txt: added", "1 + new"] {
        assert!(told.contains(line), "{line}: {}", done.stderr);
    }
    assert!(told.contains("3 files changed in this session"), "{}", done.stderr);
}
