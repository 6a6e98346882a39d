//! Examples and notes at the end of the help texts.

/// The end of `loopwright --help`.
pub(super) const PROGRAM: &str = "\
Examples:
  Watch an agent work, without a key or a network
    loopwright demo

  Check this machine and show the configuration
    loopwright doctor
    loopwright config show

  Ask a model about this directory; tools cannot change anything outside it
    export OPENAI_API_KEY=…
    loopwright run -m openai/gpt-5-mini \"Which of these files are not used?\"

  Chat turn by turn, or resume the latest session
    loopwright chat
    loopwright chat --continue

  Enable completion in this bash shell
    source <(loopwright completions bash)

Configuration, highest precedence first:
  options, LOOPWRIGHT_* variables, the project's loopwright.toml,
  ~/.config/loopwright/config.toml

Exit status:
  0 done, 1 internal error, 2 usage error, 3 invalid configuration, 4 no model,
  5 provider failed, 6 limit reached, 7 session in use, 8 denied, 9 needs input,
  10 no answer, 11 schema not matched, 12 verification failed,
  130 interrupted, 143 terminated";

/// The end of `loopwright run --help`.
pub(super) const RUN: &str = "\
Examples:
  Ask about this directory; tools cannot change anything outside it
    loopwright run \"Where is the parser tested?\"

  Read the prompt from a pipe or a file
    git diff | loopwright run -m openai/gpt-5-mini
    loopwright run - < task.md

  Work in another directory, with tight limits
    loopwright run -C ../web --max-steps 10 --max-seconds 60 \"Which tests are slow?\"

  Use a local model
    loopwright run -m ollama/qwen3 \"Explain main.rs\"

  Fall back to another model
    loopwright run -m openai/gpt-5-mini --fallback anthropic/claude-haiku-5-5 \"Review a.rs\"

  Resume the latest session of this directory, or a particular session
    loopwright run --continue \"And which of them is the slowest?\"
    loopwright run --resume 7f3a

  Require an answer that matches a JSON Schema, or a passing test
    loopwright run --schema '{\"type\": \"array\"}' -o files.json \"Which files have no test?\"
    loopwright run --verify \"cargo test\" \"Fix the failing test\"

  Print only the answer for a script, or print every event
    loopwright run -q \"Name the largest module\" > answer.txt
    loopwright run --json \"Which files are tests?\" | jq .type

Variables:
  LOOPWRIGHT_MODEL, LOOPWRIGHT_FALLBACK, LOOPWRIGHT_BASE_URL, LOOPWRIGHT_SYSTEM_PROMPT,
  LOOPWRIGHT_OUTPUT_FORMAT, LOOPWRIGHT_MAX_STEPS, LOOPWRIGHT_MAX_TOKENS,
  LOOPWRIGHT_MAX_SECONDS, LOOPWRIGHT_MAX_COST, LOOPWRIGHT_STORE";

/// The end of `loopwright chat --help`.
pub(super) const CHAT: &str = "\
Examples:
  Chat about this directory and resume later
    loopwright chat -m openai/gpt-5-mini
    loopwright chat --continue

  Try an alternative from the third step on
    loopwright chat --fork 7f3a@3

Keys:
  Enter sends the message; Alt-Enter, Ctrl-J, or a backslash before Enter starts a new line.
  Ctrl-C stops the agent, or exits if pressed twice at an empty prompt. Ctrl-D exits.
  Tab completes commands and files. Ctrl-R searches the history. Ctrl-G opens $EDITOR.
  Esc Esc lists your messages; choose one to rewind to it. Ctrl-O expands a folded paste.

Commands:
  /help /clear /resume [TEXT] /continue /fork /rewind [STEP] [files] /turns /compact
  /diff /context /thinking /cost /export [FILE] /init /review [WHAT] /agents /skills /model [NAME]
  /effort [LEVEL] /mode [MODE] /add-dir [DIR] /tasks [N] /mcp /permissions /trust /hooks
  /quit, and /NAME for a skill or command;
  /SERVER:PROMPT sends a prompt from an MCP server; !COMMAND runs a command in the sandbox,
  @FILE attaches a file, and @SERVER:URI attaches a resource from an MCP server

Without a terminal, each line of standard input is a turn.";

