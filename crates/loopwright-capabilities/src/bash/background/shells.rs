//! The background commands, by run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::ToolCx;
use loopwright_sandbox::{ExitOutcome, Output, SandboxChild};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::background::{BackgroundKind, BackgroundTasks, StartedTask};
use crate::bash::BashError;
use crate::files::ceil_boundary;

/// How many commands of a run may be in the background at a time.
const MAX: usize = 8;

/// How much of what a command said is kept until it is read, in bytes.
const MAX_UNREAD: usize = 64 << 10;

/// How long a command has to end by itself when it is stopped.
const GRACE: Duration = Duration::from_secs(2);

/// The commands in the background. Clones are the same ones.
///
/// Each command is watched by a task of its own, and ends when it is stopped, when the token of its
/// scope fires, which for the token of a call it does when the run has ended or dropped, or with the runtime.
#[derive(Clone, Default)]
pub(in crate::bash) struct Shells {
    table: Arc<Mutex<Table>>,
    /// Where they are listed for programs.
    tasks: BackgroundTasks,
    /// What ends commands that outlive their runs; `None` if they end with them.
    scope: Option<CancellationToken>,
}

/// Background commands that live on when the run that started them ends, such as a server that an agent starts in one turn
/// of a conversation and uses in the next. They end with [`end`](LastingCommands::end), or when the last clone of this is
/// dropped. Those of sub-agents end with the sub-agent.
///
/// All agents that share the value read and stop the same commands: give each user, or each conversation, its own.
#[derive(Clone, Debug)]
pub struct LastingCommands {
    pub(super) shells: Shells,
    scope: CancellationToken,
    _guard: Arc<DropGuard>,
}

impl LastingCommands {
    /// Creates the value without commands. They appear in a list for programs.
    pub fn listed_in(tasks: BackgroundTasks) -> Self {
        let scope = CancellationToken::new();
        let shells = Shells { scope: Some(scope.clone()), ..Shells::listed_in(tasks) };
        let guard = Arc::new(scope.clone().drop_guard());
        Self { shells, scope, _guard: guard }
    }

    /// Ends all commands, and waits until they have ended. Later ones end at once.
    pub async fn end(&self) {
        self.scope.cancel();
        let shells: Vec<Shell> = self.shells.table().shells.values().cloned().collect();
        for shell in shells {
            let mut news = shell.said.subscribe();
            let ended = news.wait_for(|it| it.outcome.is_some());
            // A command that does not end is killed when the program ends.
            tokio::time::timeout(GRACE * 2, ended).await.ok();
        }
    }
}

#[derive(Default)]
struct Table {
    shells: BTreeMap<(String, u32), Shell>,
}

#[derive(Clone)]
struct Shell {
    stop: CancellationToken,
    said: watch::Sender<Said>,
}

/// What a command has said and no process has read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) bytes: Vec<u8>,
    /// Bytes that came before those and were not kept.
    pub(super) lost: u64,
    /// What the sandbox has to say of it, once it has ended.
    pub(super) notes: Vec<String>,
    /// How it ended, if it has.
    pub(super) outcome: Option<ExitOutcome>,
}

impl Said {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let surplus = self.bytes.len().saturating_sub(MAX_UNREAD);
        if surplus > 0 {
            let cut = ceil_boundary(&self.bytes, surplus);
            self.bytes.drain(..cut);
            self.lost += cut as u64;
        }
    }

    fn has_news(&self) -> bool {
        !self.bytes.is_empty() || self.outcome.is_some()
    }
}

impl Shells {
    /// Lists them for programs, too.
    pub(super) fn listed_in(tasks: BackgroundTasks) -> Self {
        Self { tasks, ..Self::default() }
    }

    /// Returns the name for the commands of a call's run, or for those that outlive it, and what ends them.
    pub(super) fn scope(&self, cx: &ToolCx<'_>) -> (String, CancellationToken) {
        match self.scope.as_ref().filter(|_| cx.state.parent().is_none()) {
            Some(scope) => (String::new(), scope.clone()),
            None => (cx.key.execution.to_string(), cx.cancel.clone()),
        }
    }

