//! Sub-agents in the background: they work while their parent continues.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_broadcast::text::single_line;
use loopwright_core::{
    AgentState, BoxError, DeniedCall, Flow, Hook, HookCx, HookPoint, HookPoints, Reach,
    SideEffects, Spend, StateEdit, Tool, ToolCx, ToolOptions, ToolOutput, messages::Message,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::background::{BackgroundKind, BackgroundTasks, StartedTask, TaskNumber};
use crate::child::detached::DetachedChild;
use crate::child::{ChildError, ChildOutcome};
use crate::subagents::SubagentPolicy;

/// How many sub-agents of a run may be in the background at a time.
const MAX: usize = 8;

/// The longest wait for the end of one, in seconds.
const MAX_SECONDS: i64 = 600;

/// How often an agent that answers is reminded of sub-agents whose answers it has not read.
const REMINDERS: u32 = 3;

/// How much of a prompt is shown in lists.
const SHOWN: usize = 60;

/// How much of the arguments of a call that cannot wait is shown to the model.
const ARGUMENTS: usize = 400;

/// An error of a sub-agent in the background, for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackgroundError {
    /// No sub-agent of the run has this number.
    #[error("unknown sub-agent `{0}`; pass the number that `spawn_subagent` returned in this run")]
    Unknown(String),
    /// Too many sub-agents are in the background.
    #[error("{MAX} sub-agents are running in the background; end one with `subagent_stop`")]
    TooMany,
    /// The program has no runtime that could run it.
    #[error("`{0}` runs in the background, which this program does not support")]
    NoRuntime(String),
}

/// The sub-agents in the background, by run. Clones are the same ones.
#[derive(Clone, Default)]
pub(super) struct BackgroundAgents {
    table: Arc<Mutex<Table>>,
    /// Where they are listed for programs.
    tasks: BackgroundTasks,
}

#[derive(Default)]
struct Table {
    agents: BTreeMap<(String, u32), Agent>,
    /// The number of reminders of each run.
    reminders: BTreeMap<String, u32>,
}

#[derive(Clone)]
struct Agent {
    name: String,
    stop: CancellationToken,
    ended: watch::Sender<Option<Ended>>,
    /// Whether its parent knows that it ended.
    is_told: bool,
    is_read: bool,
}

impl Table {
    fn has_room(&self, run: &str) -> Result<(), BackgroundError> {
        let mine = self.agents.iter().filter(|((owner, _), _)| owner == run);
        let running = mine.filter(|(_, it)| it.ended.borrow().is_none()).count();
        if running < MAX { Ok(()) } else { Err(BackgroundError::TooMany) }
    }
}

/// How a sub-agent ended.
#[derive(Clone, Debug)]
struct Ended {
    output: ToolOutput,
    spent: Spend,
}

impl BackgroundAgents {
    /// Lists them for programs, too.
    pub(super) fn listed_in(tasks: BackgroundTasks) -> Self {
        Self { table: Arc::default(), tasks }
    }

    /// Sees that one more sub-agent may begin, and returns the token that ends it.
    pub(super) fn check(
        &self,
        definition: &AgentDefinition,
        cx: &ToolCx<'_>,
    ) -> Result<CancellationToken, BackgroundError> {
        Handle::try_current().map_err(|_| BackgroundError::NoRuntime(definition.name.clone()))?;
        self.table().has_room(&run_of(cx))?;
        Ok(cx.cancel.child_token())
    }