/// The end of `loopwright sessions --help`.
pub(super) const SESSIONS: &str = "\
Examples:
  List the sessions of this directory, and show one of them
    loopwright sessions list
    loopwright sessions show 7f3a

  Rewind to step 3, or try an alternative in a copy
    loopwright sessions rewind 7f3a 3
    loopwright run --fork 7f3a@3 \"Try it without recursion\"

  Move a session to another machine
    loopwright sessions export 7f3a talk.jsonl
    loopwright sessions import talk.jsonl

  Delete sessions that have not been used for 30 days
    loopwright sessions prune --older-than 30d";

/// The end of `loopwright agents --help`.
pub(super) const AGENTS: &str = "\
Examples:
  Create an agent, check its definition file and run the agent
    loopwright agents new reviewer --description \"Reviews changes\"
    loopwright agents validate
    loopwright run --agent reviewer \"Look at the last commit\"

  List the agents, and show one of them
    loopwright agents list
    loopwright agents show reviewer

Files, highest precedence first:
  .loopwright/agents and .claude/agents of the project, ~/.config/loopwright/agents
  and ~/.claude/agents; Markdown with front matter, YAML or JSON";

/// The end of `loopwright submit --help`.
pub(super) const SUBMIT: &str = "\
Examples:
  Submit a task, or submit it and wait for the answer
    loopwright submit \"Which of these files are tests?\"
    loopwright submit --follow \"Which of these files are tests?\"

  Send a message to a session, or resume it after a decision
    loopwright submit --session 7f3a \"And which is the slowest?\"
    loopwright sessions decide 7f3a deny && loopwright submit --session 7f3a

  Submit a job that runs only once, even if it is submitted again
    loopwright submit --id nightly-2026-11-22 \"Summarize the log\"";

/// The end of `loopwright jobs --help`.
pub(super) const JOBS: &str = "\
Examples:
  List the jobs that need a decision
    loopwright jobs --status needs-input

  Submit a job at 7:30 UTC every weekday, each time in a new session
    loopwright jobs schedule add morning \"30 7 * * 1-5\" \"Summarize the log of the last day\"";

/// The end of `loopwright worker --help`.
pub(super) const WORKER: &str = "\
Examples:
  Process the jobs of this machine, two at a time
    loopwright worker --concurrency 2

  Process a queue shared by several machines
    loopwright worker --store env:DATABASE_URL

  Process the queued jobs and exit
    loopwright worker --exit-when-idle

After Ctrl-C or SIGTERM, the worker finishes its running steps and exits; other
workers take over the rest. A second signal makes it exit immediately.";

/// The end of `loopwright serve --help`.
pub(super) const SERVE: &str = "\
Examples:
  Serve the agents of this project to programs on this machine
    loopwright serve

  Give each session its own directory
    loopwright serve --session-dirs /srv/sessions

  Serve clients that have tokens, behind a proxy that terminates TLS
    loopwright tokens create --principal ada --role run
    loopwright serve --listen 0.0.0.0:8787 --behind-proxy --host agents.example.org \\
        --session-dirs /srv/sessions --store env:DATABASE_URL

After Ctrl-C or SIGTERM, the server starts no new runs, finishes the running steps
and exits; other servers and workers that share the session store continue the rest.
A second signal makes it exit immediately.";

/// The end of `loopwright doctor --help`.
pub(super) const DOCTOR: &str = "\
Exits with 0 if everything required works and with 1 if there is a problem. The command
checks whether keys are set but never shows them.";

/// The end of `loopwright config show --help`.
pub(super) const CONFIG: &str = "\
Examples:
  Show the settings in effect and their sources
    loopwright config show

  Show the effect of an option or another directory
    loopwright config show -C ../web --max-steps 10

Secrets appear as references, such as env:MY_KEY, never as values.";

/// The end of `loopwright acp --help`.
pub(super) const ACP: &str = "\
The editor starts this program and sets the working directory of each session.
Standard output carries the protocol; warnings go to standard error.

Examples:
  Use Loopwright in Zed: add this to its settings
    \"agent_servers\": {
      \"Loopwright\": {\"type\": \"custom\", \"command\": \"loopwright\", \"args\": [\"acp\"]}
    }

  Set a model and a permission mode
    loopwright acp -m openai/gpt-5-mini --permission-mode ask

  Continue the latest session of the directory in the terminal
    loopwright chat --continue";
