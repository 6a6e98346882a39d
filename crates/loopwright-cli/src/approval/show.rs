//! What the dialog shows about a waiting call, and the answers that it takes.

use std::time::Duration;

use loopwright_core::{PendingApproval, RequestKind, messages::ToolCall};
use loopwright_permissions::Call;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::{command_of, options, schema_of};
use crate::agent::Setup;
use crate::console;
use crate::form;
use crate::render::{columns, file_diff, sanitize_terminal, single_line};
use crate::session::now;

/// The most lines of a command, a difference or arguments that are shown.
const LINES: usize = 20;

/// The tool with which the agent asks the user.
const ASK_USER: &str = "ask_user";

/// What the answers mean, a line each.
const HELP: [&str; 9] = [
    "1  run the call once",
    "2  run the call, and allow all later calls in this project that match the rules shown",
    "s  run the call, and allow such calls for the rest of this session",
    "3 [REASON]  deny the call; the agent receives the reason. Any other text is treated as a reason",
    "n!, ns!  deny the call and all later calls that match the rules: n! in this project, ns! in this session",
    "q  deny the call, and stop the agent",
    "e COMMAND, e JSON  run this command instead, or make the call with these arguments instead",
    "v  show the whole command, diff or arguments",
    "Shift-Tab, /mode MODE  change the permission mode, and then decide. Ctrl-C postpones the decision",
];

/// Explains the answers.
pub(super) fn explain() {
    for line in HELP {
        console::tell(&format!("  {line}"));
    }
}

/// Returns what an answer to a question must be, if it has options: `answer with 1 or 2 (red, blue)`.
pub(super) fn expected(options: &[&str]) -> Option<String> {
    let names: Vec<String> = options.iter().map(|it| single_line(it, 40)).collect();
    // Where options are numbers themselves, their places do not choose.
    let are_numbers = options.iter().any(|it| it.parse::<f64>().is_ok());
    let choices: Vec<String> = match options.len() {
        0 => return None,
        _ if are_numbers => names.clone(),
        number => (1..=number).map(|it| it.to_string()).collect(),
    };
    let choices = match choices.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} or {last}", first.join(", ")),
        None => return None,
    };
    let names = if are_numbers { String::new() } else { format!(" ({})", names.join(", ")) };
    Some(format!("answer with {choices}{names}"))
}

/// Shows what waits, all of it if that is wanted, and what can be answered.
pub(super) fn show(setup: &Setup, asked: &PendingApproval<'_>, rules: &[String], is_whole: bool) {
    let agents: Vec<&str> = asked.path.iter().map(|it| &*it.agent).collect();
    let of =
        if agents.is_empty() { String::new() } else { format!(" of {}", agents.join(" › ")) };
    let name = sanitize_terminal(&asked.call.name);
    console::tell(&sanitize_terminal(&format!("? {name}{of}: {}", asked.question.text)));
    let lines = preview(setup, asked.call, is_whole);
    let is_cut = !is_whole && lines.iter().any(|it| it.starts_with('…'));
    // The tool `ask_user` has its question and options as arguments.
    for line in lines.iter().filter(|_| *asked.call.name != *ASK_USER) {
        console::tell(&format!("  {line}"));
    }
    if let Some(deadline) = asked.question.deadline {
        let left = humantime::format_duration(Duration::from_secs(deadline.since(now()).as_secs()));
        console::tell(&format!("  denied automatically in {left}"));
    }
    if let RequestKind::External { .. } = asked.kind {
        return console::tell("  type the result as JSON, `/error TEXT`, `/decline`, or `/stop`");
    }
    if let RequestKind::Question { .. } = asked.kind {
        for (number, option) in options(asked).iter().enumerate() {
            console::tell(&format!("  {} {}", number + 1, single_line(option, 200)));
        }
        let fields = schema_of(asked).map(form::describe).filter(|it| it.len() > 1);
        let Some(fields) = fields else {
            return console::tell("  type the answer, `/decline` or `/cancel`");
        };
        for line in fields {
            console::tell(&format!("  {}", single_line(&line, 400)));
        }
        return console::tell(&format!("  {}", form::FILL_IN));
    }
    for row in in_rows(&keys(asked, rules, is_cut), columns()) {
        console::tell(&row);
    }
}

