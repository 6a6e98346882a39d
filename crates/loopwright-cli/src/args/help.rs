//! The worked examples under the help texts.

/// Ends `loopwright --help`.
pub(super) const PROGRAM: &str = "\
Examples:
  See an agent work, without a key and without a network
    loopwright demo

  Ask a model about this directory; its tools change nothing outside it
    export OPENAI_API_KEY=…
    loopwright run -m openai/gpt-5-mini \"Which of these files are not used?\"

  Complete commands and options in bash, here and now
    source <(loopwright completions bash)

Configuration, strongest first:
  options, LOOPWRIGHT_* variables, loopwright.toml of the project,
  ~/.config/loopwright/config.toml

Exit status:
  0 done, 1 internal error, 2 wrong usage, 3 wrong configuration, 4 no model,
  5 provider failed, 6 limit reached, 8 denied, 9 needs input,
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

  Let a script read the answer, or watch every event
    loopwright run -q \"Name the largest module\" > answer.txt
    loopwright run --json \"Which files are tests?\" | jq .type

Variables:
  LOOPWRIGHT_MODEL, LOOPWRIGHT_FALLBACK, LOOPWRIGHT_BASE_URL, LOOPWRIGHT_SYSTEM,
  LOOPWRIGHT_OUTPUT_FORMAT, LOOPWRIGHT_MAX_STEPS, LOOPWRIGHT_MAX_TOKENS,
  LOOPWRIGHT_MAX_SECONDS, LOOPWRIGHT_MAX_COST";
