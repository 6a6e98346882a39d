//! The command `doctor`, which checks this machine.

mod checkup;
mod sandbox;

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::checkup::{Check, Outcome};
use crate::args::Cli;
use crate::args::sandbox::{DoctorArgs, DoctorCommand};
use crate::console;
use crate::exit::ExitCode;
use crate::render::{columns, count, sanitize_terminal, wrap};
use crate::report::SCHEMA_VERSION;
use crate::run::with_runtime;

/// Shows what was asked for: one part, or everything.
pub fn doctor(cli: &Cli, args: &DoctorArgs) -> ExitCode {
    match args.command {
        Some(DoctorCommand::Sandbox) => with_runtime(async { sandbox::show().await }),
        None => with_runtime(async {
            let checks = Box::pin(checkup::checkup(cli)).await;
            let printed = if args.json {
                console::print_json(&in_json(&checks))
            } else {
                console::print_styled(&in_words(&checks, columns().min(WIDEST)))
            };
            if printed == ExitCode::Done { verdict(&checks) } else { printed }
        }),
    }
}

/// The widest line that is easy to read.
const WIDEST: usize = 100;

fn verdict(checks: &[Check]) -> ExitCode {
    if problems(checks) == 0 { ExitCode::Done } else { ExitCode::Internal }
}

fn problems(checks: &[Check]) -> usize {
    checks.iter().filter(|it| matches!(it.outcome, Outcome::Problem { .. })).count()
}

/// A line for each check, under the name of its area.
fn in_words(checks: &[Check], width: usize) -> String {
    const MARGIN: usize = 13;
    let mut text = String::new();
    let mut last = "";
    for check in checks {
        let area = if check.area == last { "" } else { check.area };
        last = check.area;
        let (style, mark) = check.outcome.mark();
        let mut margin = format!("{area:10} {style}{mark}{style:#} ");
        // Writing into memory does not fail.
        for line in wrap(&check.told, width - MARGIN, 9) {
            writeln!(text, "{margin}{}", sanitize_terminal(&line)).ok();
            margin = " ".repeat(MARGIN);
        }
        if let Outcome::Problem { remedy } = &check.outcome {
            for line in wrap(remedy, width - MARGIN - 2, 9) {
                writeln!(text, "{margin}  {}", sanitize_terminal(&line)).ok();
            }
        }
    }
    let found = match problems(checks) {
        0 => "everything required works".to_owned(),
        some => format!("{} found", count(some as u64, "problem")),
    };
    format!("{text}\n{found}\n")
}

fn in_json(checks: &[Check]) -> Value {
    let check = |check: &Check| {
        json!({
            "area": check.area, "name": check.name, "outcome": check.outcome.word(),
            "message": check.told, "remedy": check.outcome.remedy(),
        })
    };
    let checks_as_json: Vec<Value> = checks.iter().map(check).collect();
    json!({
        "schema_version": SCHEMA_VERSION, "problems": problems(checks), "checks": checks_as_json,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Check> {
        let long = "is a text that has to be wrapped somewhere in the middle";
        vec![
            Check::good("keys", "openai", "OPENAI_API_KEY is set"),
            Check::absent("keys", "groq", long),
            Check::problem("sandbox", "", "commands are disabled", "install bubblewrap"),
        ]
    }

    #[test]
    fn an_area_is_named_once_and_a_problem_with_its_remedy() {
        let text = anstream::adapter::strip_str(&in_words(&some(), 50)).to_string();
        let expect = "\
keys       ✓ OPENAI_API_KEY is set
           - is a text that has to be wrapped
             somewhere in the middle
sandbox    ✗ commands are disabled
               install bubblewrap

1 problem found
";
        assert_eq!(text, expect);
    }

    #[test]
    fn only_a_problem_ends_with_1() {
        let checks = some();
        assert_eq!(verdict(&checks), ExitCode::Internal);
        assert_eq!(verdict(&checks[..2]), ExitCode::Done);
        assert_eq!(in_json(&checks)["problems"], 1);
        assert_eq!(
            in_json(&checks)["checks"][2],
            json!({
                "area": "sandbox", "name": "", "outcome": "problem",
                "message": "commands are disabled", "remedy": "install bubblewrap",
            })
        );
    }
}
