//! The program `loopwright`.

use std::error::Error;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode as ProcessExitCode;

use clap::Parser as _;
use loopwright_cli::args::{Cli, Command, RunArgs};
use loopwright_cli::completions;
use loopwright_cli::config::{Config, ConfigError, Sources};
use loopwright_cli::exit::ExitCode;
use loopwright_cli::prompt::StdinKind;

fn main() -> ProcessExitCode {
    let exit_code = match Cli::try_parse() {
        Ok(cli) => dispatch(&cli),
        Err(error) => explain(&error),
    };
    exit_code.into()
}

fn dispatch(cli: &Cli) -> ExitCode {
    match &cli.command {
        Command::Run(args) => run(cli, args),
        Command::Demo(_) => not_wired("demo"),
        Command::Completions(args) => print(&completions::script(args.shell)),
    }
}

/// Shows help and version on standard output, mistakes on standard error.
fn explain(error: &clap::Error) -> ExitCode {
    // Nobody is left to hear that nobody listens.
    error.print().ok();
    if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done }
}

fn run(cli: &Cli, args: &RunArgs) -> ExitCode {
    let flags = args.flags(cli.config.as_deref());
    let loaded = match sources().and_then(|sources| Config::load(flags, &sources)) {
        Ok(loaded) => loaded,
        Err(error @ ConfigError::Workdir { .. }) => return fail(&error, ExitCode::Usage),
        Err(error) => return fail(&error, ExitCode::Config),
    };
    for warning in &loaded.warnings {
        tell(&format!("warning: {warning}"));
    }
    match args.prompt().read(stdin_kind(), io::stdin().lock()) {
        Ok(_) => not_wired("run"),
        Err(error) => fail(&error, ExitCode::Usage),
    }
}

fn sources() -> Result<Sources, ConfigError> {
    Sources::from_process().map_err(|source| ConfigError::Workdir { path: ".".into(), source })
}

fn stdin_kind() -> StdinKind {
    if io::stdin().is_terminal() { StdinKind::Terminal } else { StdinKind::Piped }
}

fn not_wired(command: &str) -> ExitCode {
    tell(&format!("loopwright {command} is not wired to an agent yet"));
    ExitCode::Internal
}

fn fail(error: &dyn Error, exit_code: ExitCode) -> ExitCode {
    tell(&format!("error: {error}"));
    let mut cause = error.source();
    while let Some(error) = cause {
        tell(&format!("  caused by: {error}"));
        cause = error.source();
    }
    exit_code
}

fn tell(line: &str) {
    writeln!(io::stderr(), "{line}").ok();
}

/// Writes to standard output; a reader that hangs up has read enough.
fn print(bytes: &[u8]) -> ExitCode {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error, ExitCode::Internal),
        _ => ExitCode::Done,
    }
}
