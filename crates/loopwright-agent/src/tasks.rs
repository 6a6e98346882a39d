//! The tasks of an agent: a value in its state that plans, sessions and views share.

use std::{fmt, sync::Arc};

use loopwright_core::{AgentState, Edit, Key};
use serde::{Deserialize, Serialize};

/// The key of the tasks in a state.
pub const TASKS: Key<TaskList> = Key::session("tasks", "list");

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The task in the imperative, such as "Run the tests".
    pub content: Arc<str>,
    /// The status.
    #[serde(default)]
    pub status: TaskStatus,
    /// The task in progress, such as "Running the tests".
    pub active_form: Arc<str>,
}

/// The status of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not started.
    #[default]
    Pending,
    /// In progress.
    InProgress,
    /// Completed.
    Completed,
}

/// Tasks in the planned order. Prints as numbered lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskList(pub Vec<Task>);

impl Task {
    /// Creates a task.
    pub fn new(content: impl Into<Arc<str>>) -> Self {
        let content = content.into();
        Self { active_form: Arc::clone(&content), content, status: TaskStatus::Pending }
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(self, status: TaskStatus) -> Self {
        Self { status, ..self }
    }
}

impl TaskList {
    /// Returns the tasks of a state; empty without tasks.
    pub fn of(state: &AgentState) -> Self {
        state.get(&TASKS).unwrap_or_default()
    }

    /// Returns the edit that stores these tasks in a state.
    pub fn edit(&self) -> Edit {
        Edit::Set(TASKS.slot(), serde_json::to_value(self).ok())
    }

    /// Returns the number of tasks with a status.
    pub fn count(&self, status: TaskStatus) -> usize {
        self.0.iter().filter(|it| it.status == status).count()
    }

    /// Returns one line about all tasks.
    pub fn summary(&self) -> String {
        let count = |status| self.count(status);
        format!(
            "Tasks: {}/{} completed, {} in progress, {} pending",
            count(TaskStatus::Completed),
            self.0.len(),
            count(TaskStatus::InProgress),
            count(TaskStatus::Pending)
        )
    }
}

impl FromIterator<Task> for TaskList {
    fn from_iter<I: IntoIterator<Item = Task>>(tasks: I) -> Self {
        Self(tasks.into_iter().collect())
    }
}

impl fmt::Display for TaskList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("(no tasks)");
        }
        for (number, task) in (1..).zip(&self.0) {
            let (mark, text) = match task.status {
                TaskStatus::Pending => ('○', &task.content),
                TaskStatus::InProgress => ('◐', &task.active_form),
                TaskStatus::Completed => ('●', &task.content),
            };
            let line_end = if number > 1 { "\n" } else { "" };
            write!(f, "{line_end}{number}. {mark} {text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> TaskList {
        let under_way = Task { active_form: "Doing two".into(), ..Task::new("Do two") };
        let three = [
            Task::new("Do one").with_status(TaskStatus::Completed),
            under_way.with_status(TaskStatus::InProgress),
            Task::new("Do three"),
        ];
        three.into_iter().collect()
    }

    #[test]
    fn a_list_prints_as_numbered_lines() {
        assert_eq!(tasks().to_string(), "1. ● Do one\n2. ◐ Doing two\n3. ○ Do three");
        assert_eq!(TaskList::default().to_string(), "(no tasks)");
        assert_eq!(tasks().summary(), "Tasks: 1/3 completed, 1 in progress, 1 pending");
    }

    #[test]
    fn a_state_keeps_its_tasks() {
        let state = AgentState::new().edit(tasks().edit());
        assert_eq!(TaskList::of(&state), tasks());
        assert_eq!(TaskList::of(&AgentState::new()), TaskList::default());
    }

    #[test]
    fn a_list_is_stored_under_the_field_names_that_models_write() {
        let stored = serde_json::to_value(tasks()).unwrap();
        let expect = serde_json::json!(
            { "content": "Do two", "status": "in_progress", "activeForm": "Doing two" }
        );
        assert_eq!(stored[1], expect);
    }
}
