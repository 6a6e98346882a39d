//! The program `loopwright`.

use std::process::ExitCode as ProcessExitCode;

use clap::Parser as _;
use loopwright_cli::args::{Cli, Command};
use loopwright_cli::exit::ExitCode;
use loopwright_cli::{completions, console, demo, run};

fn main() -> ProcessExitCode {
    let exit_code = match Cli::try_parse() {
        Ok(cli) => dispatch(&cli),
        Err(error) => explain(&error),
    };
    exit_code.into()
}

fn dispatch(cli: &Cli) -> ExitCode {
    match &cli.command {
        Command::Run(args) => run::run(cli, args),
        Command::Demo(args) => demo::demo(args),
        Command::Completions(args) => console::print(&completions::script(args.shell)),
    }
}

/// Shows help and version on standard output, mistakes on standard error.
fn explain(error: &clap::Error) -> ExitCode {
    // Nobody is left to hear that nobody listens.
    error.print().ok();
    if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done }
}
