//! Decisions that hold from now on: rules of the user for the session, or for its project.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use loopwright_core::{AgentState, BoxError, PendingApproval};
use loopwright_permissions::Decision;
use loopwright_sessions::SessionHeader;

use super::UserDecision;
use crate::approval::{Scope, lasting_rules};
use crate::args::Cli;
use crate::chosen_rules::ChosenRule;
use crate::console;
use crate::load_config::configured;
use crate::permissions::RunPermissions;
use crate::render::sanitize_terminal;
use crate::session::SessionsError;

/// A decision with the rules that keep it.
#[derive(Debug)]
pub(super) struct LastingDecision {
    permissions: RunPermissions,
    workdir: PathBuf,
    scope: Scope,
    decision: Decision,
    rules: Vec<String>,
}

/// A call that waits in a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting<'a> {
    pub(super) header: &'a SessionHeader,
    pub(super) state: &'a AgentState,
    pub(super) asked: &'a PendingApproval<'a>,
}

impl LastingDecision {
    /// Finds the rules that decide about such calls from now on.
    pub(super) fn of(
        cli: &Cli,
        waiting: Waiting<'_>,
        decided: &UserDecision,
        scope: Scope,
    ) -> Result<Self, SessionsError> {
        let Waiting { header, state, asked } = waiting;
        let option = match scope {
            Scope::Project => "--always",
            Scope::Session => "--session",
        };
        let decision = match decided {
            UserDecision::Approve(None) => Decision::Allow,
            UserDecision::Deny(_) | UserDecision::Stop(_) => Decision::Deny,
            _ => {
                return Err(SessionsError::Usage(format!(
                    "`{option}` works only with `deny`, `stop`, or `approve` without arguments"
                )));
            }
        };
        let workdir = header.workdir.as_deref().map(PathBuf::from).unwrap_or_default();
        let (sources, config) = configured(cli, &workdir, None).map_err(settings)?;
        let found = lasting_rules(&config, &sources, state, asked).map_err(settings)?;
        let (permissions, rules) = found;
        if rules.is_empty() {
            return Err(SessionsError::Usage(format!(
                "no rule can cover this call; omit `{option}`"
            )));
        }
        Ok(Self { permissions, workdir, scope, decision, rules })
    }

    /// Shows the rules, and asks for confirmation.
    pub(super) fn is_confirmed(&self) -> Result<bool, SessionsError> {
        if !io::stdin().is_terminal() {
            let text = format!("pass `--yes` to confirm the rule: {}", self.lines().join("; "));
            return Err(SessionsError::Usage(text));
        }
        self.lines().iter().for_each(|line| console::tell(&format!("  {line}")));
        Ok(console::is_agreed(&format!("{}?", self.period())))
    }

    /// Returns the rules that are recorded in the session, together with the decision.
    pub(super) fn of_session(&self) -> Vec<ChosenRule> {
        match self.scope {
            Scope::Project => Vec::new(),
            Scope::Session => ChosenRule::list(self.decision, &self.rules),
        }
    }

    /// Stores the rules for the project, and tells about all of them.
    pub(super) fn keep(&self) -> Result<(), SessionsError> {
        if self.scope == Scope::Project {
            self.permissions.decide_always(self.decision, &self.rules).map_err(settings)?;
        }
        let period = self.period();
        self.lines().iter().for_each(|line| console::tell(&format!("{period}: {line}")));
        Ok(())
    }

    fn period(&self) -> &'static str {
        match self.scope {
            Scope::Project => "from now on",
            Scope::Session => "for the rest of the session",
        }
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
