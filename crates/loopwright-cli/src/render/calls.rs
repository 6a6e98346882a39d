//! The calls of one agent's step, shown in the order in which the model made them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::{ToolOutcome, ToolOutput, events::ToolCallCompleted};

use super::Change;

/// The calls of the step that an agent takes.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The name of the sub-agent; `None` for the agent that was given the task.
    pub(super) name: Option<Arc<str>>,
    /// Calls that are over and wait for those before them.
    settled: BTreeMap<u16, ToolCallCompleted>,
    next: u16,
    changes: Vec<Change>,
}

/// A call that has ended, with what is shown of it.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) name: Option<Arc<str>>,
    pub(super) arguments: Arc<str>,
    pub(super) completed: ToolCallCompleted,
    pub(super) change: Option<Change>,
}

impl Calls {
    /// Begins a step with an answer. Returns the calls of the step before that were never shown.
    pub(super) fn begin(&mut self) -> Vec<Shown> {
        let rest = self.rest();
        self.changes.clear();
        rest
    }

    /// Keeps what a tool changed until its call is shown.
    pub(super) fn changed(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Takes a call that has ended. Returns the calls that can be shown now.
    pub(super) fn settle(&mut self, completed: ToolCallCompleted) -> Vec<Shown> {
        self.settled.insert(completed.call, completed);
        let mut shown = Vec::new();
        while let Some(next) = self.settled.remove(&self.next) {
            self.next += 1;
            shown.push(self.shown(next));
        }
        shown
    }

    /// Returns the calls that wait for one that never comes.
    pub(super) fn rest(&mut self) -> Vec<Shown> {
        self.next = 0;
        let rest = std::mem::take(&mut self.settled);
        rest.into_values().map(|it| self.shown(it)).collect()
    }

    fn shown(&mut self, completed: ToolCallCompleted) -> Shown {
        let arguments = Arc::clone(&completed.arguments);
        let change = self.changes.iter().position(|it| it.arguments == arguments);
        let change = change.map(|at| self.changes.remove(at));
        Shown { name: self.name.clone(), arguments, completed, change }
    }
}

/// Returns in a few words why a call that returned something failed all the same: a command that did not
/// end with 0, or a sub-agent that did not complete.
pub(crate) fn failure(outcome: &ToolOutcome) -> Option<String> {
    let value = outcome.output()?.value.as_deref()?;
    if value["success"] == false {
        return Some(match value["exit_code"].as_i64() {
            _ if value["timed_out"] == true => "timed out".to_owned(),
            Some(code) => format!("exit {code}"),
            None => "failed".to_owned(),
        });
    }
    let status = value["status"].as_str().filter(|_| value["subagent"].is_string())?;
    (status != "completed").then(|| status.to_owned())
}

/// Returns the last lines that a command printed, up to a number, from the text that the model receives.
pub(super) fn last_lines(outcome: &ToolOutcome, most: usize) -> Vec<String> {
    let Some(output) = outcome.output().filter(|it| is_of_command(it)) else { return Vec::new() };
    let text = output.to_text();
    let is_note = |it: &str| it.starts_with('[') && it.ends_with(']');
    let is_frame = |it: &str| {
        it.trim().is_empty()
            || matches!(it, "STDERR:" | "(no output)")
            || it.starts_with("Exit code: ")
            || is_note(it)
    };
    let printed: Vec<&str> = text.lines().filter(|it| !is_frame(it)).collect();
    printed[printed.len().saturating_sub(most)..].iter().map(ToString::to_string).collect()
}

fn is_of_command(output: &ToolOutput) -> bool {
    output.value.as_deref().is_some_and(|it| it["exit_code"].is_i64())
}

/// Returns what a command tells the user beside its output, such as changes that were not applied.
pub(crate) fn notes(outcome: &ToolOutcome) -> Vec<&str> {
    let value = outcome.output().and_then(|output| output.value.as_deref());
    let notes = value.and_then(|value| value["notes"].as_array());
    notes.into_iter().flatten().filter_map(serde_json::Value::as_str).collect()
}
