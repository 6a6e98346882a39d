//! What a line means.

use super::rewind::Rewind;

/// What a line means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatCommand {
    /// Nothing at all.
    Nothing,
    /// Say this.
    Say(String),
    Help,
    Quit,
    Continue,
    Compact,
    Fork,
    /// Show the permission mode, or change it: to the next one, or to one by its name.
    Mode(Option<String>),
    /// Show the servers of the Model Context Protocol.
    Mcp,
    /// Show the permission rules.
    Permissions,
    /// Show the model, or change it.
    Model(Option<String>),
    /// Go back to the end of a step, or to before what was said last.
    Rewind(Rewind),
    /// A command that does not exist, or not like this.
    Unknown(String),
}

impl ChatCommand {
    /// Reads a line. One slash followed by a word is a command; a path or anything longer is not.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Nothing;
        }
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let is_command = first
            .strip_prefix('/')
            .is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_lowercase()));
        if !is_command {
            return Self::Say(text.to_owned());
        }
        let rest: Vec<&str> = words.collect();
        match (first, &rest[..]) {
            ("/help", []) => Self::Help,
            ("/quit" | "/exit", []) => Self::Quit,
            ("/continue", []) => Self::Continue,
            ("/compact", []) => Self::Compact,
            ("/fork", []) => Self::Fork,
            ("/mode", []) => Self::Mode(None),
            ("/mode", [name]) => Self::Mode(Some((*name).to_owned())),
            ("/permissions", []) => Self::Permissions,
            ("/mcp", []) => Self::Mcp,
            ("/model", []) => Self::Model(None),
            ("/model", [name]) => Self::Model(Some((*name).to_owned())),
            ("/rewind", rest @ ([] | ["files"])) => {
                Self::Rewind(Rewind { step: None, files: !rest.is_empty() })
            }
            ("/rewind", [step, rest @ ..]) if matches!(rest, [] | ["files"]) => {
                match step.parse() {
                    Ok(step) => Self::Rewind(Rewind { step: Some(step), files: !rest.is_empty() }),
                    Err(_) => Self::Unknown(text.to_owned()),
                }
            }
            _ => Self::Unknown(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_unless_it_is_a_command() {
        let check =
            |text: &str, expect: ChatCommand| assert_eq!(ChatCommand::of(text), expect, "{text}");
        check(" ", ChatCommand::Nothing);
        check(" hi\nthere ", ChatCommand::Say("hi\nthere".to_owned()));
        check("/etc/passwd is what?", ChatCommand::Say("/etc/passwd is what?".to_owned()));
        check("/ is a slash", ChatCommand::Say("/ is a slash".to_owned()));
        check("/quit", ChatCommand::Quit);
        check("/fork ", ChatCommand::Fork);
        check("/continue", ChatCommand::Continue);
        check("/compact", ChatCommand::Compact);
        check("/model", ChatCommand::Model(None));
        check("/model a/b", ChatCommand::Model(Some("a/b".to_owned())));
        let rewind = |step, files| ChatCommand::Rewind(Rewind { step, files });
        check("/rewind", rewind(None, false));
        check("/rewind 3", rewind(Some(3), false));
        check("/rewind files", rewind(None, true));
        check("/rewind 3 files", rewind(Some(3), true));
        for wrong in ["/rewind x", "/rewind files 3", "/rewind 3 x", "/quit now", "/nothing"] {
            check(wrong, ChatCommand::Unknown(wrong.to_owned()));
        }
    }
}
