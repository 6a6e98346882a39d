//! What the user typed of a message. The program adds outputs of commands, texts of skills and commands, and files.

use loopwright_core::messages::{Message, Part};

use crate::mentions::without_files;
use crate::render::fence;

/// The tags around a command of the user, before the text that it stands for.
const COMMAND: [&str; 2] = ["<user_command>", "</user_command>"];

/// The text before and behind a command whose output follows.
const RAN: [&str; 2] = ["I ran `", "`, which printed:\n"];

/// What follows a message in mode `plan`.
const PLAN: &str = "\n\n[Mode plan: change nothing for this message. Read what you need, and answer with a plan. When it is time to carry out the plan, the user will change the mode.]";

/// Tells an agent with a message that the mode is `plan`.
pub(crate) fn planning(message: Message) -> Message {
    let mut parts = message.parts().to_vec();
    // One text stays one text.
    let text = parts.last().and_then(Part::as_text).map(|text| format!("{text}{PLAN}"));
    if text.is_some() {
        parts.pop();
    }
    parts.push(Part::text(text.unwrap_or_else(|| PLAN.to_owned())));
    message.with_parts(parts)
}

/// A user message, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypedText<'a> {
    /// The outputs of the user's commands before it; empty if there are none.
    pub(crate) outputs: &'a str,
    /// The line or the text that the user typed.
    pub(crate) typed: &'a str,
}

/// Returns the text that tells an agent which command the user typed. The text that the command stands for follows.
pub(crate) fn typed_command(line: &str) -> String {
    let [start, end] = COMMAND;
    format!("{start}{line}{end}")
}

/// Returns the text that tells an agent what a command of the user printed.
pub(crate) fn ran(command: &str, printed: &str) -> String {
    let [before, behind] = RAN;
    let fence = fence(printed);
    format!("{before}{command}{behind}{fence}\n{printed}\n{fence}")
}

/// Takes a user message apart.
pub(crate) fn typed_text(message: &str) -> TypedText<'_> {
    let message = message.strip_suffix(PLAN).unwrap_or(message);
    let mut rest = message;
    while let Some(next) = without_output(rest) {
        rest = next;
    }
    let outputs = message[..message.len() - rest.len()].trim_end();
    let [start, end] = COMMAND;
    let command = rest.strip_prefix(start).and_then(|it| it.split_once(end));
    TypedText { outputs, typed: command.map_or_else(|| without_files(rest), |(line, _)| line) }
}

/// Returns `true` if a user message stands for a command that the user typed.
pub(crate) fn is_command(message: &str) -> bool {
    message.contains(COMMAND[0]) && typed_text(message).typed.starts_with('/')
}

/// Returns the text behind an output of a command, if it begins with one.
fn without_output(text: &str) -> Option<&str> {
    let [before, behind] = RAN;
    let (_, printed) = text.strip_prefix(before)?.split_once(behind)?;
    let (fence, _) = printed.split_once('\n')?;
    let is_fence = fence.len() > 2 && fence.bytes().all(|it| it == b'`');
    let end = is_fence.then(|| format!("\n{fence}\n\n"))?;
    printed[fence.len()..].split_once(&end).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, outputs: &str, typed: &str) {
        assert_eq!(typed_text(message), TypedText { outputs, typed }, "{message}");
    }

    #[test]
    fn what_the_program_added_is_not_what_the_user_typed() {
        check("hello", "", "hello");
        check("see @a\n\n<file path=\"a\">\nb\n</file>", "", "see @a");
        let command = format!("{}\n\n<skill_content>", typed_command("/review the parser"));
        check(&command, "", "/review the parser");
        let outputs = [ran("ls", "a\n\nb"), ran("cat a", "```\n\nx\n```\n\ny"), ran("true", "")];
        let outputs = outputs.join("\n\n");
        check(&format!("{outputs}\n\n{command}"), &outputs, "/review the parser");
        check(&format!("{outputs}\n\nhello"), &outputs, "hello");
    }

    #[test]
    fn a_text_that_only_looks_like_an_output_was_typed() {
        for text in ["I ran `ls`", "I ran `ls`, which printed:\nnothing", "<user_command>/a"] {
            check(text, "", text);
        }
    }

    #[test]
    fn an_output_is_fenced_with_more_backticks_than_it_has() {
        assert_eq!(ran("ls", "a"), "I ran `ls`, which printed:\n```\na\n```");
        assert_eq!(ran("ls", "````"), "I ran `ls`, which printed:\n`````\n````\n`````");
    }
}
