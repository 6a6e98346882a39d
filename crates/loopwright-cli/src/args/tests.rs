//! Every option, typed rightly and wrongly.

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::*;
use crate::config::SettingValue;
use std::time::Duration;

use clap::ColorChoice;

use crate::config::{Flags, OutputFormat};

fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from([&["loopwright"], line].concat())
}

fn run(line: &[&str]) -> RunArgs {
    match parse(&[&["run"], line].concat()).unwrap().command {
        Command::Run(args) => *args,
        other => panic!("not a run: {other:?}"),
    }
}

fn flags(line: &[&str]) -> Flags {
    run(line).agent.flags(None)
}

fn nothing_typed() -> Flags {
    Flags { workdir: ".".into(), ..Flags::default() }
}

/// The first line of the message, which states the error.
fn error(line: &[&str]) -> String {
    let message = parse(line).unwrap_err().to_string();
    message.lines().next().unwrap_or_default().to_owned()
}

fn run_error(line: &[&str]) -> String {
    error(&[&["run"], line].concat())
}

fn value<T: SettingValue>(text: &str) -> Option<T> {
    T::from_text(text)
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_run_needs_nothing_but_its_name() {
    assert_eq!(run(&[]).prompt(), PromptSource::Piped);
    assert_eq!(flags(&[]), nothing_typed());
    assert!(!run(&[]).agent.surroundings.quiet);
    assert_eq!(run(&[]).agent.surroundings.color, ColorChoice::Auto);
}

#[test]
fn the_prompt_is_positional_or_an_option() {
    let typed = PromptSource::Text("do it".to_owned());
    assert_eq!(run(&["do it"]).prompt(), typed);
    assert_eq!(run(&["-p", "do it"]).prompt(), typed);
    assert_eq!(run(&["--prompt", "do it"]).prompt(), typed);
    assert_eq!(run(&["--prompt=do it"]).prompt(), typed);
    assert_eq!(run(&["-"]).prompt(), PromptSource::Stdin);
    assert_eq!(run(&["-p", "-"]).prompt(), PromptSource::Stdin);
    assert_eq!(run(&["--", "--help"]).prompt(), PromptSource::Text("--help".to_owned()));
}

#[test]
fn two_prompts_are_one_too_many() {
    assert_eq!(
        run_error(&["a", "-p", "b"]),
        "error: the argument '[PROMPT|-]' cannot be used with '--prompt <PROMPT>'"
    );
    assert_eq!(run_error(&["a", "b"]), "error: unexpected argument 'b' found");
}

#[test]
fn the_model_has_a_provider_or_a_short_name() {
    let expect = Flags { model: value("openai/gpt-5"), ..nothing_typed() };
    assert_eq!(flags(&["-m", "openai/gpt-5"]), expect);
    assert_eq!(flags(&["--model", "openai/gpt-5"]), expect);
    assert_eq!(
        run_error(&["-m", "openai/"]),
        "error: invalid value 'openai/' for '--model <PROVIDER/NAME>': must be a provider and the name of a model, joined by `/`, or a short name, such as `openai/gpt-5-mini`"
    );
}

#[test]
fn the_base_url_is_an_address() {
    let expect = Flags { base_url: value("http://localhost:8080/v1"), ..nothing_typed() };
    assert_eq!(flags(&["--base-url", "http://localhost:8080/v1"]), expect);
}

#[test]
fn a_wrong_base_url_is_not_repeated() {
    assert_eq!(
        run_error(&["--base-url", "https://me:hidden@example.com"]),
        "error: invalid value for '--base-url <URL>': must be an `http://` or `https://` address without a user name, password, query or fragment, such as `http://localhost:11434/v1`"
    );
}

#[test]
fn steps_are_a_positive_number() {
    assert_eq!(flags(&["--max-steps", "3"]), Flags { max_steps: value("3"), ..nothing_typed() });
    for wrong in ["0", "-1", "1.5", "many", "4294967296"] {
        assert_eq!(
            run_error(&["--max-steps", wrong]),
            format!(
                "error: invalid value '{wrong}' for '--max-steps <N>': must be a whole number from 1 to 4294967295, such as `20`"
            )
        );
    }
}

#[test]
fn tokens_are_a_positive_number() {
    let expect = Flags { max_tokens: value("5000000000"), ..nothing_typed() };
    assert_eq!(flags(&["--max-tokens", "5000000000"]), expect);
    for wrong in ["0", "-1", "1k"] {
        assert_eq!(
            run_error(&["--max-tokens", wrong]),
            format!(
                "error: invalid value '{wrong}' for '--max-tokens <N>': must be a whole number of at least 1, such as `100000`"
            )
        );
    }
}

#[test]
fn seconds_are_positive_and_may_have_a_fraction() {
    let expect = Flags { max_seconds: Some(Duration::from_millis(1500)), ..nothing_typed() };
    assert_eq!(flags(&["--max-seconds", "1.5"]), expect);
    for wrong in ["0", "-0.5", "nan", "inf", "1m"] {
        assert_eq!(
            run_error(&["--max-seconds", wrong]),
            format!(
                "error: invalid value '{wrong}' for '--max-seconds <S>': must be a number of seconds above 0, such as `300`"
            )
        );
    }
}

#[test]
fn the_cost_is_positive_and_may_have_a_fraction() {
    let expect = Flags { max_cost: value("0.05"), ..nothing_typed() };
    assert_eq!(flags(&["--max-cost", "0.05"]), expect);
    for wrong in ["0", "-1", "nan", "$1"] {
        assert_eq!(
            run_error(&["--max-cost", wrong]),
            format!(
                "error: invalid value '{wrong}' for '--max-cost <USD>': must be an amount of US dollars above 0, such as `0.50`"
            )
        );
    }
}

#[test]
fn the_system_prompt_is_any_text() {
    let expect = |text: &str| Flags { system_prompt: Some(text.to_owned()), ..nothing_typed() };
    assert_eq!(flags(&["--system-prompt", "be brief"]), expect("be brief"));
    assert_eq!(flags(&["--system-prompt", ""]), expect(""));
}

#[test]
fn the_directory_is_not_looked_at_yet() {
    let expect = Flags { workdir: "not/there".into(), ..Flags::default() };
    assert_eq!(flags(&["-C", "not/there"]), expect);
    assert_eq!(flags(&["--workdir", "not/there"]), expect);
}

#[test]
fn output_formats_have_names_and_one_a_short_form() {
    let format = |line: &[&str]| run(line).agent.surroundings.output_format();
    assert_eq!(format(&[]), None);
    assert_eq!(format(&["--output-format", "text"]), Some(OutputFormat::Text));
    assert_eq!(format(&["--output-format", "json"]), Some(OutputFormat::Json));
    assert_eq!(format(&["--output-format", "stream-json"]), Some(OutputFormat::StreamJson));
    assert_eq!(format(&["--json"]), Some(OutputFormat::StreamJson));
    let expect = Flags { output_format: Some(OutputFormat::StreamJson), ..nothing_typed() };
    assert_eq!(flags(&["--json"]), expect);
}

#[test]
fn an_output_format_is_asked_for_once_and_by_its_name() {
    assert_eq!(
        run_error(&["--json", "--output-format", "json"]),
        "error: the argument '--json' cannot be used with '--output-format <FORMAT>'"
    );
    assert_eq!(
        run_error(&["--output-format", "yaml"]),
        "error: invalid value 'yaml' for '--output-format <FORMAT>'"
    );
}

#[test]
fn quiet_color_and_no_stream() {
    assert!(run(&["-q"]).agent.surroundings.quiet);
    assert!(run(&["--quiet"]).agent.surroundings.quiet);
    let color = |when| run(&["--color", when]).agent.surroundings.color;
    assert_eq!(color("auto"), ColorChoice::Auto);
    assert_eq!(color("always"), ColorChoice::Always);
    assert_eq!(color("never"), ColorChoice::Never);
    assert_eq!(run_error(&["--color", "pink"]), "error: invalid value 'pink' for '--color <WHEN>'");
    assert_eq!(flags(&["--no-stream"]), Flags { stream: Some(false), ..nothing_typed() });
}

#[test]
fn the_config_file_may_be_named_before_or_after_the_command() {
    for line in [["--config", "mine.toml", "run"], ["run", "--config", "mine.toml"]] {
        let cli = parse(&line).unwrap();
        assert_eq!(cli.config, Some("mine.toml".into()));
        let Command::Run(args) = &cli.command else { panic!("not a run") };
        let expect = Flags { config: Some("mine.toml".into()), ..nothing_typed() };
        assert_eq!(args.agent.flags(cli.config.as_deref()), expect);
    }
}

#[test]
fn a_demo_has_surroundings_and_nothing_else() {
    let line = ["demo", "-C", "x", "--output-format", "json", "-q", "--color", "never"];
    let Command::Demo(DemoArgs { surroundings }) = parse(&line).unwrap().command else {
        panic!("not a demo")
    };
    let expect = OutputArgs {
        workdir: Some("x".into()),
        output_format: Some(OutputFormat::Json),
        json: false,
        quiet: true,
        color: ColorChoice::Never,
    };
    assert_eq!(surroundings, expect);
    assert_eq!(error(&["demo", "-m", "a/b"]), "error: unexpected argument '-m' found");
}

#[test]
fn completions_are_for_a_known_shell() {
    let command = parse(&["completions", "zsh"]).unwrap().command;
    assert_eq!(command, Command::Completions(CompletionsArgs { shell: Shell::Zsh }));
    assert_eq!(error(&["completions", "cmd"]), "error: invalid value 'cmd' for '<SHELL>'");
    assert_eq!(
        error(&["completions"]),
        "error: the following required arguments were not provided:"
    );
}

#[test]
fn a_misspelled_command_or_option_gets_a_suggestion() {
    let message = parse(&["dmeo"]).unwrap_err().to_string();
    assert!(
        message.contains("similar subcommands exist: ") && message.contains("'demo'"),
        "{message}"
    );
    let message = parse(&["run", "--modle", "a/b"]).unwrap_err().to_string();
    assert!(message.contains("a similar argument exists: '--model'"), "{message}");
}

#[test]
fn options_of_other_programs_are_known() {
    let mode = |line: &[&str]| flags(line).permission_mode;
    let unconfined = Some(loopwright_permissions::Mode::Unconfined);
    for name in [
        "--dangerously-skip-permissions",
        "--dangerously-bypass-approvals-and-sandbox",
        "--yolo",
        "--permission-mode=bypassPermissions",
    ] {
        assert_eq!(mode(&[name]), unconfined, "{name}");
    }
    assert_eq!(mode(&["--full-auto"]), Some(loopwright_permissions::Mode::Auto));
    assert!(run_error(&["--full-auto", "--yolo"]).contains("cannot be used with"));
    let both = ["--yolo", "--permission-mode", "ask"];
    assert!(run_error(&both).contains("cannot be used with"), "{}", run_error(&both));
    for (theirs, ours) in [
        (["--max-turns", "3"], ["--max-steps", "3"]),
        (["--max-budget-usd", "2"], ["--max-cost", "2"]),
        (["--append-system-prompt", "x"], ["--system-prompt", "x"]),
        (["--allowedTools", "Bash(ls)"], ["--allow", "Bash(ls)"]),
        (["--disallowedTools", "Bash"], ["--deny", "Bash"]),
        (["--fallback-model", "a/b"], ["--fallback", "a/b"]),
        (["--include-directories", "/"], ["--add-dir", "/"]),
        (["--print", "x"], ["--prompt", "x"]),
        (["--approval-mode", "auto_edit"], ["--permission-mode", "accept-edits"]),
        (["--approval-mode", "yolo"], ["--permission-mode", "unconfined"]),
        (["--approval-mode", "plan"], ["--permission-mode", "plan"]),
        (["--cd", "web"], ["--workdir", "web"]),
        (["--effort", "max"], ["--effort", "high"]),
        (["--ephemeral", "x"], ["--no-session", "x"]),
        (["--no-session-persistence", "x"], ["--no-session", "x"]),
    ] {
        assert_eq!(run(&theirs), run(&ours), "{theirs:?}");
    }
    assert!(
        run_error(&["--effort", "much"]).contains("must be `minimal`, `low`, `medium` or `high`")
    );
}

#[test]
fn a_line_without_a_command_is_read_as_other_programs_do() {
    let read = |line: &[&str]| {
        let words = [&["loopwright"], line].concat().into_iter().map(OsString::from).collect();
        Cli::parse_words(words)
    };
    let same = |line: &[&str], ours: &[&str]| {
        assert_eq!(read(line).unwrap(), parse(ours).unwrap(), "{line:?}");
    };
    same(&["-p", "do it"], &["run", "-p", "do it"]);
    same(
        &["--print", "--output-format", "json", "do it"],
        &["run", "--output-format", "json", "do it"],
    );
    same(&["--model", "a/b", "-p", "do it"], &["run", "--model", "a/b", "-p", "do it"]);
    same(&["-p", "-"], &["run", "-p", "-"]);
    same(&["run", "do it", "-p"], &["run", "do it"]);
    same(&["-c"], &["chat", "-c"]);
    same(&["--resume", "7f3a"], &["chat", "--resume", "7f3a"]);
    same(&["run", "--", "-p"], &["run", "--", "-p"]);
    same(&["fix the test"], &["chat", "fix the test"]);
    same(&["fix the test", "-m", "a/b"], &["chat", "fix the test", "-m", "a/b"]);
    same(&["-c", "and now?"], &["chat", "-c", "and now?"]);
    same(&["--resume"], &["chat", "--choose-session"]);
    same(&["chat", "-r", "--plain"], &["chat", "--choose-session", "--plain"]);
    let unknown = read(&["fix"]).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidSubcommand);
    let tip = "tip: to give an agent this task, use 'loopwright run fix'";
    assert!(unknown.to_string().contains(tip), "{unknown}");
    assert_eq!(read(&["--help"]).unwrap_err().kind(), ErrorKind::DisplayHelp);
    assert_eq!(read(&["--nonsense"]).unwrap_err().kind(), ErrorKind::UnknownArgument);
}

