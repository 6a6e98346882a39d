//! The verdict of a policy about a call.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::decision::Decision;
use crate::mode::Mode;
use crate::rule::Rule;

/// A decision about a call, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The reason.
    pub reason: Reason,
    /// The other rules that matched the call or a part of it.
    pub others: Vec<Arc<Rule>>,
}

/// The reason for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// A rule matches.
    Rule(Arc<Rule>),
    /// No rule matches, and the mode decides.
    Mode(Mode),
    /// A rule could match, depending on what is known only when the command runs.
    Possible(Arc<Rule>),
    /// A part of the command has an effect that is not visible in its text.
    Unreadable(&'static str),
    /// An argument makes the command run another program or write a file, and no rule that allows the command names it.
    Unnamed {
        /// The argument.
        argument: String,
        /// What the argument does.
        reason: &'static str,
    },
    /// A part of the call is decided about separately: the access beyond the sandbox that a command requests, an agent that
    /// a tool starts, or a skill of this agent.
    Need {
        /// The part, as text.
        need: String,
        /// The reason for the decision about it.
        reason: Box<Reason>,
    },
    /// The definition of the agent does not list the tool or the call.
    NotListed {
        /// The location of the list.
        place: String,
    },
}

impl Verdict {
    /// Returns the rule that decided, or `None` if no rule did.
    pub fn rule(&self) -> Option<&Arc<Rule>> {
        self.reason.rule()
    }
}

impl Reason {
    /// Returns the rule that is the reason, or `None` if no rule is.
    pub fn rule(&self) -> Option<&Arc<Rule>> {
        match self {
            Self::Rule(rule) | Self::Possible(rule) => Some(rule),
            Self::Need { reason, .. } => reason.rule(),
            _ => None,
        }
    }

    /// Returns `true` if a rule decided: not a mode, and not that it could match.
    pub(crate) fn is_rule(&self) -> bool {
        match self {
            Self::Rule(_) => true,
            Self::Need { reason, .. } => reason.is_rule(),
            _ => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.decision, self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "rule `{}` of {}", rule.text, rule.place()),
            Self::Mode(mode) => write!(f, "no rule matches, mode `{mode}`"),
            Self::Possible(rule) => {
                write!(f, "rule `{}` of {} could match", rule.text, rule.place())
            }
            Self::Need { need, reason } => write!(f, "{need}: {reason}"),
            Self::Unnamed { argument, reason } => {
                write!(f, "{reason}, and no allow rule names this argument: `{argument}`")
            }
            Self::Unreadable(reason) => f.write_str(reason),
            Self::NotListed { place } => write!(f, "not among the tools of {place}"),
        }
    }
}
