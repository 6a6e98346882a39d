//! The ending of a run, with its exit code.
//!
//! [`RunEnding::all`] lists every ending there is; `docs/exit-codes.md` shows the same list to people.

use loopwright_capabilities::structured::AnswerSchema;
use loopwright_core::{
    AgentState, Execution, ExecutionStatus, FailureKind, Step, StopReason, StopSignal,
    messages::FinishReason,
};

use crate::exit::ExitCode;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnding {
    /// The model gave its final answer.
    Answered,
    /// The model gave its final answer, and tools had failed on the way.
    AnsweredWithToolErrors,
    /// The model gave its final answer after calls that were denied, all of them.
    AnsweredAfterDenial,
    /// The model gave its final answer, and the command that verifies the work failed.
    Unverified,
    /// The model ended without an answer.
    Empty,
    /// The last answer was cut off at the limit of its length.
    CutOff,
    /// The provider's filter cut the last answer off.
    Filtered,
    /// The model declined.
    Refused,
    /// A guard declared that the model's reason to stop writing ends the run.
    FinishReason,
    /// The run was stopped.
    Stopped(StopReason),
    /// A policy did not continue after the provider had failed.
    ForbiddenAfterProvider,
    /// No answer of the model matched the schema.
    SchemaUnmet,
    /// `SIGTERM` or `SIGHUP` stopped the run.
    Terminated,
    /// The reader of standard output went away, and with it the reason to continue.
    OutputClosed,
    /// The run failed.
    Failed(FailureKind),
    /// A user has to decide about a call.
    Paused,
    /// The run gave up in the middle, which it never should.
    Unfinished,
}

/// Why this process asked a run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// `SIGINT`, which is what Ctrl-C sends.
    Interrupt,
    /// `SIGTERM`, or `SIGHUP`: the terminal went away.
    Terminate,
    /// No process reads standard output any more.
    HangUp,
}

const KINDS: [FailureKind; 17] = [
    FailureKind::NoModel,
    FailureKind::Model,
    FailureKind::ContextLength,
    FailureKind::RateLimit,
    FailureKind::Timeout,
    FailureKind::Network,
    FailureKind::Validation,
    FailureKind::Tool,
    FailureKind::UnknownTool,
    FailureKind::InvalidArguments,
    FailureKind::Hook,
    FailureKind::ContextCompile,
    FailureKind::Driver,
    FailureKind::Journal,
    FailureKind::Panic,
    FailureKind::CrashLoop,
    FailureKind::Other,
];

impl RunEnding {
    /// Reads the ending off a state; the interruption tells who asked the run to stop.
    pub fn of(state: &AgentState, interruption: Option<Interruption>) -> Self {
        match state.status() {
            ExecutionStatus::Completed => Self::natural(state),
            ExecutionStatus::Stopped(signal) => Self::forced(state, signal, interruption),
            ExecutionStatus::Failed(failure) => Self::Failed(failure.kind),
            ExecutionStatus::Paused => Self::Paused,
            ExecutionStatus::Pending | ExecutionStatus::InProgress => Self::Unfinished,
        }
    }

    fn natural(state: &AgentState) -> Self {
        let step = state.last_step();
        let has_declined = step.and_then(Step::message).is_some_and(|it| it.refusal().is_some());
        match step.and_then(Step::finish_reason) {
            Some(FinishReason::Length) => Self::CutOff,
            Some(FinishReason::ContentFilter) => Self::Filtered,
            Some(FinishReason::Refusal) => Self::Refused,
            _ if has_declined => Self::Refused,
            _ if is_by_guard(state) => Self::FinishReason,
            _ if state.text().trim().is_empty() => Self::Empty,
            _ if was_denied(state) => Self::AnsweredAfterDenial,
            _ if state.had_tool_errors() => Self::AnsweredWithToolErrors,
            _ => Self::Answered,
        }
    }

    fn forced(state: &AgentState, signal: &StopSignal, interruption: Option<Interruption>) -> Self {
        match (signal.reason, interruption) {
            (StopReason::UserRequested, Some(Interruption::Terminate)) => Self::Terminated,
            (StopReason::UserRequested, Some(Interruption::HangUp)) => Self::OutputClosed,
            (StopReason::ErrorForbade, _) if is_after_provider(state) => {
                Self::ForbiddenAfterProvider
            }
            _ if AnswerSchema::is_unmet(state) => Self::SchemaUnmet,
            (reason, _) => Self::Stopped(reason),
        }
    }

