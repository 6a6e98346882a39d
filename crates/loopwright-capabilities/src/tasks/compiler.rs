//! Reminders at the end of a request, which are never recorded.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::tasks::{TaskList, TaskStatus};
use loopwright_core::{
    AgentState, CompileError, ContextCompiler,
    messages::{Message, Prompt},
};

use crate::tasks::{policy::TodoPolicy, tool::WRITTEN};

/// Adds the list and reminders to what another compiler made.
pub(super) struct Reminding {
    pub(super) inner: Arc<dyn ContextCompiler>,
    pub(super) policy: TodoPolicy,
}

const HINT: &str =
    "[tasks] If the work takes several steps, first write a task list with todo_write.";
const NO_LIST: &str = "[tasks] There is no task list. If the work takes several more steps, \
    write one with todo_write; otherwise ignore this message.";
const OLD_LIST: &str = "[tasks] The task list has not been updated for a while. If it is out of \
    date, update it with todo_write; otherwise ignore this message.";

#[async_trait]
impl ContextCompiler for Reminding {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let mut prompt = self.inner.compile(state, previous).await?;
        let notes = self.notes(state);
        if !notes.is_empty() {
            prompt.tail.push(Message::user(notes.join("\n\n")));
        }
        Ok(prompt)
    }
}

impl Reminding {
    fn notes(&self, state: &AgentState) -> Vec<String> {
        let (steps, written) = (state.step_count(), state.get(&WRITTEN));
        let since = steps.saturating_sub(written.unwrap_or(0));
        let reminds = is_due(since, self.policy.reminder_every_steps);
        let renders = is_due(steps, self.policy.render_every_steps) && written != Some(steps);
        let hints = steps == 0 && self.policy.reminder_every_steps > 0;
        if written.is_some() && !(reminds || renders || hints) {
            return Vec::new();
        }
        let tasks = TaskList::of(state);
        let is_done = tasks.count(TaskStatus::Completed) == tasks.0.len();
        // What the model wrote in an earlier execution may be hidden from it, and it would replace the
        // list without knowing what it replaces.
        let is_earlier = written.is_none() && !is_done;
        let hint = (hints && tasks.0.is_empty()).then(|| HINT.to_owned());
        let reminder = reminds.then_some(if tasks.0.is_empty() { NO_LIST } else { OLD_LIST });
        let reminder = reminder.filter(|_| tasks.0.is_empty() || !is_done).map(str::to_owned);
        let list = (is_earlier || renders && !tasks.0.is_empty())
            .then(|| format!("[tasks] Current status:\n{tasks}\n{}", tasks.summary()));
        hint.into_iter().chain(reminder).chain(list).collect()
    }
}

/// Returns `true` if it is time again.
fn is_due(steps: u32, every: u32) -> bool {
    every > 0 && steps > 0 && steps.is_multiple_of(every)
}
