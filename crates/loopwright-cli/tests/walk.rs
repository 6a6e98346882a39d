//! Each key and command of a chat, on terminals of several sizes.
//!
//! What a terminal shows in the end is compared with the same chat on a terminal that is so high that nothing is
//! scrolled away: whatever was drawn and moved in between must not be seen.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Reply, Server, delta, last, streamed, streamed_call, streamed_tool};
use crate::terminal::{Seen, Terminal, pasted};
use crate::world::World;

/// The key as terminals send it that tell it apart from the start of a sequence: two of the other kind are read as one if
/// they come together.
const ESC_KEY: &str = "\u{1b}[27u";
const SHIFT_TAB: &str = "\u{1b}[Z";
const ALT_ENTER: &str = "\u{1b}\r";
/// The configuration that shows no status line.
const OFF: &str = "status_line = \"off\"";

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const CTRL_G: &str = "\u{7}";
const CTRL_O: &str = "\u{f}";
const CTRL_R: &str = "\u{12}";

fn chatting(server: &Server, status: &str) -> World {
    let world = World::at_terminal()
        .env("LOOPWRIGHT_MODEL", "openai-compatible/test")
        .env("LOOPWRIGHT_BASE_URL", &server.url)
        .env("EDITOR", "sh -c 'echo written in the editor > \"$0\"'")
        .file("project/.claude/commands/greet.md", "Greet $ARGUMENTS.\n")
        .file(".config/loopwright/config.toml", &format!("[chat]\n{status}\n"));
    fs::write(world.path("project/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    world
}

/// Makes the same of what is not the same each time: times and the names of sessions.
fn settled(line: &str) -> String {
    let is_id = |word: &str| word.len() == 8 && word.bytes().all(|it| it.is_ascii_hexdigit());
    let mut words: Vec<&str> = line.split(' ').collect();
    for at in 0..words.len() {
        if is_id(words[at].trim_end_matches(';')) {
            words[at] = "ID";
        }
        if at > 0 && matches!(words[at], "ms" | "s") {
            (words[at - 1], words[at]) = ("TIME", "ms");
        }
    }
    words.join(" ")
}

/// Everything that can be typed at a prompt.
fn at_the_prompt(columns: u16, rows: u16, status: &str) -> Seen {
    let answers = ["Hello **there**.", "Two.", "Three.", "Long.", "Attached.", "Ran."];
    let more = ["Edited.", "Found.", "Greeted.", "Checked.", "Summary."];
    let replies = answers.into_iter().chain(more).map(|it| streamed(it, "stop"));
    let server = Server::start([streamed_call("I look.", "echo seen")].into_iter().chain(replies));
    let paste = pasted(&"line\r".repeat(300));
    let small = format!("{}\r", pasted("one\rtwo"));
    // What ends the answer to a message.
    let done = "tokens in";
    let terminal = Terminal::new(columns)
        .with_rows(rows)
        .typing("/help for help", "/help")
        .typing("", "Hi")
        .typing(done, "two \\\rlines")
        .editing(done, &format!("three{ALT_ENTER}lines\r"))
        .editing(done, &format!("{paste}\r"))
        .typing(done, "see @a.txt")
        .typing(done, "!echo from the shell")
        .typing("", "what?")
        .editing(done, CTRL_G)
        .pressing("written in the editor", "\r")
        .editing(done, CTRL_R)
        .pressing("() ", "thr")
        .pressing("(thr)", "\r\r")
        .typing(done, "/greet me")
        .editing(done, &small)
        .editing(done, SHIFT_TAB)
        .pressing("mode plan", "/he\t")
        .pressing("/help", CTRL_C)
        .typing("", "/context")
        .typing("", "/cost")
        .typing("", "/mode plan")
        .typing("", "/mode auto")
        .typing("", "/permissions")
        .typing("", "/agents")
        .typing("", "/skills")
        .typing("", "/hooks")
        .typing("", "/tasks")
        .typing("", "/mcp")
        .typing("", "/model")
        .typing("", "/effort low")
        .typing("", "/add-dir")
        .typing("", "/thinking")
        .typing("", "/diff")
        .typing("", "/nonsense")
        .typing("", "")
        .editing("", &[ESC_KEY; 2].concat())
        .typing("to take back", "")
        .typing("nothing was rewound", "/compact")
        .typing("compacted", "/export out.md")
        .typing("", "/fork")
        .typing("", "/rewind")
        .typing("", "/clear")
        .typing("", "/resume there")
        .typing("number of the session", "1")
        .editing("Checked.", CTRL_O)
        .editing("", CTRL_D);
    let seen = terminal.run(&chatting(&server, status), &[]);
    assert_eq!(seen.status, 0, "{}", seen.text());
    seen
}

fn settled_lines(seen: &Seen) -> String {
    seen.lines.iter().map(|it| settled(it) + "\n").collect()
}

/// Runs on a low terminal and on a high one, and compares the lines.
fn compare_with_high_terminal(columns: u16, rows: u16, run: impl Fn(u16, u16) -> Seen) -> Seen {
    let expected = settled_lines(&run(columns, 500));
    let seen = run(columns, rows);
    let lines = settled_lines(&seen);
    let differs = lines.lines().zip(expected.lines()).find(|(it, expected)| it != expected);
    assert_eq!(differs, None, "{lines}");
    assert_eq!(lines.len(), expected.len(), "{lines}");
    seen
}

#[test]
fn each_key_and_command_leaves_the_same_lines_on_a_low_terminal_as_on_a_high_one() {
    for (columns, rows, status) in [(80, 24, ""), (80, 24, OFF), (200, 50, "")] {
        compare_with_high_terminal(columns, rows, |columns, rows| {
            at_the_prompt(columns, rows, status)
        });
    }
}

/// Everything that can be typed when a call waits for approval.
fn at_the_dialog(columns: u16, rows: u16) -> Seen {
    let commands = ["one", "two", "three", "four", "five"].map(|it| format!("touch {it}"));
    let more = ["mkdir six", "rmdir seven", "ln -s a eight", "chmod 600 a.txt"].map(str::to_owned);
    let calls = commands.iter().chain(&more).map(|it| streamed_call("", it));
    let question = json!({"question": "Which colour?", "options": ["red", "blue"]});
    let replies =
        calls.chain([streamed_tool("", "ask_user", &question), streamed("Done.", "stop")]);
    let server = Server::start(replies);
    let terminal = Terminal::new(columns)
        .with_rows(rows)
        .typing("/help for help", "/mode ask")
        .typing("mode ask", "Go")
        .typing("1 yes", "?")
        .typing("", "v")
        .typing("", "")
        .typing("", "/cost")
        .typing("", "/mode nonsense")
        .typing("", "e")
        .typing("", "e touch edited")
        .typing("1 yes", "1")
        .typing("1 yes", "3 not this one")
        .typing("1 yes", "touch another instead")
        .typing("1 yes", "s")
        .typing("1 yes", "n!")
        .typing("1 yes", "2")
        .editing("1 yes", SHIFT_TAB)
        .typing("mode accept-edits", "y")
        .typing("1 yes", "no")
        .typing("Which colour?", "")
        .typing("", "/nonsense")
        .typing("", "2")
        .typing("Done.", "/quit");
    let world = chatting(&server, "").file("project/a.txt", "x");
    let seen = terminal.run(&world, &[]);
    assert_eq!(seen.status, 0, "{}", seen.text());
    let made = ["one", "edited", "two", "three", "four", "five", "six", "eight"];
    let there = made.map(|it| world.path(&format!("project/{it}")).symlink_metadata().is_ok());
    assert_eq!(there, [false, true, true, false, false, true, false, true], "{}", seen.text());
    seen
}

#[test]
fn each_answer_to_a_call_leaves_the_same_lines_on_a_low_terminal_as_on_a_high_one() {
    for (columns, rows) in [(80, 24), (200, 50)] {
        compare_with_high_terminal(columns, rows, at_the_dialog);
    }
}

/// An answer of this many words, each a piece of its own, with a paragraph after each hundred.
fn words(count: usize) -> (Vec<Value>, Vec<String>) {
    let words: Vec<String> = (0..count).map(|it| format!("word{it}")).collect();
    let pieces = (1..).zip(&words).map(|(number, word)| {
        let gap = if number % 100 == 0 { "\n\n" } else { " " };
        delta(json!({"content": format!("{word}{gap}")}))
    });
    (pieces.chain([last("stop")]).collect(), words)
}

/// Returns the words of the answer that are seen.
fn seen_words(seen: &Seen) -> Vec<String> {
    assert_eq!(seen.status, 0, "{}", seen.text());
    let text = seen.text();
    text.split_whitespace().filter(|it| it.starts_with("word")).map(str::to_owned).collect()
}

#[test]
fn a_flood_of_words_is_seen_whole_and_in_order() {
    let (pieces, words) = words(5_000);
    for (columns, rows) in [(80, 24), (200, 50)] {
        let server = Server::start([Reply::Stream(pieces.clone())]);
        let terminal = Terminal::new(columns).with_rows(rows);
        let terminal = terminal.typing("/help for help", "Hi").typing("tokens in", "/quit");
        assert_eq!(seen_words(&terminal.run(&chatting(&server, ""), &[])), words, "{columns}");
    }
}

#[test]
fn keys_pressed_under_a_flood_are_heard_and_no_word_is_lost() {
    let (pieces, words) = words(2_000);
    for (columns, rows) in [(80, 24), (200, 50)] {
        let flood = Reply::Slow(pieces.clone(), Duration::from_millis(1));
        let server = Server::start([flood, streamed("Two.", "stop")]);
        let terminal = Terminal::new(columns)
            .with_rows(rows)
            .typing("/help for help", "Hi")
            .pressing("word100", &format!("second{ALT_ENTER}line\r"))
            .pressing("word400", SHIFT_TAB)
            .pressing("word700", CTRL_O)
            .pressing("word1000", "/mode auto\r")
            .typing("Two.", "/quit");
        let seen = terminal.run(&chatting(&server, ""), &[]);
        assert_eq!(seen_words(&seen), words, "{columns}");
        let count = |line: &str| seen.lines.iter().filter(|it| it.trim() == line).count();
        let expected = ["› second", "› line", "mode plan", "mode auto", "Two."];
        assert_eq!(expected.map(count), [1; 5], "{}", seen.text());
    }
}

#[test]
fn a_slow_answer_is_seen_once_while_the_size_of_the_terminal_changes() {
    let (pieces, words) = words(120);
    let pause = Duration::from_millis(10);
    let server = Server::start([Reply::Slow(pieces, pause), streamed("Again.", "stop")]);
    let terminal = Terminal::new(80)
        .with_rows(24)
        .typing("/help for help", "Hi")
        .resizing("word5", 200, 50)
        .resizing("word30", 120, 6)
        .resizing("word60", 110, 24)
        .typing("tokens in", "And")
        .resizing("Again.", 120, 30)
        .typing("tokens in", "/cost")
        .typing("cost", "/quit");
    let seen = terminal.run(&chatting(&server, ""), &[]);
    assert_eq!(seen_words(&seen), words, "{}", seen.text());
    let count = |line: &str| seen.lines.iter().filter(|it| it.trim_end() == line).count();
    assert_eq!(
        ["> Hi", "> And", "Again.", "> /cost", "> /quit"].map(count),
        [1; 5],
        "{}",
        seen.text()
    );
}
