//! What each backend of the sandbox enforces.

use std::fmt::Write as _;

use loopwright_sandbox::{
    Backend, BackendSandbox, Enforcement, Guarantee, Guarantees, Sandbox as _, Unavailable,
};

use crate::console;
use crate::exit::ExitCode;

/// Tries every backend.
pub(super) async fn show() -> ExitCode {
    let mut found = Vec::new();
    for backend in Backend::ALL {
        found.push((backend, BackendSandbox::new(backend).probe().await));
    }
    console::print(table(&found).as_bytes())
}

/// A column for each backend that works, and the reason for each that does not.
fn table(found: &[(Backend, Result<Guarantees, Unavailable>)]) -> String {
    let working: Vec<(Backend, &Guarantees)> = found
        .iter()
        .filter_map(|(backend, result)| Some((*backend, result.as_ref().ok()?)))
        .collect();
    let mut text = format!("{:20}", "");
    for (backend, _) in &working {
        write!(text, "{:>12}", backend.name()).ok();
    }
    for guarantee in Guarantee::ALL {
        write!(text, "\n{:20}", guarantee.name()).ok();
        for (_, guarantees) in &working {
            write!(text, "{:>12}", word(guarantees.strength(guarantee))).ok();
        }
    }
    text.push('\n');
    for (backend, result) in found {
        if let Err(unavailable) = result {
            write!(
                text,
                "\n{backend} does not work here: {}\n  {}\n",
                unavailable.reason, unavailable.remedy
            )
            .ok();
        }
    }
    let default = working
        .iter()
        .find(|(backend, _)| matches!(backend, Backend::Namespaces | Backend::Bubblewrap));
    match default {
        Some((backend, _)) => write!(text, "\nCommands run in {backend}.\n").ok(),
        None => write!(text, "\nCommands are disabled; to use a weaker backend, name it.\n").ok(),
    };
    text
}

const fn word(strength: Option<Enforcement>) -> &'static str {
    match strength {
        Some(Enforcement::Enforced) => "yes",
        Some(Enforcement::BestEffort) => "tries",
        None => "no",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_that_does_not_work_is_named_with_its_remedy() {
        let unavailable = Unavailable {
            driver: Backend::Bubblewrap,
            reason: "there is no program".to_owned(),
            remedy: "install it".to_owned(),
        };
        let text = table(&[
            (Backend::Namespaces, Ok(Guarantees::all())),
            (Backend::Bubblewrap, Err(unavailable)),
        ]);
        assert!(
            text.starts_with(
                "                      namespaces\nfile writes                  yes\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with(
                "\nbubblewrap does not work here: there is no program\n  install it\n\nCommands run in namespaces.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn without_a_strong_tier_commands_are_refused() {
        let text = table(&[(Backend::Landlock, Ok(Guarantees::default()))]);
        assert!(
            text.ends_with("Commands are disabled; to use a weaker backend, name it.\n"),
            "{text}"
        );
    }
}