    /// Returns the exit status.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Answered
            | Self::AnsweredWithToolErrors
            | Self::FinishReason
            | Self::OutputClosed => ExitCode::Done,
            Self::Empty => ExitCode::NoAnswer,
            Self::SchemaUnmet => ExitCode::SchemaMismatch,
            Self::Unverified => ExitCode::VerifyFailed,
            Self::CutOff => ExitCode::Limit,
            Self::AnsweredAfterDenial | Self::Filtered | Self::Refused => ExitCode::Denied,
            Self::Stopped(reason) => of_reason(reason),
            Self::ForbiddenAfterProvider => ExitCode::Provider,
            Self::Terminated => ExitCode::Terminated,
            Self::Failed(kind) => of_kind(kind),
            Self::Paused => ExitCode::NeedsInput,
            Self::Unfinished => ExitCode::Internal,
        }
    }

    /// Returns the word for it in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered | Self::AnsweredWithToolErrors => StopReason::Completed.as_str(),
            Self::AnsweredAfterDenial => "denied",
            Self::Unverified => "verify_failed",
            Self::SchemaUnmet => "schema_mismatch",
            Self::Empty => "empty",
            Self::CutOff => "length",
            Self::Filtered => "content_filter",
            Self::Refused => "refusal",
            Self::FinishReason => StopReason::FinishReasonReceived.as_str(),
            Self::Stopped(reason) => reason.as_str(),
            Self::ForbiddenAfterProvider => StopReason::ErrorForbade.as_str(),
            Self::Terminated => "terminated",
            Self::OutputClosed => "output_closed",
            Self::Failed(kind) => name_of_kind(kind),
            Self::Paused => "paused",
            Self::Unfinished => "incomplete",
        }
    }

    /// Returns the status that the state has.
    fn status(self) -> &'static str {
        match self {
            Self::Answered
            | Self::AnsweredWithToolErrors
            | Self::AnsweredAfterDenial
            | Self::Unverified
            | Self::Empty
            | Self::CutOff
            | Self::Filtered
            | Self::Refused
            | Self::FinishReason => "completed",
            Self::Stopped(_)
            | Self::ForbiddenAfterProvider
            | Self::SchemaUnmet
            | Self::Terminated
            | Self::OutputClosed => "stopped",
            Self::Failed(_) => "failed",
            Self::Paused => "paused",
            Self::Unfinished => "in_progress",
        }
    }

    /// Lists every ending.
    pub fn all() -> Vec<Self> {
        let natural = [
            Self::Answered,
            Self::AnsweredWithToolErrors,
            Self::FinishReason,
            Self::AnsweredAfterDenial,
            Self::Unverified,
            Self::Empty,
            Self::CutOff,
            Self::Filtered,
            Self::Refused,
        ];
        let forced = StopReason::ALL.into_iter().filter(|it| it.is_forced()).map(Self::Stopped);
        let others =
            [Self::ForbiddenAfterProvider, Self::SchemaUnmet, Self::Terminated, Self::OutputClosed];
        let failed = KINDS.map(Self::Failed);
        let unfinished = [Self::Paused, Self::Unfinished];
        natural.into_iter().chain(forced).chain(others).chain(failed).chain(unfinished).collect()
    }

    /// Says for people when a run ends so.
    fn meaning(self) -> &'static str {
        match self {
            Self::Answered => "the model gave its final answer",
            Self::AnsweredWithToolErrors => {
                "the model gave its final answer although some calls had failed or were blocked; \
                    `errors` lists them"
            }
            Self::AnsweredAfterDenial => {
                "the calls before the final answer were denied; `denials` lists them"
            }
            Self::Unverified => {
                "the model gave its final answer, and the `--verify` command failed; `verification` has its output"
            }
            Self::Empty => "the model returned no answer",
            Self::CutOff => "the answer was cut off at the length limit",
            Self::Filtered => "the provider's filter cut off the answer",
            Self::Refused => "the model declined to answer",
            Self::FinishReason => "a guard stopped the run because of the model's finish reason",
            Self::Stopped(reason) => meaning_of_reason(reason),
            Self::ForbiddenAfterProvider => "a policy stopped the run after a provider error",
            Self::SchemaUnmet => "no answer matched `--schema`, even after three corrections",
            Self::Terminated => "`SIGTERM` or `SIGHUP`; the run was cancelled cleanly",
            Self::OutputClosed => "the reader closed standard output",
            Self::Failed(kind) => meaning_of_kind(kind),
            Self::Paused => "a call is waiting for a decision, and no terminal is attached",
            Self::Unfinished => "the run ended in the middle of a step, which is a bug",
        }
    }

    /// Renders the list as a table for `docs/exit-codes.md`.
    pub fn table() -> String {
        let head =
            "| `status` | `stop_reason` | when | exit code |\n|---|---|---|---|\n".to_owned();
        Self::all().into_iter().fold(head, |table, it| {
            let (status, name, meaning) = (it.status(), it.name(), it.meaning());
            table + &format!("| {status} | `{name}` | {meaning} | {} |\n", it.exit_code().code())
        })
    }
}

