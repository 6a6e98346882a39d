//! What stands at the prompt of a chat: the status line, folded pastes, and the messages to go back to.

use std::fs;

use serde_json::Value;

use crate::server::{Server, streamed, streamed_call};
use crate::terminal::{Seen, Terminal, pasted};
use crate::world::World;

/// A world in which the name alone opens a chat with a provider.
pub(crate) fn chatting(server: &Server) -> World {
    let world = World::at_terminal()
        .env("LOOPWRIGHT_MODEL", "openai-compatible/test")
        .env("LOOPWRIGHT_BASE_URL", &server.url);
    fs::write(world.path("project/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    world
}

/// What users said in a request.
pub(crate) fn said(request: &Value) -> Vec<String> {
    let said = crate::server::said(request).into_iter();
    said.map(|it| it.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn done(seen: Seen) -> Seen {
    assert_eq!(seen.status, 0, "{}", seen.text());
    seen
}

#[test]
fn the_status_line_stands_above_the_prompt_only_and_counts() {
    let server = Server::start([streamed("Hello.", "stop")]);
    let config = "[models.\"openai-compatible/test\"]\ncontext_window = 1000\n";
    let world = chatting(&server).file(".config/loopwright/config.toml", config);
    let terminal = Terminal::new(100).typing("/help for help", "Hi").typing("tokens in", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let line = "openai-compatible/test · mode auto · project (main)";
    assert!(seen.written.contains(line), "{}", seen.written);
    let line = format!("{line} · 6% of context · 50 in, 10 out");
    assert!(seen.written.contains(&line), "{}", seen.written);
    // A line that was sent leaves nothing of it in the history of the terminal.
    assert!(!seen.text().contains("(main)"), "{}", seen.text());
}

#[test]
fn a_message_of_the_command_line_is_sent_once_in_the_session_that_was_chosen() {
    let server = Server::start(["One.", "Two.", "Three."].map(|it| streamed(it, "stop")));
    let agent = "---\nname: greeter\ndescription: Greets.\ninitialPrompt: Look around first.\n---\nGreet.\n";
    let world = chatting(&server).file(".claude/agents/greeter.md", agent);
    let ran = world.run(&["run", "--agent", "greeter"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let line = ["chat", "--agent", "greeter", "And then?", "--resume"];
    let asked = "number of the session, or Enter to stay here:";
    let terminal = || Terminal::new(100).typing(asked, "1").typing("Two.", "/quit");
    done(terminal().run(&world, &line));
    // The first message of a new session has both.
    done(Terminal::new(100).typing(asked, "").typing("Three.", "/quit").run(&world, &line));
    let first = "Look around first.";
    let told = [(); 3].map(|()| said(&server.request()));
    let both = format!("{first}\n\nAnd then?");
    assert_eq!(
        told,
        [vec![first.to_owned()], vec![first.to_owned(), "And then?".into()], vec![both]]
    );
}

#[test]
fn a_command_of_the_user_writes_the_status_line() {
    let server = Server::start([]);
    let script = "#!/bin/sh\nread -r line; echo \"in $(echo \"$line\" | grep -o '\"cwd\":\"[^\"]*\"') now\"; echo more\n";
    let world = chatting(&server)
        .file(".config/loopwright/config.toml", "[chat]\nstatus_line = \"sh ~/bin/status.sh\"\n")
        .file("bin/status.sh", script);
    let seen = done(Terminal::new(100).typing("/help for help", "/quit").run(&world, &[]));
    assert!(seen.written.contains("in \"cwd\":\""), "{}", seen.written);
    assert!(!seen.written.contains("more"), "{}", seen.written);
    let off = world.file(".config/loopwright/config.toml", "[chat]\nstatus_line = \"off\"\n");
    let seen = done(Terminal::new(100).typing("/help for help", "/quit").run(&off, &[]));
    assert!(!seen.written.contains("project (main)"), "{}", seen.written);
}

#[test]
fn a_project_does_not_write_the_status_line() {
    let server = Server::start([]);
    let world = chatting(&server).file("project/loopwright.toml", "[chat]\nstatus_line = \"id\"\n");
    let done = world.run(&["chat"]);
    assert_eq!(done.status, 3, "{}", done.stderr);
    assert!(done.stderr.contains("run its commands while a chat is open"), "{}", done.stderr);
}

#[test]
fn a_long_paste_is_one_line_until_it_is_sent() {
    let server = Server::start([streamed("Long.", "stop")]);
    let text = "line\r".repeat(300);
    let paste = format!("See {} now\r", pasted(&text));
    let terminal = Terminal::new(80)
        .typing("/help for help", "")
        .pressing("\u{1b}[?2004h", &paste)
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    assert!(seen.text().contains("> See [pasted 300 lines #1] now"), "{}", seen.text());
    assert_eq!(said(&server.request()), [format!("See {} now", "line\n".repeat(300))]);
}

#[test]
fn a_long_text_without_the_marks_of_a_paste_is_not_drawn_for_each_character() {
    let server = Server::start([streamed("Long.", "stop")]);
    let text = "y".repeat(2_000);
    let terminal = Terminal::new(80)
        .editing("/help for help", &format!("{text}\r"))
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    assert_eq!(said(&server.request()), [text]);
    // The first two hundred characters are drawn one by one.
    let drawn = seen.written.matches("\u{1b}[J").count();
    assert!((200..400).contains(&drawn), "drawn {drawn} times");
}

#[test]
fn a_message_that_is_gone_back_to_waits_at_the_prompt() {
    let replies = ["One.", "Two.", "Three."].map(|it| streamed(it, "stop"));
    let server = Server::start(replies);
    let terminal = Terminal::new(80)
        .typing("/help for help", "first")
        .typing("tokens in", "second")
        .typing("Two.", "/turns")
        .typing("to take back", "2")
        .typing("rewound to the end of step 1", " again")
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    assert!(seen.text().contains("  1  first\n  2  second\n"), "{}", seen.text());
    let requests = server.heard();
    assert_eq!(said(&requests[2].1), ["first", "second again"]);
}

#[test]
fn the_terminal_is_told_that_a_call_waits_unless_the_user_wants_no_notifications() {
    let told = |config: &str| {
        let server = Server::start([streamed_call("", "touch b"), streamed("Done.", "stop")]);
        let world = chatting(&server).file(".config/loopwright/config.toml", config);
        let terminal = Terminal::new(80)
            .typing("/help for help", "Go on")
            .typing("1 yes", "1")
            .typing("tokens in", "/quit");
        let seen = done(terminal.run(&world, &["chat", "--ask", "Bash"]));
        seen.written.contains("\u{1b}]9;Loopwright is waiting for your answer\u{7}")
    };
    assert_eq!([told(""), told("[chat]\nnotifications = false\n")], [true, false]);
}

#[test]
fn the_window_and_the_cost_are_those_of_the_model_that_is_selected() {
    let server = Server::start(["One.", "Two."].map(|it| streamed(it, "stop")));
    let model = |name: &str, window: u32, price: u32| {
        format!(
            "[models.\"openai-compatible/{name}\"]\ncontext_window = {window}\n\
             prices = {{ input = {price}.0, output = {price}.0 }}\n"
        )
    };
    let config = model("test", 1_000, 1_000) + &model("other", 100, 2_000);
    let world = chatting(&server).file(".config/loopwright/config.toml", &config);
    let terminal = Terminal::new(120)
        .typing("/help for help", "Go")
        .typing("10 out · $0.0600", "/model openai-compatible/other")
        .pressing("60% of context", "/context\r")
        .typing("of 100 tokens", "Go on")
        .typing("Two.", "/cost")
        .typing("openai-compatible/other", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let has = |line: &str| seen.lines.iter().any(|it| it.split_whitespace().eq(line.split(' ')));
    for line in [
        "openai-compatible/test 50 in, 10 out, $0.0600",
        "openai-compatible/other 50 in, 10 out, $0.1200",
    ] {
        assert!(has(line), "{line}: {}", seen.text());
    }
}
