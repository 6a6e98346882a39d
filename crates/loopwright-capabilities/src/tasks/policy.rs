//! How long a list may be, and how often the model is reminded of it.

use serde::{Deserialize, Serialize};

/// How long a list of tasks may be, and how often the model is reminded of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TodoPolicy {
    /// How many tasks there may be; 20 by default.
    pub max_items: usize,
    /// How many of them may be in progress; 1 by default.
    pub max_in_progress: usize,
    /// After how many steps the list is shown again; 10 by default, 0 for never. A list of an earlier
    /// execution is shown until the model writes it, whatever this is.
    pub render_every_steps: u32,
    /// After how many steps without `todo_write` the model is reminded of it, and again after as many;
    /// 10 by default, 0 for never. Where it is not 0, the first request of an execution has a hint
    /// too, if there are no tasks.
    pub reminder_every_steps: u32,
    /// What a task must say; everything by default.
    pub parsing: TaskParsing,
}

/// What a task must say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskParsing {
    /// `content`, `status` and `activeForm`.
    #[default]
    Strict,
    /// `content`: a task without a status is pending, and one without an active form is called by its
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
