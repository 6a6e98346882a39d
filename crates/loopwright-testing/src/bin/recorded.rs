//! Checks every wire against a folder of recorded traffic.
//!
//! `recorded DIR [--quick] [--only SUBSTRING] [--verbose]` prints problems. It exits with 0 if
//! there are none, with 1 if there are some, and with 2 if the arguments or the folder are invalid.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use loopwright_testing::recorded::{CheckOptions, Depth, check_folder};

const USAGE: &str = "usage: recorded DIR [--quick] [--only SUBSTRING] [--verbose]";

struct Arguments {
    folder: PathBuf,
    options: CheckOptions,
    verbose: bool,
}

impl Arguments {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Option<Self> {
        let (mut folder, mut options, mut verbose) = (None, CheckOptions::default(), false);
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.depth = Depth::Quick,
                "--only" => options.only = Some(arguments.next()?),
                "--verbose" => verbose = true,
                flag if flag.starts_with('-') => return None,
                _ if folder.is_some() => return None,
                path => folder = Some(PathBuf::from(path)),
            }
        }
        Some(Self { folder: folder?, options, verbose })
    }
}

fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(env::args().skip(1)) else {
        return say(&mut io::stderr(), USAGE, ExitCode::from(2));
    };
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            let (mut text, mut cause) = (error.to_string(), error.source());
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            say(&mut io::stderr(), &text, ExitCode::from(2))
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(check_folder(&arguments.folder, &arguments.options))?;
    let mut out = io::stdout().lock();
    if arguments.verbose {
        for note in &report.notes {
            writeln!(out, "note: {note}")?;
        }
    }
    writeln!(out, "{report}")?;
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(out: &mut dyn io::Write, text: &str, code: ExitCode) -> ExitCode {
    match writeln!(out, "{text}") {
        Ok(()) => code,
        Err(_) => ExitCode::from(2),
    }
}
