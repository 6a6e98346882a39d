//! The decision of a hook, from its exit code and its output.

use loopwright_sandbox::{ExitOutcome, Output};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{HookEvent, OnFailure};

/// The combined output of the hooks of one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) decision: Option<HookDecision>,
    /// Replacement arguments for the call.
    pub(super) input: Option<Value>,
    /// The replacement for the result of the call.
    pub(super) output: Option<Value>,
    /// Text for the model.
    pub(super) context: Vec<String>,
    /// Messages for the user.
    pub(super) messages: Vec<String>,
    /// The reason to stop the run, if a hook stops it.
    pub(super) stop: Option<String>,
}

/// What a hook decides, from weakest to strongest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HookDecision {
    /// No objection. Permission rules still apply.
    Allow,
    Ask(String),
    Block(String),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    #[serde(rename = "continue")]
    continues: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    // Some hooks write these beside `hookSpecificOutput`.
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    hook_specific_output: Specific,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
    updated_tool_output: Option<Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Keys of an answer that change nothing: the output of a hook is never shown, and its event is known.
const NOT_NEEDED: [&str; 2] = ["suppressOutput", "hookEventName"];

/// The exit status that blocks.
const BLOCKS: i32 = 2;

/// The maximum number of characters of a hook's output that are used.
const MAX: usize = 10_000;

impl Said {
    /// Adds the output of one hook.
    pub(super) fn add(&mut self, event: HookEvent, output: &Output, on_failure: OnFailure) {
        let stderr = shortened(&output.stderr.to_text());
        match output.outcome {
            ExitOutcome::Exited(0) => self.answer(event, &output.stdout.to_text()),
            ExitOutcome::Exited(BLOCKS) => self.block(or(stderr, "no reason given")),
            outcome => self.fail(&format!("{outcome}: {stderr}"), on_failure),
        }
    }

    /// Adds the failure of a hook.
    pub(super) fn fail(&mut self, reason: &str, on_failure: OnFailure) {
        let message = format!("a hook failed: {}", reason.trim_end_matches([':', ' ']));
        if on_failure == OnFailure::Block {
            self.block(message.clone());
        }
        self.messages.push(message);
    }

    pub(super) fn block(&mut self, reason: String) {
        self.decide(HookDecision::Block(reason));
    }

    pub(super) fn ask(&mut self, reason: String) {
        self.decide(HookDecision::Ask(reason));
    }

    fn decide(&mut self, decision: HookDecision) {
        let rank = |decision: &HookDecision| match decision {
            HookDecision::Allow => 0,
            HookDecision::Ask(_) => 1,
            HookDecision::Block(_) => 2,
        };
        if self.decision.as_ref().is_none_or(|so_far| rank(&decision) > rank(so_far)) {
            self.decision = Some(decision);
        }
    }

    fn answer(&mut self, event: HookEvent, stdout: &str) {
        let text = stdout.trim();
        if !text.starts_with('{') {
            // At these events, plain text is for the model; at others, it only helps to debug the hook.
            let is_context = matches!(event, HookEvent::UserPromptSubmit | HookEvent::SessionStart);
            self.context
                .extend(Some(shortened(text)).filter(|text| is_context && !text.is_empty()));
            return;
        }
        let answer: Answer = match serde_json::from_str(text) {
            Ok(answer) => answer,
            // The output may have been meant as a refusal.
            Err(error) => {
                let on_failure = match event {
                    HookEvent::PreToolUse | HookEvent::UserPromptSubmit => OnFailure::Block,
                    _ => OnFailure::Continue,
                };
                return self.fail(&format!("the output cannot be parsed: {error}"), on_failure);
            }
        };
        let Specific {
            permission_decision,
            permission_decision_reason,
            updated_input,
            additional_context,
            updated_tool_output,
            others,
        } = answer.hook_specific_output;
        let unknown = answer.others.keys().chain(others.keys()).map(String::as_str);
        let unknown = unknown.filter(|it| !NOT_NEEDED.contains(it));
        let unknown: Vec<String> = unknown.map(|it| format!("`{it}`")).collect();
        if !unknown.is_empty() {
            let names = shortened(&unknown.join(", "));
            self.messages.push(format!("the output of a hook has unknown keys: {names}"));
        }
        let permission_decision = permission_decision.or(answer.permission_decision);
        let reason = permission_decision_reason
            .or(answer.permission_decision_reason)
            .or(answer.reason)
            .map(|it| shortened(&it))
            .unwrap_or_default();
        match permission_decision.as_deref().or(answer.decision.as_deref()) {
            Some("deny" | "block") => self.block(or(reason, "no reason given")),
            Some("ask") => self.ask(or(reason, "a hook requests approval")),
            Some("allow" | "approve") => self.decide(HookDecision::Allow),
            None | Some("defer") => {}
            Some(other) => {
                self.fail(&format!("unknown decision `{}`", shortened(other)), OnFailure::Block);
            }
        }
        self.input = updated_input.filter(Value::is_object).or(self.input.take());
        match updated_tool_output {
            Some(output) if event == HookEvent::PostToolUse => self.output = Some(output),
            Some(_) => self.messages.push(format!(
                "`updatedToolOutput` of a hook is ignored for the event `{}`",
                event.name()
            )),
            None => {}
        }
        self.context
            .extend(additional_context.map(|it| shortened(&it)).filter(|it| !it.is_empty()));
        self.messages.extend(answer.system_message.map(|it| shortened(&it)));
        if answer.continues == Some(false) {
            let reason = answer.stop_reason.map(|it| shortened(&it)).unwrap_or_default();
            self.stop.get_or_insert(or(reason, "a hook stopped the run"));
        }
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(MAX).collect()
}
