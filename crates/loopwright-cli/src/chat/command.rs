//! Parsing of a line that the user typed.

use loopwright_sessions::RewindPoint;

use super::rewind::Rewind;
use crate::chat_commands::is_taken;
use crate::model::{Effort, effort_of};
use crate::task_command::TaskCommand;
use crate::user_skill;

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatCommand {
    /// An empty line.
    Nothing,
    /// Send this message.
    Say(String),
    /// Run a command in the sandbox.
    Run(String),
    /// Use the skill with this name, if it exists.
    Use(NamedSkill),
    Help,
    Quit,
    Continue,
    Clear,
    /// Choose another session from those that contain a text.
    Resume(String),
    Compact,
    Fork,
    Diff,
    Context,
    Cost,
    /// Show the last reasoning.
    Thinking,
    /// Choose a message to rewind to. If none is chosen, the text stays in the prompt.
    Turns(String),
    /// Write the conversation to a file.
    Export(Option<String>),
    Init,
    /// Let the agent review changes.
    Review(String),
    Agents,
    Skills,
    /// Show the permission mode, or change it to the next mode or to a named one.
    Mode(Option<String>),
    /// Use another folder, or show those in use.
    AddDir(String),
    /// List, show or stop background tasks.
    Tasks(TaskCommand),
    /// Show the servers of the Model Context Protocol.
    Mcp,
    /// Show the permission rules.
    Permissions,
    /// Review the settings of the project.
    Trust,
    /// Show the hooks.
    Hooks,
    /// Show the model, or change it.
    Model(Option<String>),
    /// Show how much the model reasons, or change it.
    Effort(Option<Effort>),
    /// This is no level of reasoning.
    UnknownEffort(String),
    /// Rewind to the end of a step, or to before the last message.
    Rewind(Rewind),
    /// An unknown command, or invalid arguments.
    Unknown(String),
}

/// A line that may name a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedSkill {
    /// The line as it was typed.
    pub(super) line: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl NamedSkill {
    /// Returns `true` if the line can only be a command. Others may be text, such as `/Users is a folder`.
    pub(super) fn is_command(&self) -> bool {
        self.name.bytes().all(|it| it.is_ascii_lowercase())
    }
}

impl ChatCommand {
    /// Parses a line. A slash followed by a name is a command; a path is not.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Nothing;
        }
        if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|it| !it.is_empty()) {
            return Self::Run(command.to_owned());
        }
        if text == "!" {
            return Self::Unknown(text.to_owned());
        }
        let Some((name, arguments)) = user_skill::named(text) else {
            return Self::Say(text.to_owned());
        };
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let unknown = || Self::Unknown(text.to_owned());
        match (name, &words[..]) {
            ("help", []) => Self::Help,
            ("quit" | "exit", []) => Self::Quit,
            ("continue", []) => Self::Continue,
            ("clear" | "new", []) => Self::Clear,
            ("resume", _) => Self::Resume(arguments.to_owned()),
            ("compact", []) => Self::Compact,
            ("fork", []) => Self::Fork,
            ("diff", []) => Self::Diff,
            ("context", []) => Self::Context,
            ("cost" | "usage", []) => Self::Cost,
            ("thinking", []) => Self::Thinking,
            ("turns", _) => Self::Turns(arguments.to_owned()),
            ("export", _) => Self::Export(given(arguments)),
            ("init", []) => Self::Init,
            ("review", _) => Self::Review(arguments.to_owned()),
            ("agents", []) => Self::Agents,
            ("skills", []) => Self::Skills,
            ("mode", [] | [_]) => Self::Mode(given(arguments)),
            ("add-dir", _) => Self::AddDir(arguments.to_owned()),
            ("tasks" | "bashes", words) => TaskCommand::of(words).map_or_else(unknown, Self::Tasks),
            ("permissions", []) => Self::Permissions,
            ("trust", []) => Self::Trust,
            ("mcp", []) => Self::Mcp,
            ("hooks", []) => Self::Hooks,
            ("model", [] | [_]) => Self::Model(given(arguments)),
            ("effort", []) => Self::Effort(None),
            ("effort", [level]) => match effort_of(level) {
                Some(effort) => Self::Effort(Some(effort)),
                None => Self::UnknownEffort((*level).to_owned()),
            },
            ("rewind", words) => rewind(words).map_or_else(unknown, Self::Rewind),
            (name, _) if is_taken(name) => unknown(),
            (name, _) => Self::Use(NamedSkill {
                line: text.to_owned(),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            }),
        }
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn rewind(words: &[&str]) -> Option<Rewind> {
    let (step, files) = match words {
        [] => (None, false),
        ["files"] => (None, true),
        [step] => (Some(step), false),
        [step, "files"] => (Some(step), true),
        _ => return None,
    };
    let to = match step {
        Some(step) => RewindPoint::Step(step.parse().ok()?),
        None => RewindPoint::LastTurn,
    };
    Some(Rewind { to, files })
}

