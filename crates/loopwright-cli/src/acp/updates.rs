//! A run in progress, as updates of a session.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use loopwright_agent::tasks::{TASKS, TaskList, TaskStatus};
use loopwright_core::{
    AgentEvent, StateEffect, StreamFragment, ToolOutcome,
    messages::{AgentId, ToolCall},
};
use serde_json::{Value, json};

use super::connection::Connection;
use super::tool_calls::ToolCalls;
use crate::render::{Answer, Renderer, Source, UiEvent};

/// Writes what happens in a run as updates of its session.
pub(super) struct Updates {
    pub(super) connection: Arc<Connection>,
    pub(super) session: String,
    pub(super) calls: Arc<Mutex<ToolCalls>>,
    /// How many tokens the model takes.
    pub(super) context_window: u64,
    /// Agents whose answer under way came in fragments.
    pub(super) have_spoken: BTreeSet<Source>,
}

impl Updates {
    fn send(&self, update: &Value) -> io::Result<()> {
        self.connection.update(&self.session, update)
    }

    fn send_all(&self, updates: Vec<Value>) -> io::Result<()> {
        updates.into_iter().try_for_each(|it| self.send(&it))
    }

    fn with_calls<T>(&self, work: impl FnOnce(&mut ToolCalls) -> T) -> T {
        work(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answered(&mut self, answer: &Answer) -> io::Result<()> {
        let has_spoken = self.have_spoken.remove(&answer.source);
        if !has_spoken && !answer.source.is_subagent() && !answer.text.is_empty() {
            self.send(&text("agent_message_chunk", &answer.text))?;
        }
        for (index, call) in (0u16..).zip(&answer.calls) {
            let key = (agent(&answer.source), answer.step, index);
            let update = self.with_calls(|calls| calls.created(key, call));
            self.send(&update)?;
        }
        Ok(())
    }

    fn event(&mut self, source: &Source, event: &AgentEvent) -> io::Result<()> {
        let agent = agent(source);
        match event {
            AgentEvent::StreamDelta(it) if it.aside || source.is_subagent() => Ok(()),
            AgentEvent::StreamDelta(it) => match &it.delta {
                StreamFragment::Text(words) => {
                    self.have_spoken.insert(source.clone());
                    self.send(&text("agent_message_chunk", words))
                }
                StreamFragment::Reasoning(words) => self.send(&text("agent_thought_chunk", words)),
                _ => Ok(()),
            },
            AgentEvent::ToolCallStarted(it) => {
                let call = call(it.id.as_ref(), &it.tool, &it.arguments);
                let key = (agent, it.step, it.call);
                self.send_all(self.with_calls(|calls| calls.started(&key, &call)))
            }
            AgentEvent::ToolCallCompleted(it) => {
                let call = call(it.id.as_ref(), &it.tool, &it.arguments);
                let key = (agent, it.step, it.call);
                self.send_all(self.with_calls(|calls| calls.completed(&key, &call, &it.outcome)))?;
                match plan_of(&it.outcome).filter(|_| !source.is_subagent()) {
                    Some(tasks) => self.send(&plan(&tasks)),
                    None => Ok(()),
                }
            }
            AgentEvent::StepCompleted(it) if !source.is_subagent() && it.usage.total() > 0 => self
                .send(&json!({
                    "sessionUpdate": "usage_update", "used": it.usage.total(),
                    "size": self.context_window,
                })),
            _ => Ok(()),
        }
    }
}

impl Renderer for Updates {
    fn take(&mut self, note: &UiEvent) -> io::Result<()> {
        match note {
            UiEvent::Answered(answer) if answer.aside => Ok(()),
            UiEvent::Answered(answer) => self.answered(answer),
            UiEvent::Changed(change) => {
                let agent = agent(&change.source);
                self.with_calls(|calls| calls.changed(agent.as_ref(), change));
                Ok(())
            }
            UiEvent::Event(source, event) => self.event(source, event),
            UiEvent::Began(_)
            | UiEvent::Line(_)
            | UiEvent::Running(_)
            | UiEvent::Interrupted
            | UiEvent::Typing(_)
            | UiEvent::Sent(_)
            | UiEvent::Queued(_)
            | UiEvent::Told(_)
            | UiEvent::ModeChanged(_)
            | UiEvent::Verifying(_)
            | UiEvent::Verified(_)
            | UiEvent::Over(_) => Ok(()),
        }
    }
}

/// Names the sub-agent that something comes from; nothing for the agent of the session.
fn agent(source: &Source) -> Option<AgentId> {
    source.agent.clone().filter(|_| source.is_subagent())
}

fn call(id: Option<&Arc<str>>, tool: &Arc<str>, arguments: &Arc<str>) -> ToolCall {
    ToolCall { id: id.cloned(), name: Arc::clone(tool), arguments: Arc::clone(arguments) }
}

/// Makes an update of words.
pub(super) fn text(kind: &str, words: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": words}})
}

/// Returns the tasks that a call has written.
fn plan_of(outcome: &ToolOutcome) -> Option<TaskList> {
    let slot = TASKS.slot();
    let effects = &outcome.output()?.state_effects;
    effects.iter().rev().find_map(|effect| match effect {
        StateEffect::Set(key, Some(value)) if *key == slot => {
            serde_json::from_value(value.clone()).ok()
        }
        StateEffect::Set(key, None) if *key == slot => Some(TaskList::default()),
        _ => None,
    })
}

/// Makes an update of the plan.
pub(super) fn plan(tasks: &TaskList) -> Value {
    let entry = |task: &loopwright_agent::tasks::Task| {
        let status = match task.status {
            TaskStatus::Pending => "pending",
            TaskStatus::InProgress => "in_progress",
            TaskStatus::Completed => "completed",
        };
        json!({"content": task.content, "priority": "medium", "status": status})
    };
    let entries: Vec<Value> = tasks.0.iter().map(entry).collect();
    json!({"sessionUpdate": "plan", "entries": entries})
}