fn is_by_guard(state: &AgentState) -> bool {
    state.stop_signal().is_some_and(|it| it.reason == StopReason::FinishReasonReceived)
}

fn is_after_provider(state: &AgentState) -> bool {
    let failure = state.last_step().and_then(Step::failure);
    failure.is_some_and(|it| of_kind(it.kind) == ExitCode::Provider)
}

/// Returns `true` if the last calls before the answer were denied, all of them: by a rule, a hook, a person or a deadline.
fn was_denied(state: &AgentState) -> bool {
    let mut steps = state.execution().into_iter().flat_map(Execution::steps_for_message);
    let last = steps.rfind(|step| step.has_tool_calls());
    last.is_some_and(|step| step.tool_executions().all(|(_, it)| it.was_blocked()))
}

fn of_reason(reason: StopReason) -> ExitCode {
    match reason {
        StopReason::StopRequested => ExitCode::Denied,
        StopReason::UserRequested => ExitCode::Interrupted,
        StopReason::StepsLimitReached
        | StopReason::TokenLimitReached
        | StopReason::TimeLimitReached
        | StopReason::CostLimitReached
        | StopReason::RetryLimitReached => ExitCode::Limit,
        StopReason::Completed | StopReason::FinishReasonReceived => ExitCode::Done,
        _ => ExitCode::Internal,
    }
}

fn meaning_of_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::ErrorForbade => "a policy stopped the run after another error",
        StopReason::StopRequested => "a tool or a hook stopped the run",
        StopReason::UserRequested => "Ctrl-C; the run was cancelled cleanly",
        StopReason::StepsLimitReached => "the limit `--max-steps` was reached",
        StopReason::TokenLimitReached => "the limit `--max-tokens` was reached",
        StopReason::TimeLimitReached => "the limit `--max-seconds` was reached",
        StopReason::CostLimitReached => "the limit `--max-cost` was reached",
        StopReason::RetryLimitReached => "a retry limit was reached",
        _ => "the run was stopped for an unknown reason",
    }
}

fn of_kind(kind: FailureKind) -> ExitCode {
    match kind {
        FailureKind::NoModel => ExitCode::NoModel,
        FailureKind::Model
        | FailureKind::ContextLength
        | FailureKind::RateLimit
        | FailureKind::Timeout
        | FailureKind::Network
        | FailureKind::Validation => ExitCode::Provider,
        _ => ExitCode::Internal,
    }
}

fn name_of_kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::NoModel => "no_model",
        FailureKind::Model => "model",
        FailureKind::ContextLength => "context_length",
        FailureKind::RateLimit => "rate_limit",
        FailureKind::Timeout => "timeout",
        FailureKind::Network => "network",
        FailureKind::Validation => "validation",
        FailureKind::Tool => "tool",
        FailureKind::UnknownTool => "unknown_tool",
        FailureKind::InvalidArguments => "invalid_arguments",
        FailureKind::Hook => "hook",
        FailureKind::ContextCompile => "context",
        FailureKind::Driver => "driver",
        FailureKind::Journal => "journal",
        FailureKind::Panic => "panic",
        FailureKind::CrashLoop => "crash_loop",
        _ => "other",
    }
}

fn meaning_of_kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::NoModel => "no model is selected, or the provider rejects the key",
        FailureKind::Model => "the provider gave no response, or an invalid one",
        FailureKind::ContextLength => {
            "the request is too long for the model, and cannot be compacted further"
        }
        FailureKind::RateLimit => "the provider's rate limit was reached, even after all retries",
        FailureKind::Timeout => "the provider took too long, even after all retries",
        FailureKind::Network => "the provider could not be reached, even after all retries",
        FailureKind::Validation => "the model's answer does not match the required schema",
        FailureKind::Tool => "a tool failed, and the failure ended the run",
        FailureKind::UnknownTool => "an unknown tool was called, which ended the run",
        FailureKind::InvalidArguments => "a tool call had invalid arguments, which ended the run",
        FailureKind::Hook => "a hook failed",
        FailureKind::ContextCompile => "the context for the model could not be compiled",
        FailureKind::Driver => "the driver failed",
        FailureKind::Journal => {
            "the journal rejected a change, was unavailable or lost its lease on the session"
        }
        FailureKind::Panic => "a driver or a hook panicked",
        FailureKind::CrashLoop => "the same step was interrupted too often",
        _ => "anything else",
    }
}

#[cfg(test)]
mod tests;
