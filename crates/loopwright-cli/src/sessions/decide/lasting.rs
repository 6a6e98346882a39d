//! Decisions that hold from now on: rules of the user for the project of the session.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use loopwright_core::{AgentState, BoxError, PendingApproval};
use loopwright_permissions::{Decision, Mode};
use loopwright_sessions::SessionHeader;

use super::UserDecision;
use crate::approval::rules_for;
use crate::args::Cli;
use crate::commands::are_confined;
use crate::console;
use crate::load_config::configured;
use crate::permissions::{RunPermissions, is_confined};
use crate::render::sanitize_terminal;
use crate::session::SessionsError;

/// A decision with the rules that keep it.
#[derive(Debug)]
pub(super) struct LastingDecision {
    permissions: RunPermissions,
    workdir: PathBuf,
    decision: Decision,
    rules: Vec<String>,
}

impl LastingDecision {
    /// Finds the rules that decide about such calls from now on.
    pub(super) fn of(
        cli: &Cli,
        header: &SessionHeader,
        state: &AgentState,
        asked: &PendingApproval<'_>,
        decided: &UserDecision,
    ) -> Result<Self, SessionsError> {
        let decision = match decided {
            UserDecision::Approve(None) => Decision::Allow,
            UserDecision::Deny(_) | UserDecision::Stop(_) => Decision::Deny,
            _ => {
                return Err(usage(
                    "`--always` needs `approve` without arguments, `deny` or `stop`",
                ));
            }
        };
        let workdir = header.workdir.as_deref().map(PathBuf::from).unwrap_or_default();
        let (sources, config) = configured(cli, &workdir, None).map_err(settings)?;
        let permissions = RunPermissions::of(&config, &sources).map_err(settings)?;
        let confined = is_confined(&asked.call.name, are_confined(&config.sandbox));
        // The run may have asked in a stricter mode than the one that is configured.
        let policy = permissions.policy();
        let policy = policy.with_mode(Mode::Ask).unwrap_or(policy);
        let rules = rules_for(&policy, state, asked, confined);
        if rules.is_empty() {
            return Err(usage("no rule can cover this call; omit `--always`"));
        }
        Ok(Self { permissions, workdir, decision, rules })
    }

    /// Shows the rules, and asks for confirmation.
    pub(super) fn is_confirmed(&self) -> Result<bool, SessionsError> {
        if !io::stdin().is_terminal() {
            let text = format!("pass `--yes` to confirm the rule: {}", self.lines().join("; "));
            return Err(SessionsError::Usage(text));
        }
        self.lines().iter().for_each(|line| console::tell(&format!("  {line}")));
        console::tell("from now on? [y/N]");
        let mut answer = String::new();
        Ok(io::stdin().lock().read_line(&mut answer).is_ok()
            && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Stores the rules.
    pub(super) fn keep(&self) -> Result<(), SessionsError> {
        self.permissions.decide_always(self.decision, &self.rules).map_err(settings)?;
        self.lines().iter().for_each(|line| console::tell(&format!("from now on: {line}")));
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        let workdir = self.workdir.display();
        let line = |rule| sanitize_terminal(&format!("{} {rule} in {workdir}", self.decision));
        self.rules.iter().map(line).collect()
    }
}

fn settings(error: impl Into<BoxError>) -> SessionsError {
    SessionsError::Settings(error.into())
}

fn usage(text: &str) -> SessionsError {
    SessionsError::Usage(text.to_owned())
}