    /// Runs a sub-agent that has begun, until it ends or its parent does. Returns its number.
    pub(super) fn keep(
        &self,
        child: DetachedChild,
        definition: &AgentDefinition,
        prompt: &str,
        policy: &SubagentPolicy,
        stop: CancellationToken,
        cx: &ToolCx<'_>,
    ) -> Result<u32, BackgroundError> {
        let name = definition.name.clone();
        let runtime =
            Handle::try_current().map_err(|_| BackgroundError::NoRuntime(name.clone()))?;
        // Others may have begun meanwhile.
        let room = self.table().has_room(&run_of(cx));
        if let Err(error) = room {
            runtime.spawn(child.abandon());
            return Err(error);
        }
        let title = format!("{name}: {}", single_line(prompt, SHOWN));
        let task = self.tasks.start(BackgroundKind::Subagent, title, stop.clone());
        let (id, run) = (task.id, run_of(cx));
        let ended = watch::Sender::default();
        let agent = Agent {
            name: name.clone(),
            stop,
            ended: ended.clone(),
            is_told: false,
            is_read: false,
        };
        self.table().agents.insert((run.clone(), id), agent);
        let (agents, policy, scope) = (self.clone(), policy.clone(), cx.cancel.clone());
        runtime.spawn(async move {
            let outcome = child.finish(|state| print(&task, state)).await;
            task.end(outcome.state.status().as_str());
            let output = outcome.to_output(policy.show(&name, &text_of(&outcome)));
            ended.send_replace(Some(Ended { output, spent: outcome.state.total_spent() }));
            // Its answer can be read as long as the run lasts.
            scope.cancelled().await;
            let mut table = agents.table();
            table.agents.remove(&(run.clone(), id));
            table.reminders.remove(&run);
        });
        Ok(id)
    }

    fn get(&self, run: &str, id: &str) -> Result<(u32, Agent), BackgroundError> {
        let unknown = || BackgroundError::Unknown(id.to_owned());
        let number: u32 = id.trim().parse().map_err(|_| unknown())?;
        let agent = self.table().agents.get(&(run.to_owned(), number)).cloned();
        Ok((number, agent.ok_or_else(unknown)?))
    }

    /// Waits until a sub-agent ends, and returns its answer. The call that reads it first pays for it.
    async fn read(
        &self,
        id: &str,
        wait: Duration,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, BackgroundError> {
        let run = run_of(cx);
        let (number, agent) = self.get(&run, id)?;
        let mut ended = agent.ended.subscribe();
        tokio::select! {
            () = cx.cancel.cancelled() => {}
            _ = tokio::time::timeout(wait, ended.wait_for(Option::is_some)) => {}
        }
        let Some(ended) = agent.ended.borrow().clone() else {
            return Ok(ToolOutput::text(format!("[sub-agent {number} is still running]")));
        };
        let mut table = self.table();
        if let Some(kept) = table.agents.get_mut(&(run, number)) {
            if !kept.is_read {
                cx.add_spend(ended.spent);
            }
            (kept.is_told, kept.is_read) = (true, true);
        }
        Ok(ended.output)
    }

    /// Returns what a run is to know: which sub-agents ended, and which it has not read if it is about to answer.
    fn news(&self, run: &str, is_answer: bool) -> Option<(String, bool)> {
        let mut table = self.table();
        let mut ended = Vec::new();
        let mut unread = Vec::new();
        for ((owner, id), agent) in &mut table.agents {
            if owner != run || agent.is_read {
                continue;
            }
            let has_ended = agent.ended.borrow().is_some();
            let state = if has_ended { "ended" } else { "running" };
            unread.push(format!("{id} ({}, {state})", agent.name));
            if has_ended && !agent.is_told {
                agent.is_told = true;
                ended.push(format!("{id} ({})", agent.name));
            }
        }
        if is_answer && !unread.is_empty() {
            let reminders = table.reminders.entry(run.to_owned()).or_default();
            if *reminders < REMINDERS {
                *reminders += 1;
                let unread = unread.join(", ");
                let text = format!(
                    "[Before you answer, read the answers of the background sub-agents with `subagent_read`, or end the sub-agents with \
                     `subagent_stop`: {unread}]"
                );
                return Some((text, true));
            }
        }
        let ended = (!ended.is_empty()).then(|| ended.join(", "))?;
        Some((
            format!("[Sub-agents have ended: {ended}. Read their answers with `subagent_read`]"),
            false,
        ))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names the run that a call belongs to.
fn run_of(cx: &ToolCx<'_>) -> String {
    cx.key.execution.to_string()
}

/// Returns the answer of a sub-agent, or why there is none.
fn text_of(outcome: &ChildOutcome) -> String {
    match outcome.answer() {
        Ok(answer) => answer.to_text(),
        Err(ChildError::Waits { name, .. }) => {
            CannotWait { name, calls: outcome.refused_calls() }.to_string()
        }
        Err(error) => error.to_string(),
    }
}

/// A sub-agent in the background ended because calls of it, or of its own sub-agents, need decisions or answers.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{name}` ended, because a sub-agent in the background cannot wait: {}; make such a call yourself, which can wait, or continue without it",
    listed(calls)
)]
struct CannotWait {
    name: Arc<str>,
    calls: Vec<DeniedCall>,
}

fn listed(calls: &[DeniedCall]) -> String {
    let calls = calls.iter().map(|it| {
        let arguments = single_line(&it.arguments.to_string(), ARGUMENTS);
        let path =
            it.agents.iter().map(|agent| format!(" of `{agent}`")).collect::<Vec<_>>().concat();
        format!("`{}`{path} with {arguments} {}", it.tool, it.reason)
    });
    calls.collect::<Vec<_>>().join(", ")
}

/// Shows a step to programs: what the model said, and the tools that it called.
fn print(task: &StartedTask, state: &AgentState) {
    let Some(step) = state.steps().last() else { return };
    let said = step.message().map(Message::text).unwrap_or_default();
    let calls = step.tool_executions().map(|(call, _)| call.name.to_string());
    let calls = calls.map(|name| format!("· {name}"));
    let lines = Some(said.trim().to_owned()).filter(|it| !it.is_empty()).into_iter().chain(calls);
    for line in lines {
        task.print(format!("{line}\n").as_bytes());
    }
}

/// Tells an agent of the ends of its sub-agents, and keeps it from answering before it has read them.
pub(super) struct BackgroundEnds(pub(super) BackgroundAgents);

#[async_trait]
impl Hook for BackgroundEnds {
    fn name(&self) -> Cow<'static, str> {
        "background_subagents".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::AfterStep.into()
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let Some(run) = state.execution().map(|it| it.id().to_string()) else {
            return Ok(Flow::Continue);
        };
        if let Some((text, continues)) = self.0.news(&run, state.has_final_response()) {
            state.push_message(Message::user(text));
            if continues {
                state.request_continuation();
            }
        }
        Ok(Flow::Continue)
    }
}

