//! Parsing of a line that the user typed.

use loopwright_core::messages::ReasoningEffort;
use loopwright_sessions::RewindPoint;

use super::rewind::Rewind;
use crate::task_command::TaskCommand;

/// The commands as `/help` shows them: what to type, and what it does.
pub(super) const COMMANDS: [(&str, &str); 32] = [
    ("/help", "show this help"),
    ("/clear", "start a new session; the current one can be resumed"),
    ("/resume [TEXT]", "choose a session of this directory, or one that contains TEXT"),
    ("/continue", "resume the interrupted run"),
    ("/fork", "continue in a copy; the original session stays unchanged"),
    (
        "/rewind [STEP] [files]",
        "rewind to the end of a step, or to the point before the last message; `files` also undoes file changes",
    ),
    ("/turns", "choose a message and rewind to the point before it, like Esc Esc"),
    ("/compact", "summarize older messages and report the tokens saved"),
    ("/diff", "show how files have changed since the start of this session"),
    ("/context", "show what fills the context window"),
    ("/thinking", "show the model's latest reasoning"),
    ("/cost", "show the tokens and the cost of this session"),
    ("/export [FILE]", "write the conversation to a Markdown file"),
    ("/init", "let the agent write AGENTS.md for this project"),
    ("/review [WHAT]", "let the agent review uncommitted changes"),
    ("/agents", "list the agents; /NAME TASK gives an agent a task"),
    ("/skills", "list the skills and commands; /NAME ARGUMENTS runs one"),
    ("/model [NAME]", "show the model, or use PROVIDER/NAME from now on"),
    (
        "/effort [LEVEL]",
        "show how much the model reasons, or set it to minimal, low, medium, high or default",
    ),
    ("/mode [MODE]", "show the permission mode, or change it; Shift-Tab selects the next one"),
    ("/add-dir [DIR]", "show the folders that the tools can use, or add one for this session"),
    (
        "/tasks [N|stop N]",
        "list the background commands and sub-agents, and show the output of one or end it, even while the agent works",
    ),
    ("/mcp", "show the MCP servers and whether they work"),
    ("/permissions", "show the permission rules"),
    (
        "/trust",
        "show what this project's settings can do if you trust the project, and ask whether to trust it",
    ),
    ("/hooks", "show the hooks, which are commands that run on events"),
    ("/SERVER:PROMPT [ARGUMENTS]", "send a prompt from an MCP server"),
    ("/quit", "exit, like Ctrl-D"),
    ("!COMMAND", "run a command in the sandbox; the agent sees its output with your next message"),
    (
        "@FILE",
        "attach a text file, an image or a PDF document to the message; Tab completes the path",
    ),
    ("@SERVER:URI", "attach a resource from an MCP server"),
    (
        "Ctrl-R, Ctrl-G, Ctrl-O, Ctrl-V",
        "search the history; write the message in your editor; expand a folded paste, or show the last reasoning; attach the image in the clipboard",
    ),
];

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

/// How much a model reasons. `None` means the model's default.
pub(super) type Effort = Option<ReasoningEffort>;

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
        let (first, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let name = first.strip_prefix('/').filter(|it| is_name(it));
        let Some(name) = name else { return Self::Say(text.to_owned()) };
        let arguments = arguments.trim();
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
            ("effort", [level]) => match effort(level) {
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

/// Returns `true` if a word can name a command or a skill.
fn is_name(word: &str) -> bool {
    let is_part = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b':');
    !word.is_empty() && word.bytes().all(is_part)
}

/// Returns `true` if a built-in command has this name.
fn is_taken(name: &str) -> bool {
    names().any(|it| it == name) || matches!(name, "bashes" | "exit" | "new" | "usage")
}

/// Returns `true` if a line begins with the name of a built-in command.
pub(crate) fn is_command(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    word.strip_prefix('/').is_some_and(is_taken)
}

/// Returns the names of the commands, without their slashes.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let names = COMMANDS.iter().filter_map(|(typed, _)| typed.split(' ').next()?.strip_prefix('/'));
    // An entry with a colon stands for several commands.
    names.filter(|name| !name.contains(':'))
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn effort(level: &str) -> Option<Effort> {
    Some(match level {
        "default" => None,
        "minimal" => Some(ReasoningEffort::Minimal),
        "low" => Some(ReasoningEffort::Low),
        "medium" => Some(ReasoningEffort::Medium),
        "high" => Some(ReasoningEffort::High),
        _ => return None,
    })
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
    use super::*;

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
        for said in ["hi\nthere", "/etc/passwd is what?", "/ is a slash", "!", "//x", "/a.b"] {
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
        for wrong in
            ["/rewind x", "/rewind files 3", "/rewind 3 x", "/quit now", "/effort a b", "/tasks x"]
        {
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
    fn a_path_is_no_command_and_a_command_with_words_is_one() {
        let lines = ["/mode auto", " /quit", "/exit", "/tmp", "/mode/x", "mode", ""];
        assert_eq!(lines.map(is_command), [true, true, true, false, false, false, false]);
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
