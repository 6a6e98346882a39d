//! What is typed in a chat while the agent works, and how the chat looks.

use std::time::Duration;

use serde_json::json;

use crate::prompt_line::{chatting, done, said};
use crate::server::{Reply, Server, delta, last, streamed, streamed_call};
use crate::terminal::{Seen, Terminal, pasted};
use crate::world::redact;

const CTRL_C: &str = "\u{3}";
const CTRL_O: &str = "\u{f}";
const ESC: &str = "\u{1b}";

#[test]
fn commands_that_are_typed_while_the_agent_works_are_carried_out_and_files_are_attached() {
    let replies = [streamed_call("", "sleep 5"), streamed("Done.", "stop")];
    let more = ["More.", "Greeted."].map(|it| streamed(it, "stop"));
    let server = Server::start(replies.into_iter().chain(more));
    let world = chatting(&server).file("project/.claude/commands/greet.md", "Greet $ARGUMENTS.\n");
    let terminal = Terminal::new(80)
        .typing("/help for help", "Go")
        .pressing("bash sleep 5", "/cost\r")
        .pressing("price unknown", "!echo from the shell\r")
        .pressing("runs after this turn", "/nonsense\r")
        .pressing("unknown command /nonsense", "/greet me\r")
        .pressing("› /greet me · runs after this turn", "see @a.txt\r")
        .pressing("attached: a.txt", "/Users is a folder\r")
        .typing("tokens in", "")
        .typing("", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let requests = server.heard();
    let file = "see @a.txt\n\n<file path=\"a.txt\">\none\ntwo\n</file>";
    assert_eq!(said(&requests[1].1), ["Go", file, "/Users is a folder"], "{}", seen.text());
    let greeting = said(&requests[2].1).pop().unwrap();
    assert!(greeting.contains("from the shell"), "{greeting}");
    assert!(greeting.contains("Greet me."), "{greeting}");
    assert_eq!(requests.len(), 3, "{}", seen.text());
}

#[test]
fn ctrl_c_on_two_texts_in_a_row_does_not_end_the_chat() {
    let server = Server::start([]);
    let terminal = Terminal::new(80)
        .editing("/help for help", "abc")
        .pressing("abc", CTRL_C)
        .editing("", "def")
        .pressing("def", CTRL_C)
        .typing("", "/cost")
        .typing("no messages yet", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    assert!(seen.text().contains("no messages yet"), "{}", seen.text());
    assert!(!seen.text().contains("press Ctrl-C again"), "{}", seen.text());
}

#[test]
fn a_long_draft_is_one_line_at_the_prompt_wherever_it_comes_from() {
    let replies = [streamed("One.", "stop"), streamed_call("", "sleep 2")];
    let more = ["Two.", "Three."].map(|it| streamed(it, "stop"));
    let server = Server::start(replies.into_iter().chain(more));
    let paste = pasted(&"line\r".repeat(300));
    let terminal = Terminal::new(80)
        .editing("/help for help", &format!("{paste}\r"))
        .typing("tokens in", "/turns")
        .typing("to take back", "1")
        .typing("rewound to", "")
        .pressing("bash sleep 2", &paste)
        .typing("tokens in", "")
        .typing("tokens in", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    let is_opened = |it: &String| it.trim_start_matches('>').trim() == "line";
    assert!(!seen.lines.iter().any(is_opened), "{}", seen.text());
    let requests = server.heard();
    let long = vec!["line"; 300].join("\n");
    assert_eq!(said(&requests[1].1), [long.as_str()], "{}", seen.text());
    assert_eq!(said(&requests[3].1), [long.as_str(); 2], "{}", seen.text());
}

#[test]
fn a_pasted_text_in_the_history_is_sent_by_another_chat() {
    let server = Server::start(["One.", "Two."].map(|it| streamed(it, "stop")));
    let world = chatting(&server);
    let paste = format!("See {} now\r", pasted(&"line\r".repeat(300)));
    let terminal = Terminal::new(80).editing("/help for help", &paste);
    done(terminal.typing("tokens in", "/quit").run(&world, &[]));
    let up = "\u{1b}[A";
    // The last line is `/quit`.
    let terminal = Terminal::new(80).editing("/help for help", &format!("{up}{up}\r"));
    let seen = done(terminal.typing("tokens in", "/quit").run(&world, &[]));
    assert!(seen.text().contains("> [pasted 301 lines #1]"), "{}", seen.text());
    let requests = server.heard();
    assert_eq!(said(&requests[0].1), said(&requests[1].1));
}

#[test]
fn a_resumed_chat_shows_the_last_messages_and_counts_what_was_used() {
    let server = Server::start([streamed("Hello there.", "stop")]);
    let world = chatting(&server);
    let terminal = Terminal::new(100).typing("/help for help", "What is it?");
    done(terminal.typing("tokens in", "/quit").run(&world, &[]));
    let terminal = Terminal::new(100).typing("/help for help", "/quit");
    let seen = done(terminal.run(&world, &["chat", "--continue"]));
    assert!(seen.text().contains("> What is it?\nHello there.\n"), "{}", seen.text());
    assert!(seen.written.contains("50 in, 10 out"), "{}", seen.written);
}

/// Returns the sequences that control the terminal, apart from styles.
fn controls(seen: &Seen) -> Vec<String> {
    let sequences = seen.written.split('\u{1b}').skip(1).map(|it| {
        let end = it.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(it.len() - 1);
        it[..=end].to_owned()
    });
    sequences.filter(|it| !it.ends_with('m')).collect()
}

#[test]
fn plain_output_moves_nothing() {
    let plain = |variable: (&str, &str), config: &str, line: &[&str]| {
        let server =
            Server::start([streamed_call("I look.", "sleep 1"), streamed("Done.", "stop")]);
        let world = chatting(&server)
            .file(".config/loopwright/config.toml", config)
            .env(variable.0, variable.1);
        let terminal = Terminal::new(80).pressing("> ", "Hi\r").pressing("tokens in", "/quit\r");
        let seen = done(terminal.run(&world, line));
        assert_eq!(controls(&seen), [""; 0], "{:?}", seen.written);
        assert!(!seen.written.contains("mode auto · project"), "{}", seen.written);
        for shown in ["> Hi", "I look.", "✓ bash sleep 1", "Done."] {
            assert!(seen.text().contains(shown), "{shown}: {}", seen.text());
        }
    };
    plain(("A", "B"), "", &["chat", "--plain"]);
    plain(("A", "B"), "[chat]\nplain = true\n", &["chat"]);
    plain(("TERM", "dumb"), "", &["chat"]);
}

#[test]
fn what_is_typed_has_no_colour_and_nothing_has_if_the_user_wants_none() {
    let styles = |variable: (&str, &str), line: &[&str]| {
        let server = Server::start([streamed_call("", "sleep 1"), streamed("Done.", "stop")]);
        let world = chatting(&server).env(variable.0, variable.1);
        let terminal = Terminal::new(80).typing("/help for help", "Hi");
        let seen = done(terminal.typing("tokens in", "/quit").run(&world, line));
        let styles = seen.written.split("\u{1b}[").skip(1).filter_map(|it| {
            let (codes, _) = it.split_once('m')?;
            let is_style = codes.bytes().all(|it| it.is_ascii_digit() || it == b';');
            // A reset is no style.
            (is_style && codes != "0").then(|| codes.to_owned())
        });
        styles.collect::<Vec<_>>()
    };
    let usual = styles(("A", "B"), &["chat"]);
    assert!(!usual.is_empty() && !usual.iter().any(|it| it == "37"), "{usual:?}");
    assert_eq!(styles(("NO_COLOR", "1"), &["chat"]), [""; 0]);
    assert_eq!(styles(("A", "B"), &["chat", "--color", "never"]), [""; 0]);
}

#[test]
fn a_command_that_runs_shows_what_it_prints() {
    let command = "echo $((1000003 * 7)); sleep 2";
    let server = Server::start([streamed_call("", command), streamed("Done.", "stop")]);
    let terminal = Terminal::new(80).typing("/help for help", "Go");
    let terminal = terminal.pressing("7000021", "a draft").editing("tokens in", CTRL_C);
    let seen = done(terminal.typing("", "/quit").run(&chatting(&server), &[]));
    // Nothing of it is left when the command has ended.
    assert!(!seen.text().contains("7000021"), "{}", seen.text());
}

#[test]
fn reasoning_is_one_line_until_it_is_opened() {
    let thoughts =
        (0..15).map(|number| delta(json!({"reasoning_content": format!("why{number} ")})));
    let answer = [delta(json!({"content": "Because."})), last("stop")];
    let pieces = thoughts.chain(answer).collect();
    let server = Server::start([Reply::Slow(pieces, Duration::from_millis(100))]);
    let terminal = Terminal::new(80)
        .typing("/help for help", "Why?")
        .editing("tokens in", CTRL_O)
        .typing("why14", "/quit");
    let seen = done(terminal.run(&chatting(&server), &[]));
    let (before, opened) =
        seen.text().split_once("Because.").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!(before.contains("\n  thought for "), "{}", seen.text());
    assert!(!before.contains("why"), "{}", seen.text());
    assert!(opened.contains("why0 why1 "), "{}", seen.text());
}

#[test]
fn a_command_that_failed_shows_the_last_lines_that_it_printed() {
    let command = "seq 9; echo bad >&2; exit 3";
    let server = Server::start([streamed_call("", command), streamed("Done.", "stop")]);
    let done = chatting(&server).run(&["run", "Go"]);
    let last = "· exit 3 · T\n    8\n    9\n    bad\n";
    assert!(redact(&done.stderr).contains(last), "{}", done.stderr);
}

#[test]
fn changes_of_files_are_undone_while_the_conversation_stays() {
    let replies = [streamed_call("", "echo x > b.txt"), streamed("Done.", "stop")];
    let server = Server::start(replies.into_iter().chain([streamed("Still here.", "stop")]));
    let world = chatting(&server);
    let terminal = Terminal::new(100)
        .typing("/help for help", "Write it")
        .typing("tokens in", "/turns")
        .typing("to take back", "1")
        .typing("or f to undo only the file changes", "f")
        .typing("the conversation is unchanged", "And?")
        .typing("tokens in", "/quit");
    done(terminal.run(&world, &[]));
    assert!(!world.path("project/b.txt").exists());
    assert_eq!(said(&server.heard()[2].1), ["Write it", "And?"]);
}

#[test]
fn sessions_that_do_not_fit_are_listed_when_the_user_wants_them() {
    let server = Server::start(["Hello."; 23].map(|it| streamed(it, "stop")));
    let mut terminal = Terminal::new(80).typing("/help for help", "Hi");
    for _ in 1..23 {
        terminal = terminal.typing("tokens in", "/clear").typing("new session", "Hi");
    }
    let terminal = terminal
        .typing("tokens in", "/resume")
        // Only what is listed can be chosen.
        .typing("… and 3 more; type + to list them", "21")
        .typing("type a number up to 20", "+")
        .typing(" 23  ", "")
        .typing("still in the same session", "/quit");
    done(terminal.run(&chatting(&server), &[]));
}

#[test]
fn servers_of_a_project_that_is_not_trusted_are_listed_as_not_used() {
    let server = Server::start([]);
    let file = r#"{"mcpServers": {"shell": {"command": "sh"}}}"#;
    let done = chatting(&server).file("project/.mcp.json", file).run_with(&["chat"], "/mcp\n");
    let told =
        "shell: not used, because this project is not trusted; review it with `loopwright trust`\n";
    assert!(done.stderr.contains(told), "{}", done.stderr);
}

#[test]
fn escape_stops_the_agent_while_a_line_waits_for_a_server() {
    let server = Server::start([streamed_call("", "sleep 60"), streamed("Done.", "stop")]);
    // The first resource that is read never comes.
    let answers = r#"*'"resources/read"'*) if [ -z "$was_read" ]; then was_read=1; continue; fi;"#;
    let program = crate::mcp::SERVER.replace(r#"*'"resources/read"'*)"#, answers);
    let world = chatting(&server).file("project/server.sh", &program);
    assert_eq!(world.run(&["mcp", "add", "shell", "sh", "server.sh"]).status, 0);
    let terminal = Terminal::new(80)
        .typing("/help for help", "Go")
        .pressing("bash sleep 60", "See @shell:note:///a\r")
        .pressing("", ESC)
        .typing("Done.", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let requests = server.heard();
    assert_eq!(requests.len(), 2, "{}", seen.text());
    // The line is a message of its own then.
    let last = said(&requests[1].1).pop().unwrap();
    assert!(last.contains("<resource server=\"shell\" uri=\"note:///a\">"), "{last}");
}
