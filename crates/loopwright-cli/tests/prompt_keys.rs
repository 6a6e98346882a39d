//! Keys at the prompt of a chat: those that leave it, text that comes between two prompts, and keys that attach images.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::images::{PNG, image};
use crate::prompt_line::{chatting, done};
use crate::server::{Server, said, streamed, streamed_call, streamed_tool};
use crate::terminal::{Seen, Terminal, pasted};
use crate::world::World;

const CTRL_A: &str = "\u{1}";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ESC: &str = "\u{1b}";
const CTRL_R: &str = "\u{12}";
const SHIFT_TAB: &str = "\u{1b}[Z";
const CTRL_V: &str = "\u{16}";

/// A status line that takes a second. Meanwhile, no prompt is open.
const SLOW: &str = "[chat]\nstatus_line = \"sleep 1; echo ready\"\n";

/// A world for a chat, with an image.
fn with_image(server: &Server) -> World {
    let world = chatting(server);
    fs::write(world.path("a b.png"), PNG).unwrap();
    world
}

/// Checks that each of these lines stands on the screen once.
fn shown_once(seen: &Seen, lines: &[&str]) {
    for line in lines {
        let count = seen.lines.iter().filter(|it| it.trim() == *line).count();
        assert_eq!(count, 1, "{line}: {}", seen.text());
    }
}

#[test]
fn lines_that_are_typed_between_two_prompts_are_sent_and_none_is_shown_twice() {
    let server = Server::start(["One.", "Two.", "Three."].map(|it| streamed(it, "stop")));
    let world = chatting(&server).file(".config/loopwright/config.toml", SLOW);
    let terminal = Terminal::new(80)
        .typing("/help for help", "first")
        .pressing("tokens in", "second\rthird\rfou")
        .editing("Three.", "rth")
        .pressing("fourth", &format!("{CTRL_C}{CTRL_D}"));
    let seen = done(terminal.run(&world, &[]));
    let requests = server.heard();
    assert_eq!(said(&requests[2].1), ["first", "second", "third"]);
    shown_once(&seen, &["> first", "> second"]);
}

#[test]
fn keys_behind_shift_tab_take_effect_at_the_next_prompt() {
    let server = Server::start(["One.", "Two."].map(|it| streamed(it, "stop")));
    let terminal = Terminal::new(80)
        .editing("/help for help", &format!("{SHIFT_TAB}ab{CTRL_A}x\r"))
        .editing("One.", &format!("{SHIFT_TAB}{CTRL_R}xa\r\r"))
        .typing("Two.", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    let requests = server.heard();
    let said = said(&requests[1].1);
    let texts: Vec<&str> = said.iter().filter_map(Value::as_str).collect();
    // The first Shift-Tab led to mode `plan`, which is told with the message, and the second one out of it.
    let planned = texts[0].split_once("\n\n[Mode plan: ").unwrap();
    assert_eq!((planned.0, texts[1]), ("xab", "xab"), "{}", seen.text());
}

#[test]
fn escape_leaves_a_list_and_text_that_is_no_number_is_kept_for_the_prompt() {
    let server = Server::start(["One.", "Two."].map(|it| streamed(it, "stop")));
    let terminal = Terminal::new(100)
        .typing("/help for help", "first")
        .typing("One.", "/resume")
        .editing("number of the session", &format!("abc{ESC}"))
        .typing("still in the same session", "/turns")
        .typing("number of the message", "2")
        .typing("type a number up to 1", "second")
        .editing("your text is kept", ESC)
        .editing("nothing was rewound", "\r")
        .typing("Two.", "/quit");
    done(terminal.run(&chatting(&server), &[]));
    assert_eq!(said(&server.heard()[1].1), ["first", "second"]);
}

#[test]
fn a_mode_chosen_while_the_agent_works_applies_to_its_next_call_and_is_shown() {
    let replies = [
        streamed_call("", "until [ -e gate/go ]; do sleep 0.1; done"),
        streamed_call("", "rm a.txt"),
        streamed("Done.", "stop"),
    ];
    let server = Server::start(replies);
    let world = chatting(&server).file("project/a.txt", "x").file("project/gate/a", "");
    // A command that collects its changes need not see a file that is made outside.
    let world = world.file(".config/loopwright/config.toml", "[sandbox]\ndirect = [\"gate\"]\n");
    let go = |world: &World| fs::write(world.path("project/gate/go"), "").unwrap();
    let terminal = Terminal::new(120)
        .typing("/help for help", "Go")
        .pressing("bash until", SHIFT_TAB)
        .pressing("· mode plan", "/mode deny\r")
        .pressing("· mode deny", "")
        .first(go)
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&world, &[]));
    assert!(world.path("project/a.txt").exists(), "{}", seen.text());
    shown_once(&seen, &["mode plan", "mode deny"]);
}

#[test]
fn escape_ends_a_command_of_the_user_and_lines_behind_it_are_the_next_turns() {
    let server = Server::start([streamed("One.", "stop")]);
    let terminal = Terminal::new(80)
        .typing("/help for help", "!sleep 1000")
        .pressing("\u{1b}[?2004h", &format!("first\r{ESC}"))
        .typing("One.", "/quit");
    done(terminal.run(&chatting(&server), &[]));
    assert_eq!(said(&server.request()), ["first"]);
}