#[test]
fn an_empty_command_verifies_nothing_and_is_refused() {
    for empty in ["", "  "] {
        let told = run_error(&["--verify", empty]);
        assert!(told.contains("the command is empty"), "{told}");
    }
    assert_eq!(run(&["--verify", "make"]).verify.as_deref(), Some("make"));
}

#[test]
fn a_schema_that_is_no_object_is_refused_as_such() {
    for schema in ["true", "[]", "null", "\"x\""] {
        let told = run_error(&["--schema", schema]);
        assert!(told.contains("a schema for answers must be a JSON object"), "{told}");
    }
    assert!(run(&["--schema", r#"{"type": "array"}"#]).schema.is_some());
}

#[test]
fn help_and_version_are_not_mistakes() {
    for (line, kind) in [
        (["--help"].as_slice(), ErrorKind::DisplayHelp),
        (&["run", "--help"], ErrorKind::DisplayHelp),
        (&["--version"], ErrorKind::DisplayVersion),
    ] {
        assert_eq!(parse(line).unwrap_err().kind(), kind);
    }
    let version = parse(&["--version"]).unwrap_err().to_string();
    assert_eq!(version, format!("loopwright {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_example_in_the_help_can_be_typed() {
    for (line, text) in [("--help", help::PROGRAM), ("run --help", help::RUN)] {
        let shown = parse(&line.split(' ').collect::<Vec<_>>()).unwrap_err().to_string();
        let mut examples = 0;
        for example in text.lines().filter_map(|line| line.split_once("loopwright ")) {
            if example.0.trim_start().is_empty() || example.0.trim_end().ends_with(['|', '(']) {
                let typed = words(example.1);
                let typed: Vec<_> = typed.iter().map(String::as_str).collect();
                assert!(parse(&typed).is_ok(), "{typed:?}");
                examples += 1;
            }
        }
        assert!(examples > 2 && shown.contains("Examples:"), "{shown}");
    }
}

/// Splits like a shell, as far as the examples need it; ends at a redirection or a pipe.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match c {
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            ' ' if quote.is_none() => words.push(String::new()),
            '|' | '<' | '>' | ')' if quote.is_none() => break,
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn a_run_begins_with_nothing_or_goes_on() {
    let origin = |line: &[&str]| run(line).session.origin;
    let id = |name: &str| loopwright_sessions::SessionId::new(name).unwrap();
    let nothing = session::ResumeArgs::default();
    assert_eq!(origin(&[]), nothing);
    let latest = session::ResumeArgs { latest: true, ..nothing.clone() };
    assert_eq!(origin(&["-c"]), latest);
    assert_eq!(origin(&["--continue", "x"]), latest);
    let resume = session::ResumeArgs { resume: Some(id("7f3a")), ..nothing.clone() };
    assert_eq!(origin(&["-r", "7f3a"]), resume);
    assert_eq!(origin(&["--resume=7f3a"]), resume);
    let fork = session::ForkRef { id: id("7f3a"), step: Some(3) };
    assert_eq!(fork.to_string(), "7f3a@3");
    assert_eq!(origin(&["--fork", "7f3a@3"]).fork, Some(fork));
    assert!(origin(&["--no-session"]).no_session);
    assert_eq!(
        run_error(&["-c", "-r", "7f3a"]),
        "error: the argument '--continue' cannot be used with '--resume <ID>'"
    );
    assert_eq!(
        run_error(&["--fork", "7f3a@x"]),
        "error: invalid value '7f3a@x' for '--fork <ID[@STEP]>': the step must be a whole number, as in `7f3a@12`"
    );
    assert!(run_error(&["-r", "../x"]).contains("invalid session ID `../x`"));
    assert!(run_error(&["--steer", "x"]).starts_with("error: the following required arguments"));
    assert!(run(&["-c", "--steer", "x"]).steer);
}

#[test]
fn a_wrong_store_is_not_repeated() {
    assert_eq!(
        run_error(&["--store", "postgres://me:hidden@db/x"]),
        "error: invalid value for '--store <URL>': must be a line of text, or a reference to an environment variable such as `env:NAME`, such as `env:NAME`"
    );
}
