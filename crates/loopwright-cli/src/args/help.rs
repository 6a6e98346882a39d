//! The worked examples under the help texts.

/// Ends `loopwright --help`.
pub(super) const PROGRAM: &str = "\
Examples:
  See an agent work, without a key and without a network
    loopwright demo

  See what works on this machine, and what is configured
    loopwright doctor
    loopwright config show

  Ask a model about this directory; its tools change nothing outside it
    export OPENAI_API_KEY=…
    loopwright run -m openai/gpt-5-mini \"Which of these files are not used?\"

  Talk to it turn by turn, and go on with what was said last
    loopwright chat
    loopwright chat --continue

  Complete commands and options in bash, here and now
    source <(loopwright completions bash)

Configuration, strongest first:
  options, LOOPWRIGHT_* variables, loopwright.toml of the project,
  ~/.config/loopwright/config.toml

Exit status:
  0 done, 1 internal error, 2 wrong usage, 3 wrong configuration, 4 no model,
  5 provider failed, 6 limit reached, 7 session in use, 8 denied, 9 needs input,
  130 interrupted, 143 terminated";

/// Ends `loopwright run --help`.
pub(super) const RUN: &str = "\
Examples:
  Ask about this directory; the tools change nothing outside it
    loopwright run \"Where is the parser tested?\"

  Pipe the prompt in
    git diff | loopwright run -m openai/gpt-5-mini
    loopwright run - < task.md

  Work in another directory, but not for long
    loopwright run -C ../web --max-steps 10 --max-seconds 60 \"Which tests are slow?\"

  Use a model on this machine
    loopwright run -m ollama/qwen3 \"Explain main.rs\"

  Ask another model when the first cannot answer
    loopwright run -m openai/gpt-5-mini --fallback anthropic/claude-haiku-5-5 \"Review a.rs\"

  Go on with the latest conversation of this directory, or with what was interrupted
    loopwright run --continue \"And which of them is the slowest?\"
    loopwright run --resume 7f3a

  Let a script read the answer, or watch every event
    loopwright run -q \"Name the largest module\" > answer.txt
    loopwright run --json \"Which files are tests?\" | jq .type

Variables:
  LOOPWRIGHT_MODEL, LOOPWRIGHT_FALLBACK, LOOPWRIGHT_BASE_URL, LOOPWRIGHT_SYSTEM_PROMPT,
  LOOPWRIGHT_OUTPUT_FORMAT, LOOPWRIGHT_MAX_STEPS, LOOPWRIGHT_MAX_TOKENS,
  LOOPWRIGHT_MAX_SECONDS, LOOPWRIGHT_MAX_COST, LOOPWRIGHT_STORE";

/// Ends `loopwright chat --help`.
pub(super) const CHAT: &str = "\
Examples:
  Talk about this directory, and go on later
    loopwright chat -m openai/gpt-5-mini
    loopwright chat --continue

  Try another way from the third step on
    loopwright chat --fork 7f3a@3

Keys:
  Enter says it; Alt-Enter or a backslash before Enter begins another line.
  Ctrl-C stops the agent; without one at work, twice leaves. Ctrl-D leaves.

Commands:
  /help /model [NAME] /continue /compact /fork /rewind [STEP] /quit

Without a terminal, each line of standard input is a turn.";

/// Ends `loopwright sessions --help`.
pub(super) const SESSIONS: &str = "\
Examples:
  See what was talked about here, and what was said
    loopwright sessions list
    loopwright sessions show 7f3a

  Go back two steps, or try another way without giving this one up
    loopwright sessions rewind 7f3a 3
    loopwright run --fork 7f3a@3 \"Try it without recursion\"

  Take a session to another machine
    loopwright sessions export 7f3a talk.jsonl
    loopwright sessions import talk.jsonl

  Delete what was not used for a month
    loopwright sessions prune --older-than 30d";

/// Ends `loopwright agents --help`.
pub(super) const AGENTS: &str = "\
Examples:
  Begin an agent, give it work, and see that its file is right
    loopwright agents new reviewer --description \"Reviews changes\"
    loopwright agents validate
    loopwright run --agent reviewer \"Look at the last commit\"

  See what there is, and how one is defined
    loopwright agents list
    loopwright agents show reviewer

Files, strongest first:
  .loopwright/agents and .claude/agents of the project, ~/.config/loopwright/agents,
  ~/.claude/agents; Markdown with front matter, YAML or JSON";
/// Ends `loopwright submit --help`.
pub(super) const SUBMIT: &str = "\
Examples:
  Leave a task for a worker, or wait for its answer
    loopwright submit \"Which of these files are tests?\"
    loopwright submit --follow \"Which of these files are tests?\"

  Say more in a session, or let it go on after a decision
    loopwright submit --session 7f3a \"And which is the slowest?\"
    loopwright sessions decide 7f3a deny && loopwright submit --session 7f3a

  Submit it again without doing it twice
    loopwright submit --id nightly-2026-11-22 \"Summarise the log\"";

/// Ends `loopwright worker --help`.
pub(super) const WORKER: &str = "\
Examples:
  Do what is submitted on this machine, two at a time
    loopwright worker --concurrency 2

  Work with others on a queue that many machines share
    loopwright worker --store env:DATABASE_URL

  Do what there is and end
    loopwright worker --exit-when-idle

Ctrl-C or SIGTERM lets it take no more jobs and end the steps under way; what is
left is for other workers. A second signal ends it at once.";

/// Ends `loopwright doctor --help`.
pub(super) const DOCTOR: &str = "\
Ends with 0 if everything that is needed works, and with 1 if there is a problem. Keys are
looked for and never shown.";

/// Ends `loopwright config show --help`.
pub(super) const CONFIG: &str = "\
Examples:
  See the settings in effect here, and their sources
    loopwright config show

  See what an option or another directory would change
    loopwright config show -C ../web --max-steps 10

Secrets are references, such as env:MY_KEY, and stay so.";
