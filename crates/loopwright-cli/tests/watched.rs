//! What people see who watch the program at a terminal.

use serde_json::json;

use crate::server::{Reply, Server, said, streamed, streamed_call, streamed_tool};
use crate::terminal::{Seen, Terminal};
use crate::world::{World, lonely, redact};

const MARKDOWN: &str =
    "# Title\n\nSome **bold** `code` and a list:\n\n- one\n- two\n\n```rust\nlet a = 1;\n```\n";

/// Runs at a terminal, against a provider that gives these replies.
fn watch(world: World, columns: u16, replies: Vec<Reply>, options: &[&str]) -> Seen {
    let server = Server::start(replies);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let world = if world.has_env("TERM") { world } else { world.env("TERM", "xterm-256color") };
    Terminal::new(columns).run(&world, &[&model, options, &["What is here?"]].concat())
}

fn markdown(world: World, options: &[&str]) -> Seen {
    watch(world, 80, vec![streamed(MARKDOWN, "stop")], options)
}

#[test]
fn markdown_is_shown_as_what_it_means() {
    let seen = markdown(World::new(), &["--no-session"]);
    assert_eq!(seen.status, 0, "{}", seen.text());
    assert_eq!(
        redact(&seen.text()),
        "Title\n\nSome bold code and a list:\n\n• one\n• two\n\n  let a = 1;\n\n1 step · 50 tokens in, 10 out · T\n"
    );
    assert!(seen.written.contains("\u{1b}[1mbold\u{1b}[0m"), "{}", seen.written);
    assert!(seen.written.contains("\u{1b}[35mlet\u{1b}[0m"), "{}", seen.written);
}

#[test]
fn without_colours_the_answer_is_printed_as_the_model_wrote_it() {
    let plain = |world: World, options: &[&str]| {
        let seen = markdown(world, &[&["-q"], options].concat());
        assert_eq!(seen.text(), MARKDOWN.trim_end(), "{options:?}");
        assert!(!seen.written.contains('\u{1b}'), "{}", seen.written);
    };
    plain(World::new(), &["--color", "never"]);
    plain(World::new().env("NO_COLOR", "1"), &[]);
    plain(World::new().env("CLICOLOR", "0"), &[]);
    plain(World::new().env("TERM", "dumb"), &[]);
}

#[test]
fn output_fits_the_width_of_the_terminal() {
    let long = "word ".repeat(60);
    for columns in [40, 80, 200] {
        let seen = watch(World::new(), columns, vec![streamed(&long, "stop")], &["-q"]);
        let widest = seen.lines.iter().map(|it| it.chars().count()).max().unwrap();
        let expect = match columns {
            40 => 39,
            80 => 79,
            _ => 99,
        };
        assert_eq!(widest, expect, "{}", seen.text());
    }
}

#[test]
fn a_long_tool_shows_its_time_and_leaves_one_line() {
    let replies = vec![streamed_call("", "sleep 3"), streamed("Done.", "stop")];
    let seen = watch(World::new(), 80, replies, &["--no-session"]);
    let is_told = |seconds| seen.written.contains(&format!("bash sleep 3 · {seconds} s"));
    assert!(is_told(1) || is_told(2), "{}", seen.written);
    assert_eq!(
        redact(&seen.text()),
        "  ✓ bash sleep 3 · T\n\nDone.\n\n2 steps · 100 tokens in, 20 out · T\n"
    );
}

#[test]
fn an_edit_is_shown_as_a_diff() {
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "2"});
    let replies = vec![streamed_tool("", "edit_file", &edit), streamed("Done.", "stop")];
    let seen = watch(World::new(), 80, replies, &["--no-session"]);
    assert_eq!(
        redact(&seen.text()),
        "  ✓ edit_file a.txt · T\n    1   one\n    2 - two\n    2 + 2\n\nDone.\n\n2 steps · 100 tokens in, 20 out · T\n"
    );
    assert!(seen.written.contains("\u{1b}[31m- two\u{1b}[0m"), "{}", seen.written);
}

#[test]
fn the_name_alone_opens_a_chat_and_says_what_to_do_where_there_is_no_model() {
    let seen = Terminal::new(80).run(&lonely().env("TERM", "xterm"), &[]);
    let text = seen.text();
    assert_eq!(seen.status, 4, "{text}");
    for said in ["No model is available", "OPENAI_API_KEY", "--base-url", "loopwright demo"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn the_name_alone_opens_a_chat() {
    let server = Server::start([streamed("Hello **there**.", "stop")]);
    let world = World::at_terminal()
        .env("LOOPWRIGHT_MODEL", "openai-compatible/test")
        .env("LOOPWRIGHT_BASE_URL", &server.url);
    let terminal = Terminal::new(80).typing("/help for help", "Hi").typing("tokens in", "/quit");
    let seen = terminal.run(&world, &[]);
    let text = seen.text();
    assert_eq!(seen.status, 0, "{text}");
    assert!(text.contains("Hello there.\n\n1 step · 50 tokens in, 10 out · "), "{text}");
    assert!(text.contains("resume with: loopwright chat --resume "), "{text}");
}

/// A world in which the name alone opens a chat with a provider.
fn chatting(server: &Server) -> World {
    World::at_terminal()
        .env("LOOPWRIGHT_MODEL", "openai-compatible/test")
        .env("LOOPWRIGHT_BASE_URL", &server.url)
}

#[test]
fn a_line_typed_while_the_agent_works_is_part_of_its_next_request() {
    let replies =
        [streamed_call("", "sleep 2"), streamed("Blue.", "stop"), streamed("Red.", "stop")];
    let server = Server::start(replies);
    let terminal = Terminal::new(80)
        .typing("/help for help", "Paint it")
        .pressing("bash sleep 2", "in blu")
        .pressing("\u{203a} in blu", "e\nand the")
        .typing("tokens in", " door")
        .typing("tokens in", "/quit");
    let seen = terminal.run(&chatting(&server), &[]);
    let text = seen.text();
    assert!(text.contains("\u{203a} in blue\n"), "{text}");
    drop(server.request());
    assert_eq!(said(&server.request()), ["Paint it", "in blue"]);
    // What was begun waits at the prompt.
    assert!(text.contains("> and the door"), "{text}");
}

#[test]
fn escape_stops_the_agent_and_the_chat_goes_on() {
    let server = Server::start([streamed_call("", "sleep 60"), streamed("Again.", "stop")]);
    let terminal = Terminal::new(80)
        .typing("/help for help", "Wait")
        .pressing("bash sleep 60", "\u{1b}")
        .typing("interrupted", "Go on")
        .typing("Again.", "/quit");
    let seen = terminal.run(&chatting(&server), &[]);
    let text = seen.text();
    assert_eq!(seen.status, 0, "{text}");
    assert!(text.contains("interrupted"), "{text}");
    assert!(text.contains("Again."), "{text}");
}
