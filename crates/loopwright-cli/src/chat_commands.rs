//! The names of the commands of `chat`, and what each does.

/// The commands as `/help` shows them: what to type, and what it does.
pub(crate) const COMMANDS: [(&str, &str); 32] = [
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
        "list the background commands and sub-agents, show the output of one, or stop one, even while the agent works",
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

/// Returns `true` if a built-in command has this name.
pub(crate) fn is_taken(name: &str) -> bool {
    names().any(|it| it == name) || matches!(name, "bashes" | "exit" | "new" | "usage")
}

/// Returns `true` if a line begins with the name of a built-in command.
pub(crate) fn is_command(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    word.strip_prefix('/').is_some_and(is_taken)
}

/// Returns the names of the commands, without their slashes.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let names = COMMANDS.iter().filter_map(|(typed, _)| typed.split(' ').next()?.strip_prefix('/'));
    // An entry with a colon stands for several commands.
    names.filter(|name| !name.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_command_and_a_command_with_words_is_one() {
        let lines = ["/mode auto", " /quit", "/exit", "/tmp", "/mode/x", "mode", ""];
        assert_eq!(lines.map(is_command), [true, true, true, false, false, false, false]);
    }
}
