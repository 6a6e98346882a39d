//! The result of a command for the model.

use loopwright_sandbox::{CapturedOutput, ExitOutcome, Output, TimeoutKind};

use crate::bash::BashPolicy;
use crate::files::{ceil_boundary, floor_boundary};

const TRUNCATED: &str = "[output truncated]";
const ADVICE: &str =
    "limit the output, or redirect it to a file and read parts of it with read_file";

/// Returns the status that a shell would report.
pub(super) fn exit_code(outcome: ExitOutcome) -> i32 {
    match outcome {
        ExitOutcome::Exited(status) => status,
        ExitOutcome::Signalled(signal) => 128 + signal,
        ExitOutcome::TimedOut(_) => 124,
        _ => 137,
    }
}

/// Puts together what the model is told: how the command ended, if it did not end well, and what it
/// said.
pub(super) fn report(output: &Output, policy: &BashPolicy, seconds: f64) -> String {
    let mut blocks = Vec::new();
    blocks.extend(notice(output.outcome, seconds));
    let code = exit_code(output.outcome);
    if code != 0 {
        blocks.push(format!("Exit code: {code}"));
    }
    let stdout = stream("stdout", &output.stdout, policy);
    let stderr = stream("stderr", &output.stderr, policy);
    blocks.extend(Some(stdout).filter(|it| !it.is_empty()));
    blocks.extend(Some(stderr).filter(|it| !it.is_empty()).map(|it| format!("STDERR:\n{it}")));
    blocks.extend(output.notes.iter().map(|it| format!("[{it}]")));
    if blocks.is_empty() { "(no output)".to_owned() } else { blocks.join("\n\n") }
}

fn notice(outcome: ExitOutcome, seconds: f64) -> Option<String> {
    match outcome {
        ExitOutcome::Exited(_) => None,
        ExitOutcome::TimedOut(TimeoutKind::Wall) => {
            Some(format!("The command timed out after {seconds} seconds and was stopped."))
        }
        other => Some(format!("The command {other}.")),
    }
}

/// Shows a stream, or its beginning and its end.
fn stream(name: &str, captured: &CapturedOutput, policy: &BashPolicy) -> String {
    let kept = [&captured.head[..], &captured.tail[..]].concat();
    let is_cut = captured.omitted() > 0;
    if !is_cut && (policy.max_output_chars == 0 || kept.len() <= policy.max_output_chars) {
        return String::from_utf8_lossy(kept.trim_ascii_end()).into_owned();
    }
    let (head, tail) =
        if is_cut { (&captured.head[..], &captured.tail[..]) } else { (&kept[..], &kept[..]) };
    let (head_chars, tail_chars) = policy.window();
    let shown = window(head, tail, head_chars, tail_chars);
    let note = if is_cut {
        let limit = captured.head.len() + captured.tail.len();
        format!(
            "[{name} had {} bytes, which exceeds the capture limit of {limit} bytes; {ADVICE}]",
            captured.total
        )
    } else {
        let (count, most) = (kept.len(), policy.max_output_chars);
        format!("[{most} of {count} captured bytes of {name} are shown; {ADVICE}]")
    };
    format!("{TRUNCATED}\n{shown}\n{note}")
}

/// Joins the beginning of one text and the end of another.
fn window(head: &[u8], tail: &[u8], head_chars: usize, tail_chars: usize) -> String {
    let head = &head[..floor_boundary(head, head_chars)];
    let tail = &tail[ceil_boundary(tail, tail.len().saturating_sub(tail_chars))..];
    let [head, tail] = [head, tail].map(String::from_utf8_lossy);
    match (head.is_empty(), tail.is_empty()) {
        (true, _) => tail.into_owned(),
        (_, true) => head.into_owned(),
        _ => format!("{head}\n...\n{tail}"),
    }
}

#[cfg(test)]
mod tests;
