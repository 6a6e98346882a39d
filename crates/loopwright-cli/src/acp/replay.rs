//! The history of a session, as updates.

use loopwright_core::{
    Change, ChangeRecord, Edit,
    messages::{Content, Message, Part, Role, SectionName, ToolCall},
};
use serde_json::{Value, json};

use super::content::block;
use super::tool_calls::ToolCalls;
use crate::typed_text::{is_command, typed_text};

/// Returns the updates that tell what was said and done in a session.
pub(super) fn updates(changes: &[ChangeRecord], calls: &mut ToolCalls) -> Vec<Value> {
    let mut replay = Replay { calls, step: 0, made: Vec::new(), updates: Vec::new() };
    for record in changes {
        replay.change(&record.change);
    }
    replay.updates
}

struct Replay<'a> {
    calls: &'a mut ToolCalls,
    /// Steps of the execution that are over.
    step: u32,
    /// The calls of the open step.
    made: Vec<ToolCall>,
    updates: Vec<Value>,
}

impl Replay<'_> {
    fn change(&mut self, change: &Change) {
        match change {
            Change::ExecutionStarted { .. } => self.step = 0,
            Change::ModelResponded(response) => {
                self.answered(&response.message);
                self.made = response.message.tool_calls().cloned().collect();
                for (index, call) in (0u16..).zip(&self.made) {
                    let key = (None, self.step + 1, index);
                    self.updates.push(self.calls.created(key, call));
                }
            }
            Change::AnswerInterrupted { message } => self.answered(message),
            Change::ToolCallCompleted { call, outcome, .. } => {
                if let Some(made) = self.made.get(usize::from(*call)) {
                    let key = (None, self.step + 1, *call);
                    self.updates.extend(self.calls.completed(&key, made, outcome));
                }
            }
            Change::StepCompleted { .. } | Change::StepFailed { .. } => {
                self.step += 1;
                self.made.clear();
            }
            Change::MessageSteered(message) => self.said(message),
            Change::StateEdited { edit: Edit::Append { section, message }, .. }
                if section.as_str() == SectionName::MESSAGES =>
            {
                self.said(message);
            }
            _ => {}
        }
    }

    fn said(&mut self, message: &Message) {
        if message.role() != Role::User {
            return;
        }
        // What a command of the user stands for is not shown.
        let typed = |part: &Part| match part.as_text() {
            Some(text) if is_command(text) => Part::text(typed_text(text).typed),
            _ => part.clone(),
        };
        let shown = message.clone().with_parts(message.parts().iter().map(typed));
        self.chunks("user_message_chunk", &shown);
    }

    fn answered(&mut self, message: &Message) {
        self.chunks("agent_message_chunk", message);
    }

    fn chunks(&mut self, kind: &str, message: &Message) {
        for part in message.parts() {
            let is_thought = matches!(part.content(), Content::Reasoning(_));
            let kind = if is_thought { "agent_thought_chunk" } else { kind };
            let update = |content| json!({"sessionUpdate": kind, "content": content});
            self.updates.extend(block(part).map(update));
        }
    }
}
