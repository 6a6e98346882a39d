//! `todo_write`.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_agent::tasks::{TASKS, Task, TaskList, TaskStatus};
use loopwright_core::{
    AnyTool, BoxError, Key, Reach, SideEffects, ToolCx, ToolError, ToolHandler, ToolOptions,
    ToolOutput, messages::ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::tasks::policy::{TaskParsing, TodoPolicy};

/// The name of the tool.
pub(super) const NAME: &str = "todo_write";

/// The step of the execution in which the list was written last.
pub(super) const WRITTEN: Key<u32> = Key::execution("tasks", "written");

const DESCRIPTION: &str = "Writes the task list, replacing the previous one. Pass all tasks each \
    time, including completed ones. Use it for work that takes several steps: write the list \
    first, mark a task as in_progress before you start it, and as completed as soon as it is \
    done. An empty list clears it.";

/// An error of an invalid list, for the model. Positions are counted from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TodoError {
    /// The list is missing.
    #[error("todos must be a list of tasks")]
    NotAList,
    /// An entry of the list is not a task.
    #[error("task {0} must be an object")]
    NotAnObject(usize),
    /// A field of a task is missing or not a string.
    #[error("task {position} must have a string `{field}`")]
    Missing {
        /// The position.
        position: usize,
        /// The field.
        field: &'static str,
    },
    /// A field of a task is blank.
    #[error("the `{field}` of task {position} cannot be empty")]
    Empty {
        /// The position.
        position: usize,
        /// The field.
        field: &'static str,
    },
    /// The status of a task is unknown.
    #[error(
        "task {position} has the unknown status `{status}`; use pending, in_progress or completed"
    )]
    Status {
        /// The position.
        position: usize,
        /// The status.
        status: String,
    },
    /// The list is too long.
    #[error("too many tasks: {count}; pass at most {max}")]
    TooMany {
        /// The number of tasks.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// Too many tasks are in progress.
    #[error("{count} tasks are in progress; at most {max} can be in progress at the same time")]
    TooManyInProgress {
        /// The number of tasks.
        count: usize,
        /// The limit.
        max: usize,
    },
}

/// The maximum number of policies whose tools are shared.
const MAX_SHARED: usize = 16;

/// Returns the tool. Agents with the same policy share it, because its schema takes kilobytes.
pub(super) fn todo_write(policy: TodoPolicy) -> AnyTool {
    static SHARED: Mutex<Vec<(TodoPolicy, AnyTool)>> = Mutex::new(Vec::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, tool)) = shared.iter().find(|(it, _)| *it == policy) {
        return tool.clone();
    }
    let tool = create(policy);
    shared.truncate(MAX_SHARED - 1);
    shared.insert(0, (policy, tool.clone()));
    tool
}

fn create(policy: TodoPolicy) -> AnyTool {
    let spec = ToolSpec {
        name: NAME.into(),
        description: DESCRIPTION.into(),
        parameters: Arc::new(schema(policy)),
    };
    let options = ToolOptions {
        side_effects: SideEffects::ReadOnly,
        reach: Reach::Agent,
        ..ToolOptions::default()
    };
    AnyTool::dynamic(spec, options, Arc::new(TodoWrite(policy)))
}

fn schema(policy: TodoPolicy) -> Value {
    let required = match policy.parsing {
        TaskParsing::Strict => json!(["content", "status", "activeForm"]),
        TaskParsing::Lenient => json!(["content"]),
    };
    let most = format!(
        "All tasks, in order; at most {}, of which at most {} are in progress.",
        policy.max_items, policy.max_in_progress
    );
    json!({
        "type": "object",
        "properties": {
            "todos": {
                "type": ["array", "null"],
                "description": most,
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {
                            "type": "string",
                            "description": "The task in the imperative, such as: Run the tests",
                        },
                        "status": {
                            "type": "string",
                            "enum": ["pending", "in_progress", "completed"],
                        },
                        "activeForm": {
                            "type": "string",
                            "description": "The text shown while the task is in progress, such \
                                as: Running the tests",
                        },
                    },
                    "required": required,
                    "additionalProperties": false,
                },
            },
        },
        "required": ["todos"],
        "additionalProperties": false,
    })
}

#[derive(Debug)]
struct TodoWrite(TodoPolicy);

#[async_trait]
impl ToolHandler for TodoWrite {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let list = parse(&arguments["todos"], self.0).map_err(BoxError::from)?;
        let (rendered, summary) = (list.to_string(), list.summary());
        let text = format!("{rendered}\n{summary}");
        let value = json!({
            "success": true, "tasks": list, "rendered": rendered, "summary": summary,
        });
        let output = ToolOutput { value: Some(value.into()), ..ToolOutput::text(text) };
        let output = output.with_value(&TASKS, &list).map_err(BoxError::from)?;
        Ok(output.with_value(&WRITTEN, &cx.key.step).map_err(BoxError::from)?)
    }
}

/// Reads a list; nothing at all is an empty one.
///
/// # Errors
///
/// Returns an error if it is none, or longer than the policy allows.
pub(super) fn parse(todos: &Value, policy: TodoPolicy) -> Result<TaskList, TodoError> {
    let items = match todos {
        Value::Null => &Vec::new(),
        Value::Array(items) => items,
        _ => return Err(TodoError::NotAList),
    };
    let (count, max) = (items.len(), policy.max_items);
    if count > max {
        return Err(TodoError::TooMany { count, max });
    }
    let tasks = (1..).zip(items).map(|(position, item)| {
        let fields = item.as_object().ok_or(TodoError::NotAnObject(position))?;
        Item { fields, position, parsing: policy.parsing }.task()
    });
    let list = TaskList(tasks.collect::<Result<_, _>>()?);
    let (count, max) = (list.count(TaskStatus::InProgress), policy.max_in_progress);
    if count > max {
        return Err(TodoError::TooManyInProgress { count, max });
    }
    Ok(list)
}

struct Item<'a> {
    fields: &'a Map<String, Value>,
    position: usize,
    parsing: TaskParsing,
}

impl Item<'_> {
    fn task(&self) -> Result<Task, TodoError> {
        let position = self.position;
        let content = self.text("content")?;
        let content = content.ok_or(TodoError::Missing { position, field: "content" })?;
        let status = match self.optional("status")? {
            None => TaskStatus::Pending,
            Some(status) => self.status(status)?,
        };
        let active_form = self.optional("activeForm")?.unwrap_or(content);
        Ok(Task { content: content.into(), status, active_form: active_form.into() })
    }

    /// Returns a field that may be left out where tasks are read leniently.
    fn optional(&self, field: &'static str) -> Result<Option<&str>, TodoError> {
        let text = self.text(field)?;
        if text.is_none() && self.parsing == TaskParsing::Strict {
            return Err(TodoError::Missing { position: self.position, field });
        }
        Ok(text)
    }

    fn text(&self, field: &'static str) -> Result<Option<&str>, TodoError> {
        let position = self.position;
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => {
                Err(TodoError::Empty { position, field })
            }
            Some(Value::String(text)) => Ok(Some(text.trim())),
            Some(_) => Err(TodoError::Missing { position, field }),
        }
    }

    fn status(&self, status: &str) -> Result<TaskStatus, TodoError> {
        serde_json::from_value(json!(status))
            .map_err(|_| TodoError::Status { position: self.position, status: status.to_owned() })
    }
}
