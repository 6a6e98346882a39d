//! Reasons for the end of an execution.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The reason why an execution ended, declared from strongest to weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StopReason {
    /// A policy refused to continue after an error.
    #[serde(rename = "error")]
    ErrorForbade,
    /// A tool or hook requested the stop.
    #[serde(rename = "stop_requested")]
    StopRequested,
    /// The user requested the stop.
    #[serde(rename = "user_requested")]
    UserRequested,
    /// The step limit was reached.
    #[serde(rename = "steps_limit")]
    StepsLimitReached,
    /// The token limit was reached.
    #[serde(rename = "token_limit")]
    TokenLimitReached,
    /// The time limit was reached, or the deadline has passed; see the signal's context.
    #[serde(rename = "time_limit")]
    TimeLimitReached,
    /// The cost limit was reached.
    #[serde(rename = "cost_limit")]
    CostLimitReached,
    /// The limit of retries was reached.
    #[serde(rename = "retry_limit")]
    RetryLimitReached,
    /// The model stopped writing for a reason that is configured as final.
    #[serde(rename = "finish_reason")]
    FinishReasonReceived,
    /// The model gave its final answer.
    #[serde(rename = "completed")]
    Completed,
    /// No reason was given.
    #[serde(rename = "unknown")]
    Unknown,
}

/// Whether a continuation request can overrule a reason to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Nothing overrules it.
    Hard,
    /// A continuation request, a veto or a steered message causes another step.
    Soft,
}

impl StopReason {
    /// All reasons, strongest first.
    pub const ALL: [Self; 11] = [
        Self::ErrorForbade,
        Self::StopRequested,
        Self::UserRequested,
        Self::StepsLimitReached,
        Self::TokenLimitReached,
        Self::TimeLimitReached,
        Self::CostLimitReached,
        Self::RetryLimitReached,
        Self::FinishReasonReceived,
        Self::Completed,
        Self::Unknown,
    ];

    /// Returns the name of the reason in events, logs and configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ErrorForbade => "error",
            Self::StopRequested => "stop_requested",
            Self::UserRequested => "user_requested",
            Self::StepsLimitReached => "steps_limit",
            Self::TokenLimitReached => "token_limit",
            Self::TimeLimitReached => "time_limit",
            Self::CostLimitReached => "cost_limit",
            Self::RetryLimitReached => "retry_limit",
            Self::FinishReasonReceived => "finish_reason",
            Self::Completed => "completed",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the rank among reasons: the lower, the stronger.
    pub fn priority(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(Self::ALL.len())
    }

    /// Returns the strength of the reason: whether a continuation request can overrule it.
    ///
    /// ```
    /// use loopwright_core::{StopReason, Strength};
    ///
    /// assert_eq!(StopReason::StopRequested.strength(), Strength::Soft);
    /// assert_eq!(StopReason::CostLimitReached.strength(), Strength::Hard);
    /// ```
    pub fn strength(self) -> Strength {
        match self {
            Self::StopRequested | Self::FinishReasonReceived | Self::Completed | Self::Unknown => {
                Strength::Soft
            }
            _ => Strength::Hard,
        }
    }

    /// Returns `true` for a limit of a budget: steps, tokens, time or cost.
    pub fn is_limit(self) -> bool {
        matches!(
            self,
            Self::StepsLimitReached
                | Self::TokenLimitReached
                | Self::TimeLimitReached
                | Self::CostLimitReached
        )
    }

    /// Returns `true` if a run with this reason was stopped early: its status is `Stopped`.
    pub fn is_forced(self) -> bool {
        !matches!(self, Self::Completed | Self::FinishReasonReceived)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request to stop, with its source.
///
/// ```
/// use loopwright_core::{StopReason, StopSignal};
///
/// let signal = StopSignal::requested("night_shift", "no work after midnight").with("hour", 0);
/// assert_eq!(signal.reason, StopReason::StopRequested);
/// assert_eq!(signal.to_string(), "stop_requested: no work after midnight");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopSignal {
    /// The reason.
    pub reason: StopReason,
    /// The message, for people.
    #[serde(default)]
    pub message: String,
    /// Details for programs, such as the limit and the usage.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<Cow<'static, str>, Value>,
    /// The hook, tool or guard that raised it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// Whether nothing overrules the signal, even if its reason is soft.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

impl StopSignal {
    /// Creates a signal with its reason and source.
    pub fn new(
        reason: StopReason,
        source: impl Into<Arc<str>>,
        message: impl Into<String>,
    ) -> Self {
        let source = Some(source.into()).filter(|it| !it.is_empty());
        let message = message.into();
        Self { reason, message, context: BTreeMap::new(), source, is_final: false }
    }

    /// Creates a signal that requests a stop.
    pub fn requested(source: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self::new(StopReason::StopRequested, source, message)
    }

    /// Creates a signal for a stop that the user requested.
    pub fn user_requested(message: impl Into<String>) -> Self {
        Self::new(StopReason::UserRequested, "user", message)
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.context.insert(key.into(), value.into());
        self
    }

    /// Makes the signal final, whatever its reason.
    ///
    /// ```
    /// use loopwright_core::{StopSignal, Strength};
    ///
    /// let signal = StopSignal::requested("policy", "not allowed").into_final();
    /// assert_eq!(signal.strength(), Strength::Hard);
    /// ```
    #[must_use]
    pub fn into_final(self) -> Self {
        Self { is_final: true, ..self }
    }

    /// Returns the strength of the reason, or [`Strength::Hard`] if the signal is final.
    pub fn strength(&self) -> Strength {
        if self.is_final { Strength::Hard } else { self.reason.strength() }
    }

    /// Returns `true` if the signal is stronger than another one: hard ones before soft ones, then
    /// by reason.
    pub(crate) fn outranks(&self, other: &Self) -> bool {
        let rank = |it: &Self| (it.strength() == Strength::Soft, it.reason);
        rank(self) < rank(other)
    }

    /// Returns the strongest of several signals; the first of equally strong ones.
    pub fn strongest<'a>(signals: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        signals.into_iter().min_by_key(|signal| signal.reason)
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason.as_str())?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}