#[cfg(test)]
mod tests {
    use loopwright_core::messages::ReasoningEffort;

    use super::*;
    use crate::chat_commands::names;

    fn check(text: &str, expect: impl Into<Option<ChatCommand>>) {
        assert_eq!(Some(ChatCommand::of(text)), expect.into(), "{text}");
    }

    fn named(line: &str, name: &str, arguments: &str) -> ChatCommand {
        let [line, name, arguments] = [line, name, arguments].map(str::to_owned);
        ChatCommand::Use(NamedSkill { line, name, arguments })
    }

    #[test]
    fn a_line_is_a_message_unless_it_is_a_command() {
        check(" ", ChatCommand::Nothing);
        for said in ["hi\nthere", "/etc/passwd is what?", "/ is a slash", "//x", "/a.b"] {
            check(said, ChatCommand::Say(said.to_owned()));
        }
        check(" /quit", ChatCommand::Quit);
        check("/fork ", ChatCommand::Fork);
        check("/clear", ChatCommand::Clear);
        check("/resume  the parser ", ChatCommand::Resume("the parser".to_owned()));
        check("/export a b.md", ChatCommand::Export(Some("a b.md".to_owned())));
        check("/model", ChatCommand::Model(None));
        check("/model a/b", ChatCommand::Model(Some("a/b".to_owned())));
        check("/effort", ChatCommand::Effort(None));
        check("/effort low", ChatCommand::Effort(Some(Some(ReasoningEffort::Low))));
        check("/effort default", ChatCommand::Effort(Some(None)));
        check("/effort hi", ChatCommand::UnknownEffort("hi".to_owned()));
        check("! ls -l | wc", ChatCommand::Run("ls -l | wc".to_owned()));
        check("/tasks stop 2", ChatCommand::Tasks(TaskCommand::Stop(2)));
        let rewind = |to, files| ChatCommand::Rewind(Rewind { to, files });
        check("/rewind", rewind(RewindPoint::LastTurn, false));
        check("/rewind 3", rewind(RewindPoint::Step(3), false));
        check("/rewind files", rewind(RewindPoint::LastTurn, true));
        check("/rewind 3 files", rewind(RewindPoint::Step(3), true));
        for wrong in [
            "!",
            "/rewind x",
            "/rewind files 3",
            "/rewind 3 x",
            "/quit now",
            "/effort a b",
            "/tasks x",
        ] {
            check(wrong, ChatCommand::Unknown(wrong.to_owned()));
        }
    }

    #[test]
    fn an_unknown_command_can_name_a_skill() {
        check("/git:push  to main ", named("/git:push  to main", "git:push", "to main"));
        check("/Users are people", named("/Users are people", "Users", "are people"));
        let is_command = |name| match ChatCommand::of(name) {
            ChatCommand::Use(named) => named.is_command(),
            other => panic!("{other:?}"),
        };
        assert!(is_command("/dance"));
        assert!(!is_command("/Users"));
    }

    #[test]
    fn help_lists_only_known_commands() {
        for name in names() {
            let meant = ChatCommand::of(&format!("/{name}"));
            let is_other = matches!(meant, ChatCommand::Use(_) | ChatCommand::Unknown(_));
            assert!(!is_other, "{name}: {meant:?}");
        }
    }
}
