//! Work in the background: commands and sub-agents that run while the agent that started them continues.
//!
//! [`BackgroundTasks`] lists them for programs, which can show their output and stop them. An agent sees its own through tools.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use tokio_util::sync::CancellationToken;

/// How much of the last output of a task programs see, in bytes.
const MAX_SHOWN: usize = 16 << 10;

/// The number of a background task, as models pass it to a tool: as text or as a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskNumber(pub String);

impl<'de> Deserialize<'de> for TaskNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Number(i64),
        }
        Ok(Self(match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::Number(number) => number.to_string(),
        }))
    }
}

impl JsonSchema for TaskNumber {
    fn schema_name() -> Cow<'static, str> {
        "TaskNumber".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"] })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// The background tasks of all runs that share the value. Clones are the same tasks.
///
/// A task stays listed until the run that started it ends, which also ends the task.
#[derive(Clone, Default)]
pub struct BackgroundTasks(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    tasks: BTreeMap<u32, Kept>,
    last: u32,
}

struct Kept {
    kind: BackgroundKind,
    title: String,
    started: Instant,
    output: Vec<u8>,
    ended: Option<(String, Duration)>,
    stop: CancellationToken,
}

/// A background task, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundTask {
    /// The number by which the agent and the user know it.
    pub id: u32,
    /// What it is.
    pub kind: BackgroundKind,
    /// The command, or the name of the sub-agent and the beginning of its prompt.
    pub title: String,
    /// How long it has run, or ran.
    pub duration: Duration,
    /// How it ended. `None` means that it is running.
    pub ended: Option<String>,
}

/// The kind of a background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundKind {
    /// A command.
    Command,
    /// A sub-agent.
    Subagent,
}

impl BackgroundKind {
    /// Returns the name for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Subagent => "sub-agent",
        }
    }
}

impl BackgroundTasks {
    /// Returns the tasks, in the order in which they started.
    pub fn list(&self) -> Vec<BackgroundTask> {
        let task = |(id, it): (&u32, &Kept)| BackgroundTask {
            id: *id,
            kind: it.kind,
            title: it.title.clone(),
            duration: it.ended.as_ref().map_or_else(|| it.started.elapsed(), |(_, time)| *time),
            ended: it.ended.as_ref().map(|(how, _)| how.clone()),
        };
        self.table().tasks.iter().map(task).collect()
    }

    /// Returns the end of a task's output, at most 16 KiB. The agent reads the output independently of this. Returns `None` if the task
    /// is unknown.
    pub fn output(&self, id: u32) -> Option<String> {
        let table = self.table();
        table.tasks.get(&id).map(|it| String::from_utf8_lossy(&it.output).into_owned())
    }

    /// Stops a task. Returns `false` if it is unknown or has ended.
    pub fn stop(&self, id: u32) -> bool {
        let table = self.table();
        let running = table.tasks.get(&id).filter(|it| it.ended.is_none());
        running.inspect(|it| it.stop.cancel()).is_some()
    }

    /// Lists a task that starts now. `stop` ends it.
    pub(crate) fn start(
        &self,
        kind: BackgroundKind,
        title: impl Into<String>,
        stop: CancellationToken,
    ) -> StartedTask {
        let mut table = self.table();
        table.last = table.last.wrapping_add(1);
        let id = table.last;
        let (title, started) = (title.into(), Instant::now());
        let kept = Kept { kind, title, started, output: Vec::new(), ended: None, stop };
        table.tasks.insert(id, kept);
        StartedTask { tasks: self.clone(), id }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that is listed until this is dropped.
pub(crate) struct StartedTask {
    tasks: BackgroundTasks,
    pub(crate) id: u32,
}

impl StartedTask {
    /// Adds to the output that programs see.
    pub(crate) fn print(&self, bytes: &[u8]) {
        if let Some(kept) = self.tasks.table().tasks.get_mut(&self.id) {
            kept.output.extend_from_slice(bytes);
            let surplus = kept.output.len().saturating_sub(MAX_SHOWN);
            kept.output.drain(..surplus);
        }
    }

    /// Records how the task ended.
    pub(crate) fn end(&self, how: impl Into<String>) {
        if let Some(kept) = self.tasks.table().tasks.get_mut(&self.id) {
            kept.ended = Some((how.into(), kept.started.elapsed()));
        }
    }
}

impl Drop for StartedTask {
    fn drop(&mut self) {
        self.tasks.table().tasks.remove(&self.id);
    }
}

impl fmt::Debug for BackgroundTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tasks: &BackgroundTasks) -> Vec<(u32, &'static str, String, Option<String>)> {
        let tasks = tasks.list().into_iter();
        tasks.map(|it| (it.id, it.kind.as_str(), it.title, it.ended)).collect()
    }

    #[test]
    fn tasks_are_listed_until_they_are_dropped() {
        let tasks = BackgroundTasks::default();
        let [one, two] = ["make", "worker: Work."].map(str::to_owned);
        let stop = CancellationToken::new();
        let command = tasks.start(BackgroundKind::Command, one.clone(), stop.clone());
        let agent = tasks.start(BackgroundKind::Subagent, two.clone(), CancellationToken::new());
        command.print(b"built\n");
        agent.end("completed");
        let ended = Some("completed".to_owned());
        let expect = [(1, "command", one.clone(), None), (2, "sub-agent", two, ended)];
        assert_eq!(shown(&tasks), expect);
        assert_eq!(tasks.output(1).as_deref(), Some("built\n"));
        assert_eq!(tasks.output(3), None);
        // What has ended is not stopped.
        assert_eq!([tasks.stop(1), tasks.stop(2), tasks.stop(3)], [true, false, false]);
        assert!(stop.is_cancelled());
        drop(agent);
        assert_eq!(shown(&tasks), [(1, "command", one, None)]);
    }

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let tasks = BackgroundTasks::default();
        let task = tasks.start(BackgroundKind::Command, "yes", CancellationToken::new());
        task.print(&vec![b'a'; MAX_SHOWN]);
        task.print(b"end");
        let output = tasks.output(task.id).unwrap();
        assert_eq!((output.len(), &output[MAX_SHOWN - 4..]), (MAX_SHOWN, "aend"));
    }
}