    /// Sees that one more command may be kept.
    pub(super) fn check(&self, run: &str) -> Result<(), BashError> {
        Handle::try_current().map_err(|_| BashError::NoRuntime)?;
        let is_running = |shell: &Shell| shell.said.borrow().outcome.is_none();
        let table = self.table();
        let mine = table.shells.iter().filter(|((owner, _), it)| owner == run && is_running(it));
        if mine.count() < MAX { Ok(()) } else { Err(BashError::TooManyBackground(MAX)) }
    }

    /// Keeps a command running, and gives it a name. `on_end` is called when it has ended, whether
    /// or not a caller reads it, and returns what there is to say of it.
    pub(super) fn keep(
        &self,
        run: &str,
        command: &str,
        child: SandboxChild,
        scope: &CancellationToken,
        on_end: impl FnOnce(&Output) -> Vec<String> + Send + 'static,
    ) -> Result<String, BashError> {
        let runtime = Handle::try_current().map_err(|_| BashError::NoRuntime)?;
        let shell = Shell { stop: scope.child_token(), said: watch::Sender::default() };
        let task = self.tasks.start(BackgroundKind::Command, command, shell.stop.clone());
        let number = task.id;
        self.table().shells.insert((run.to_owned(), number), shell.clone());
        let (shells, key, scope) = (self.clone(), (run.to_owned(), number), scope.clone());
        runtime.spawn(async move {
            shell.watch(child, &task, on_end).await;
            // What it said last can be read as long as the run lasts.
            scope.cancelled().await;
            shells.table().shells.remove(&key);
        });
        Ok(number.to_string())
    }

    /// Waits until a command says something or ends, but not for longer than this, and takes what it
    /// has said.
    pub(super) async fn read(
        &self,
        run: &str,
        name: &str,
        wait: Duration,
    ) -> Result<Said, BashError> {
        let shell = self.get(run, name)?;
        let mut news = shell.said.subscribe();
        // Nothing new in time is an answer as well.
        tokio::time::timeout(wait, news.wait_for(Said::has_news)).await.ok();
        Ok(shell.take())
    }

    /// Stops a command, and takes what it has said.
    pub(super) async fn stop(&self, run: &str, name: &str) -> Result<Said, BashError> {
        let shell = self.get(run, name)?;
        shell.stop.cancel();
        let mut news = shell.said.subscribe();
        // The sender is held here, so that the wait ends with the command.
        news.wait_for(|it| it.outcome.is_some()).await.ok();
        let said = shell.take();
        if let Ok(number) = name.trim().parse() {
            self.table().shells.remove(&(run.to_owned(), number));
        }
        Ok(said)
    }

    fn get(&self, run: &str, name: &str) -> Result<Shell, BashError> {
        let missing = || BashError::NoSuchCommand(name.to_owned());
        let number: u32 = name.trim().parse().map_err(|_| missing())?;
        self.table().shells.get(&(run.to_owned(), number)).cloned().ok_or_else(missing)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shell {
    async fn watch(
        &self,
        mut child: SandboxChild,
        task: &StartedTask,
        on_end: impl FnOnce(&Output) -> Vec<String> + Send,
    ) {
        let output = loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break child.stop(GRACE).await,
                piece = child.read() => match piece {
                    Some((_, bytes)) => {
                        task.print(&bytes);
                        self.said.send_modify(|it| it.add(&bytes));
                    }
                    None => break child.wait().await,
                },
            }
        };
        let notes = on_end(&output);
        task.end(output.outcome.to_string());
        self.said.send_modify(|it| (it.notes, it.outcome) = (notes, Some(output.outcome)));
    }

    fn take(&self) -> Said {
        let mut taken = Said::default();
        self.said.send_modify(|it| {
            let kept = Said { outcome: it.outcome, ..Said::default() };
            taken = std::mem::replace(it, kept);
        });
        taken
    }
}

impl fmt::Debug for Shells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.table().shells.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