/// Returns the answer of a sub-agent in the background.
#[derive(Clone, Debug)]
pub struct SubagentRead(pub(super) BackgroundAgents);

/// Ends a sub-agent in the background.
#[derive(Clone, Debug)]
pub struct SubagentStop(pub(super) BackgroundAgents);

/// The arguments of the tool `subagent_read`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubagentReadArgs {
    /// The number of the sub-agent, as returned by `spawn_subagent`.
    pub id: TaskNumber,
    /// Seconds to wait for its end, at most 600; 60 by default.
    #[serde(default)]
    pub wait_seconds: Option<i64>,
}

/// The arguments of the tool `subagent_stop`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubagentStopArgs {
    /// The number of the sub-agent, as returned by `spawn_subagent`.
    pub id: TaskNumber,
}

fn options() -> ToolOptions {
    ToolOptions {
        side_effects: SideEffects::Idempotent,
        reach: Reach::Agent,
        namespace: Some("subagents".into()),
        ..ToolOptions::default()
    }
}

impl Tool for SubagentRead {
    type Args = SubagentReadArgs;
    type Output = ToolOutput;
    type Error = BackgroundError;

    fn name(&self) -> &'static str {
        "subagent_read"
    }

    fn description(&self) -> &'static str {
        "Waits for a background sub-agent to end and returns its answer, or reports that it is still running."
    }

    fn options(&self) -> ToolOptions {
        options()
    }

    async fn call(
        &self,
        args: SubagentReadArgs,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, BackgroundError> {
        let seconds = args.wait_seconds.unwrap_or(60).clamp(0, MAX_SECONDS);
        self.0.read(&args.id.0, Duration::from_secs(seconds.unsigned_abs()), cx).await
    }
}

impl Tool for SubagentStop {
    type Args = SubagentStopArgs;
    type Output = ToolOutput;
    type Error = BackgroundError;

    fn name(&self) -> &'static str {
        "subagent_stop"
    }

    fn description(&self) -> &'static str {
        "Ends a background sub-agent and returns the last text it wrote."
    }

    fn options(&self) -> ToolOptions {
        options()
    }

    async fn call(
        &self,
        args: SubagentStopArgs,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, BackgroundError> {
        let (_, agent) = self.0.get(&run_of(cx), &args.id.0)?;
        agent.stop.cancel();
        // It has a grace period to end in.
        self.0.read(&args.id.0, cx.grace.saturating_mul(2), cx).await
    }
}

impl fmt::Debug for BackgroundAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.table().agents.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