#[test]
fn a_mode_chosen_while_a_command_of_the_user_runs_is_a_line_of_the_stream() {
    let server = Server::start([]);
    let terminal = Terminal::new(120)
        .typing("/help for help", "!sleep 1000")
        .pressing("\u{1b}[?2004h", SHIFT_TAB)
        .pressing("mode plan", ESC)
        .typing("", "/quit");
    let seen = done(terminal.run(&chatting(&server), &["chat", "--json"]));
    let line =
        json!({"type": "permission_mode_changed", "before": "auto", "permission_mode": "plan"});
    assert!(seen.written.contains(&line.to_string()), "{}", seen.text());
}

#[test]
fn keys_between_the_turn_and_the_question_about_a_call_are_no_answer_and_the_next_turn() {
    let replies = [
        streamed_call("", "sleep 2"),
        streamed_call("", "rm a.txt"),
        streamed("Stays.", "stop"),
        streamed("Two.", "stop"),
    ];
    let server = Server::start(replies);
    let config = "[permissions]\nask = [\"Bash(rm *)\"]\n[notify]\ncommand = [\"sleep\", \"1\"]\n";
    let world =
        chatting(&server).file(".config/loopwright/config.toml", config).file("project/a.txt", "x");
    // The keys of the agent's turn end with the mode for pasted text. The question opens a second later.
    let terminal = Terminal::new(100)
        .typing("/help for help", "Go")
        .pressing("bash sleep 2", "")
        .pressing("\u{1b}[?2004l", "1\r")
        .typing("1 yes", "3")
        .typing("Two.", "/quit");
    let seen = done(terminal.run(&world, &[]));
    assert!(world.path("project/a.txt").exists(), "{}", seen.text());
    assert_eq!(said(&server.heard()[3].1), ["Go", "1"]);
}

#[test]
fn a_prompt_that_is_left_takes_its_status_line_along() {
    let server = Server::start([]);
    let terminal = Terminal::new(80)
        .editing("/help for help", "abc")
        .pressing("abc", CTRL_C)
        .editing("", CTRL_C)
        .editing("press Ctrl-C again", CTRL_R)
        .pressing("() ", CTRL_C)
        .pressing("> ", CTRL_D);
    let seen = done(terminal.run(&chatting(&server), &[]));
    assert!(seen.written.contains("project (main)"), "{}", seen.written);
    assert!(!seen.text().contains("project (main)"), "{}", seen.text());
    assert!(!seen.text().contains("abc"), "{}", seen.text());
}

#[test]
fn lines_that_are_pasted_together_while_the_agent_works_are_one_message() {
    let server = Server::start([streamed_call("", "sleep 2"), streamed("Done.", "stop")]);
    let terminal = Terminal::new(80)
        .typing("/help for help", "Go")
        .pressing("bash sleep 2", &format!("{}\r", pasted("one\rtwo")))
        .typing("tokens in", "/quit");
    done(terminal.run(&chatting(&server), &[]));
    let requests = server.heard();
    assert_eq!(said(&requests[1].1), ["Go", "one\ntwo"]);
}

