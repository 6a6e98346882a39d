//! The evidence from an execution for the critic.

use loopwright_core::{
    AgentState, Step,
    messages::{SectionName, Transcript},
};

use crate::{
    critique::{policy::CritiquePolicy, prompt},
    provenance::is_user_input,
    truncate::window,
};

/// Returns what tools were called for and what they said, oldest first. However long the execution is,
/// no more of it is looked at than is shown.
pub(super) fn evidence(state: &AgentState, policy: &CritiquePolicy) -> String {
    let (mut shown, mut room, mut left_out) = (Vec::new(), policy.max_evidence_chars, 0);
    'steps: for step in state.steps().rev() {
        for entry in calls(step, policy.max_result_chars).into_iter().rev() {
            let length = entry.chars().count();
            if length > room {
                left_out = step.number();
                break 'steps;
            }
            room -= length;
            shown.push(entry);
        }
    }
    if shown.is_empty() && left_out == 0 {
        return prompt::NO_EVIDENCE.to_owned();
    }
    if left_out > 0 {
        shown.push(format!("[the steps up to step {left_out} are omitted]"));
    }
    shown.reverse();
    shown.join("\n\n")
}

fn calls(step: &Step, most: usize) -> Vec<String> {
    let call = |(call, outcome): (&loopwright_core::messages::ToolCall, _)| {
        let outcome: &loopwright_core::ToolOutcome = outcome;
        let (arguments, result) = (&call.arguments, outcome.to_result().to_text());
        let (arguments, result) = (window(arguments, most), window(&result, most));
        format!("Step {}: {}({arguments})\n{result}", step.number(), call.name)
    };
    step.tool_executions().map(call).collect()
}

/// Returns what the user asked for last. What was said in the user's place does not count.
pub(super) fn task(state: &AgentState) -> Option<String> {
    let sections = state.context().sections();
    let search = |name| sections.get(name).and_then(|turns: &Transcript| last_asked(turns));
    search(SectionName::MESSAGES).or_else(|| search(SectionName::BUFFER))
}

fn last_asked(turns: &Transcript) -> Option<String> {
    let asked = turns.iter().rev().filter(|turn| is_user_input(turn));
    let mut texts = asked.map(|turn| turn.message().text());
    texts.find(|text| !text.trim().is_empty())
}
