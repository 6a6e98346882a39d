//! The limits of a task list, and the reminders about it.

use serde::{Deserialize, Serialize};

/// The limits of a task list, and the reminders about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TodoPolicy {
    /// The maximum number of tasks; 20 by default.
    pub max_items: usize,
    /// The maximum number of tasks in progress; 1 by default.
    pub max_in_progress: usize,
    /// The number of steps after which the list is shown again; 10 by default, 0 means never. A
    /// list of an earlier execution is shown until the model writes it, regardless of this setting.
    pub render_every_steps: u32,
    /// The number of steps without `todo_write` after which a reminder is shown, each time; 10 by
    /// default, 0 means never. If it is not 0, the first request of an execution without tasks also
    /// contains a hint.
    pub reminder_every_steps: u32,
    /// The required fields of a task; all by default.
    pub parsing: TaskParsing,
}

/// The required fields of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskParsing {
    /// `content`, `status` and `activeForm`.
    #[default]
    Strict,
    /// `content`: a task without a status is pending, and a task without an active form shows its
    /// content.
    Lenient,
}

impl Default for TodoPolicy {
    fn default() -> Self {
        Self {
            max_items: 20,
            max_in_progress: 1,
            render_every_steps: 10,
            reminder_every_steps: 10,
            parsing: TaskParsing::Strict,
        }
    }
}
