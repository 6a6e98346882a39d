//! The program `loopwright`.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode as ProcessExitCode;

use loopwright_cli::args::jobs::JobsCommand;
use loopwright_cli::args::{Cli, Command};
use loopwright_cli::exit::ExitCode;
use loopwright_cli::{
    acp, agents, chat, completions, console, demo, doctor, files, jobs, man, mcp, models, policy,
    run, sandbox, schedule, serve, sessions, settings, skills, submit, tokens, trust, worker,
};

fn main() -> ProcessExitCode {
    // This program is its own sandbox helper.
    loopwright_sandbox::init();
    completions::answer();
    match Cli::parse_words(typed()) {
        Ok(cli) => dispatch(&cli),
        Err(error) => explain(&error).into(),
    }
}

/// Returns what was typed. A user who types only the name, at a terminal, wants to talk.
fn typed() -> Vec<OsString> {
    let mut typed: Vec<OsString> = std::env::args_os().collect();
    if typed.len() == 1 && io::stdin().is_terminal() && io::stdout().is_terminal() {
        typed.push("chat".into());
    }
    typed
}

fn dispatch(cli: &Cli) -> ProcessExitCode {
    let exit_code = match &cli.command {
        Command::Run(args) => run::run(cli, args),
        Command::Chat(args) => chat::chat(cli, args),
        Command::Sessions(args) => sessions::sessions(cli, args),
        Command::Agents(args) => agents::agents(cli, args),
        Command::Skills(args) => skills::skills(cli, args),
        Command::Submit(args) => submit::submit(cli, args),
        Command::Worker(args) => worker::worker(cli, args),
        Command::Serve(args) => serve::serve(cli, args),
        Command::Tokens(args) => tokens::tokens(args),
        Command::Jobs(args) => match &args.command {
            Some(JobsCommand::Schedule(command)) => schedule::schedule(cli, command),
            None => jobs::jobs(cli, args),
        },
        Command::Acp(args) => acp::acp(cli, args),
        Command::Demo(args) => demo::demo(args),
        Command::Models(args) => models::models(cli, args),
        Command::Files(command) => files::files(command),
        Command::Doctor(args) => doctor::doctor(cli, args),
        Command::Approvals(args) => sessions::approvals(cli, args),
        Command::Policy(args) => policy::policy(cli, args),
        Command::Trust(args) => trust::trust(cli, args),
        Command::Mcp(args) => mcp::mcp(cli, args),
        Command::Config(command) => settings::settings(cli, command),
        Command::Man(args) => man::man(args),
        Command::Completions(args) => console::print(&completions::script(args.shell)),
        // The status is that of the command.
        Command::Sandbox(command) => return sandbox::sandbox(cli, command),
    };
    exit_code.into()
}

/// Shows help and version on standard output, mistakes on standard error.
fn explain(error: &clap::Error) -> ExitCode {
    // No reader is left to report to.
    error.print().ok();
    if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done }
}
