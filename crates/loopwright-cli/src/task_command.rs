//! `/tasks`: background commands and sub-agents, even while the agent works.

use async_trait::async_trait;
use loopwright_capabilities::background::{BackgroundTask, BackgroundTasks};
use loopwright_sessions::SessionId;

use crate::render::{UiSender, duration, sanitize_terminal, single_line};
use crate::steering::{LiveLine, LiveLines};
use crate::table::table;

/// What is asked of background tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskCommand {
    List,
    /// Show the last output of one.
    Show(u32),
    Stop(u32),
}

/// What stands for an empty list.
const NONE: &str = "no background tasks; commands end when you exit, and sub-agents end with the run that \
    started them";

/// Lines in which only `/tasks` is a command. All others are messages.
pub(crate) struct TaskLines(pub(crate) BackgroundTasks);

#[async_trait(?Send)]
impl LiveLines for TaskLines {
    async fn read(&self, line: &str, _session: &SessionId, _feed: &UiSender) -> LiveLine {
        match TaskCommand::of_line(line) {
            Some(command) => LiveLine::Shown(command.run(&self.0)),
            None => LiveLine::text(line),
        }
    }
}

impl TaskCommand {
    /// Parses the words behind `/tasks`.
    pub(crate) fn of(words: &[&str]) -> Option<Self> {
        match words {
            [] => Some(Self::List),
            ["stop", id] => Some(Self::Stop(id.parse().ok()?)),
            [id] => Some(Self::Show(id.parse().ok()?)),
            _ => None,
        }
    }

    /// Parses a line that is typed while the agent works.
    fn of_line(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let is_command = matches!(words.next(), Some("/tasks" | "/bashes"));
        is_command.then(|| Self::of(&words.collect::<Vec<_>>()))?
    }

    /// Does what is asked, and returns what there is to show.
    pub(crate) fn run(self, tasks: &BackgroundTasks) -> String {
        let unknown = |id| format!("unknown background task {id}; list the tasks with /tasks");
        match self {
            Self::List => list(&tasks.list()),
            Self::Show(id) => match tasks.output(id) {
                None => unknown(id),
                Some(output) if output.trim().is_empty() => format!("task {id} has no output yet"),
                Some(output) => sanitize_terminal(output.trim_end()),
            },
            Self::Stop(id) if tasks.stop(id) => format!("task {id} is being stopped"),
            Self::Stop(id) => match tasks.list().iter().find(|it| it.id == id) {
                Some(_) => format!("task {id} has already ended"),
                None => unknown(id),
            },
        }
    }
}

fn list(tasks: &[BackgroundTask]) -> String {
    if tasks.is_empty() {
        return NONE.to_owned();
    }
    let row = |it: &BackgroundTask| {
        let state = it.ended.clone().unwrap_or_else(|| "running".to_owned());
        let kind = it.kind.as_str().to_owned();
        vec![it.id.to_string(), kind, state, duration(it.duration), single_line(&it.title, 60)]
    };
    let rows: Vec<_> = tasks.iter().map(row).collect();
    table(&rows).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_behind_tasks_list_show_and_stop() {
        let line = TaskCommand::of_line;
        assert_eq!(line("/tasks"), Some(TaskCommand::List));
        assert_eq!(line(" /tasks 2 "), Some(TaskCommand::Show(2)));
        assert_eq!(line("/tasks stop 2"), Some(TaskCommand::Stop(2)));
        for other in ["/tasks stop", "/tasks two", "/task", "list the /tasks"] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn tasks_that_do_not_exist_are_unknown() {
        let tasks = BackgroundTasks::default();
        assert_eq!(TaskCommand::List.run(&tasks), NONE);
        let unknown = "unknown background task 7; list the tasks with /tasks";
        assert_eq!(TaskCommand::Show(7).run(&tasks), unknown);
        assert_eq!(TaskCommand::Stop(7).run(&tasks), unknown);
    }
}
