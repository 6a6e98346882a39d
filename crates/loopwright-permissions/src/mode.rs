//! Permission modes: the decisions about calls that no rule matches.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The decision about calls that no rule matches.
///
/// Modes parse from their own names and from those of Claude Code:
///
/// ```
/// use loopwright_permissions::Mode;
///
/// assert_eq!("accept-edits".parse(), Ok(Mode::AcceptEdits));
/// assert_eq!("bypassPermissions".parse(), Ok(Mode::Unconfined));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Mode {
    /// Reads only. Tools that write files are denied even if a rule allows them. Commands run if the sandbox makes
    /// their folder read-only.
    Plan,
    /// Reads in the folders run; all other calls need approval.
    #[default]
    Ask,
    /// As `Ask`, but writes in the folders run, too.
    AcceptEdits,
    /// As `AcceptEdits`, but sandboxed commands run, too.
    Auto,
    /// Calls that no rule allows are denied, including those that need approval.
    Deny,
    /// All calls run unless a rule denies them or requires approval.
    Unconfined,
}

/// An unknown name of a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode `{0}`; available: plan, ask, accept-edits, auto, deny, unconfined")]
pub struct UnknownMode(pub String);

impl Mode {
    /// All modes.
    pub const ALL: [Self; 6] =
        [Self::Plan, Self::Ask, Self::AcceptEdits, Self::Auto, Self::Deny, Self::Unconfined];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Auto => "auto",
            Self::Deny => "deny",
            Self::Unconfined => "unconfined",
        }
    }

    /// Returns the name that Claude Code gives the mode.
    pub fn claude_name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Auto => "auto",
            Self::Deny => "dontAsk",
            Self::Unconfined => "bypassPermissions",
        }
    }

    /// Returns the mode that a source which may only tighten makes of this one.
    pub(crate) fn tightened_by(self, wanted: Self) -> Self {
        if wanted.looseness() < self.looseness() { wanted } else { self }
    }

    fn looseness(self) -> u8 {
        match self {
            // Each of them denies something that the other one does not.
            Self::Plan | Self::Deny => 0,
            Self::Ask => 1,
            Self::AcceptEdits => 2,
            Self::Auto => 3,
            Self::Unconfined => 4,
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let is_name = |mode: &Self| mode.name() == name || mode.claude_name() == name;
        Self::ALL.into_iter().find(is_name).ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

impl TryFrom<String> for Mode {
    type Error = UnknownMode;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.name().to_owned()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
