//! Names of waiting calls.

use loopwright_core::{PendingApproval, RequestKind};

use crate::render::{single_line, summary};

/// Returns the address of a call that waits, as it is typed.
pub(crate) fn address(asked: &PendingApproval<'_>) -> String {
    PendingApproval::format_address(&asked.address())
}

/// Returns the kind of a request for users and programs: `approval`, `question`, `result` or `interrupted`.
pub(crate) fn kind(asked: &PendingApproval<'_>) -> &'static str {
    if asked.question.is_recovery() { "interrupted" } else { asked.kind.as_str() }
}

/// Returns the decisions that a call takes, as they are typed.
pub(crate) fn decisions(asked: &PendingApproval<'_>) -> &'static str {
    decisions_of(match asked.kind {
        RequestKind::Question { .. } => "question",
        RequestKind::External { .. } => "result",
        _ if asked.question.is_recovery() => "interrupted",
        _ => "approval",
    })
}

/// Returns the decisions about a call that waits for this kind of answer, as reports name it.
pub(crate) fn decisions_of(kind: &str) -> &'static str {
    match kind {
        "question" => "reply ANSWER|decline|cancel|stop",
        "result" => "result JSON|error TEXT|deny|stop",
        "interrupted" => "retry|done [RESULT]|skip|stop",
        _ => "approve [JSON]|deny [REASON]|stop",
    }
}

/// Names a call that waits: its tool, what it was asked to do, and the sub-agent if one makes it.
pub(crate) fn waiting_call(asked: &PendingApproval<'_>) -> String {
    let call = &asked.call;
    let does =
        single_line(&format!("{} {}", call.name, summary(&call.arguments, ASKED)), ASKED * 2);
    match asked.path.last() {
        Some(segment) => format!("{} of {}", does.trim_end(), single_line(&segment.agent, 30)),
        None => does.trim_end().to_owned(),
    }
}

/// How much of the arguments of a call that waits is shown, in characters.
const ASKED: usize = 80;