/// Returns the keys that answer whether a call runs, each with its meaning.
fn keys(asked: &PendingApproval<'_>, rules: &[String], is_cut: bool) -> Vec<String> {
    if asked.question.is_recovery() {
        return ["1 run it again", "d mark it as done", "3 skip it", "q stop the run"]
            .map(str::to_owned)
            .into();
    }
    let mut keys = vec!["1 yes".to_owned()];
    if !rules.is_empty() {
        let rules: Vec<_> = rules.iter().map(|rule| single_line(rule, 200)).collect();
        keys.extend([format!("2 always: {}", rules.join(", ")), "s this session".to_owned()]);
    }
    keys.push("3 no [REASON]".to_owned());
    if !rules.is_empty() {
        keys.extend(["n! never", "ns! not in this session"].map(str::to_owned));
    }
    keys.push("q no, and stop".to_owned());
    let edits = if command_of(asked.call).is_some() { "e COMMAND" } else { "e JSON" };
    keys.push(edits.to_owned());
    keys.extend(is_cut.then(|| "v view all".to_owned()));
    keys.push("? help".to_owned());
    keys
}

/// Lays out phrases in rows of a width. A row breaks between phrases, and a phrase that is longer has its own row.
fn in_rows(phrases: &[String], width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for phrase in phrases {
        match rows.last_mut() {
            Some(row) if row.width() + 2 + phrase.width() <= width => row.extend(["  ", phrase]),
            _ => rows.push(format!("  {phrase}")),
        }
    }
    rows
}

/// Returns the lines that show what a call will do: the command, the difference to a file, or the arguments.
fn preview(setup: &Setup, call: &ToolCall, is_whole: bool) -> Vec<String> {
    let most = if is_whole { usize::MAX } else { LINES };
    let arguments = call.parse_arguments().unwrap_or(Value::Null);
    if let Some(command) = command_of(call) {
        return [shortened(&command, most), needs(&call.name, &arguments)].concat();
    }
    file_diff(&setup.workdir, &call.name, &arguments, columns(), most).unwrap_or_else(|| {
        shortened(&serde_json::to_string_pretty(&arguments).unwrap_or_default(), most)
    })
}

/// Returns the lines that show what a command asks for beyond the sandbox, and what the model says about it.
fn needs(tool: &str, arguments: &Value) -> Vec<String> {
    let asked = Call::new(tool, arguments);
    let mut lines: Vec<String> = asked
        .needs()
        .iter()
        .map(|need| format!("+ {}", single_line(&need.to_string(), 300)))
        .collect();
    let why = arguments.get("why").and_then(Value::as_str).filter(|_| !lines.is_empty());
    lines.extend(why.map(|why| format!("  because: {}", single_line(why, 300))));
    lines
}

fn shortened(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().take(most).map(sanitize_terminal).collect();
    let rest = text.lines().count().saturating_sub(most);
    if rest > 0 {
        lines.push(format!("… {rest} more lines"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_break_between_phrases() {
        let phrases = ["1 yes", "2 always: Bash(cargo test *)", "3 no"].map(str::to_owned);
        let all = "  1 yes  2 always: Bash(cargo test *)  3 no";
        assert_eq!(in_rows(&phrases, all.len()), [all]);
        let rows = ["  1 yes  2 always: Bash(cargo test *)", "  3 no"];
        assert_eq!(in_rows(&phrases, all.len() - 1), rows);
        let rows = ["  1 yes", "  2 always: Bash(cargo test *)", "  3 no"];
        assert_eq!(in_rows(&phrases, 20), rows);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_told_what_does() {
        assert_eq!(expected(&["red", "blue"]).unwrap(), "answer with 1 or 2 (red, blue)");
        assert_eq!(expected(&["a", "b", "c"]).unwrap(), "answer with 1, 2 or 3 (a, b, c)");
        assert_eq!(expected(&["yes"]).unwrap(), "answer with 1 (yes)");
        assert_eq!(expected(&["10", "20"]).unwrap(), "answer with 10 or 20");
        assert_eq!(expected(&[]), None);
    }
}