#[test]
fn an_image_whose_path_is_pasted_or_dropped_is_attached() {
    let server = Server::start([streamed("A dot.", "stop")]);
    let world = with_image(&server);
    let path = world.path("a b.png");
    let path = path.to_str().unwrap();
    let (quoted, escaped) = (pasted(&format!("'{path}'")), pasted(&path.replace(' ', "\\ ")));
    let url = pasted(&format!("file://{}", path.replace(' ', "%20")));
    let keys = format!("See {quoted}{escaped}{url}and {}\r", pasted("/nowhere/c.png"));
    let terminal = Terminal::new(80).editing("/help for help", &keys).typing("tokens in", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let text = "See [image #1] [image #2] [image #3] and /nowhere/c.png";
    assert!(seen.text().contains(&format!("> {text}")), "{}", seen.text());
    let content = json!([{"type": "text", "text": text}, image(), image(), image()]);
    assert_eq!(said(&server.request()), [content]);
}

/// A folder of programs before those of the system, with a clipboard.
fn with_clipboard(world: World, script: &str) -> World {
    let bin = world.path("bin").to_str().unwrap().to_owned();
    let world = world.env("PATH", &format!("{bin}:/usr/bin:/bin")).file("bin/wl-paste", script);
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(world.path("bin/wl-paste"), mode).unwrap();
    world
}

#[test]
fn ctrl_v_attaches_the_image_in_the_clipboard() {
    let server = Server::start([streamed("A dot.", "stop")]);
    let script = "#!/bin/sh\n[ \"$*\" = '--no-newline --type image/png' ] && printf '\\211\\120\\116\\107\\015\\012\\032\\012\\000\\000\\000\\015\\111\\110\\104\\122\\000\\000\\000\\001\\000\\000\\000\\001\\010\\000\\000\\000\\000\\072\\176\\233\\125\\000\\000\\000\\012\\111\\104\\101\\124\\170\\234\\143\\140\\000\\000\\000\\002\\000\\001\\110\\257\\244\\161\\000\\000\\000\\000\\111\\105\\116\\104\\256\\102\\140\\202'\n";
    let world = with_clipboard(chatting(&server), script);
    let terminal = Terminal::new(80)
        .editing("/help for help", &format!("What is {CTRL_V}"))
        .pressing("[image #1]", "now? [image #2]\r")
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let text = "What is [image #1] now? [image #2]";
    assert_eq!(said(&server.request()), [json!([{"type": "text", "text": text}, image()])]);
    let told = "warning: [image #2] is not attached: it was pasted in another chat";
    assert!(seen.text().contains(told), "{}", seen.text());
}

#[test]
fn ctrl_v_says_why_nothing_is_attached() {
    let server = Server::start([]);
    let no_image = with_clipboard(chatting(&server), "#!/bin/sh\nexit 1\n");
    for (world, told) in [
        (chatting(&server), "no program can read the clipboard; install `wl-paste`"),
        (no_image, "the clipboard has no image"),
    ] {
        let terminal = Terminal::new(120)
            .editing("/help for help", &format!("abc{CTRL_V}"))
            .pressing(told, &format!("{CTRL_C}{CTRL_D}"));
        let seen = done(terminal.run(&world, &[]));
        assert!(!seen.text().contains(told), "{}", seen.text());
    }
}

#[test]
fn an_image_that_is_pasted_while_the_agent_works_is_sent_with_the_message() {
    let replies = [streamed_call("", "sleep 4"), streamed("Seen.", "stop")];
    let server = Server::start(replies);
    let world = with_image(&server);
    let path = world.path("a b.png").display().to_string();
    let paste = pasted(&format!("'{path}'"));
    let terminal = Terminal::new(80)
        .typing("/help for help", "Go")
        .pressing("bash sleep 4", &paste)
        .pressing("[image #1]", "what is it?\r")
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let last =
        server.heard().pop().unwrap().1["messages"].as_array().unwrap().last().cloned().unwrap();
    let expect = json!([{"type": "text", "text": "[image #1] what is it?"}, image()]);
    assert_eq!(last["content"], expect, "{}", seen.text());
}

#[test]
fn background_commands_are_listed_followed_and_ended_while_the_agent_works() {
    let start = json!({"command": "echo begun; sleep 1000"});
    let replies = [
        streamed_tool("", "bash_start", &start),
        streamed_call("", "sleep 4"),
        streamed("Done.", "stop"),
    ];
    let server = Server::start(replies);
    let terminal = Terminal::new(80)
        .typing("/help for help", "/tasks")
        .typing("no background tasks", "Go")
        .pressing("bash sleep 4", "/tasks\r")
        .pressing("running", "/tasks 1\r")
        .pressing("begun", "/tasks stop 1\r")
        .pressing("task 1 is being stopped", "/tasks 2\r")
        .pressing("unknown background task 2", "/tasks\r")
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    let told = [
        "begun",
        "task 1 is being stopped",
        "unknown background task 2; list the tasks with /tasks",
    ];
    shown_once(&seen, &told);
}

#[test]
fn a_background_command_lives_on_in_the_next_turns_and_ends_with_the_chat() {
    let line = "exec 9>lock; flock 9; echo begun; until [ -e go ]; do sleep 0.1; done; echo heard; sleep 1000";
    let read = || streamed_tool("", "bash_read", &json!({"id": "1", "wait_seconds": 60}));
    let replies = [
        streamed_tool("", "bash_start", &json!({"command": line})),
        read(),
        streamed("Started.", "stop"),
        streamed_tool("", "write_file", &json!({"path": "go", "content": "x"})),
        read(),
        streamed("Read.", "stop"),
    ];
    let server = Server::start(replies);
    let world = chatting(&server);
    let terminal = Terminal::new(80)
        .typing("/help for help", "Start it")
        .typing("Started.", "/tasks")
        .typing("running", "Use it")
        .typing("Read.", "/tasks 1")
        .typing("heard", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let requests = server.heard();
    assert_eq!(requests.len(), 6, "{}", seen.text());
    let last = requests[5].1["messages"].to_string();
    assert!(last.contains("heard\\n\\n[command 1 is still running]"), "{last}");
    // The lock is free, so the command has ended.
    let lock = std::fs::File::open(world.path("project/lock")).unwrap();
    lock.try_lock().unwrap();
}

#[test]
fn a_configuration_switches_background_commands_off() {
    let names = |config: &str| {
        let server = Server::start([streamed("Done.", "stop")]);
        let world = World::new().file(".config/loopwright/config.toml", config);
        let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."];
        assert_eq!(world.run(&line).status, 0);
        let tools = server.request()["tools"].to_string();
        ["bash\"", "bash_start\""].map(|name| tools.contains(name))
    };
    let denied = "[capabilities.use_coding_tools]\nbackground = \"denied\"\n";
    assert_eq!([names(""), names(denied)], [[true, true], [true, false]]);
}
