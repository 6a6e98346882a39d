//! Running hooks at their events.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_capabilities::files::{FileSnapshot, WorkspaceRoot};
use loopwright_capabilities::permissions::Permissions;
use loopwright_capabilities::skills::active_skills;
use loopwright_core::messages::{Message, Part, Role, ToolCall, Turn, TurnBody};
use loopwright_core::{
    AgentState, ApprovalRequest, Arguments, BoxError, ChangedFile, Flow, Hook, HookCx, HookPoint,
    HookPoints, StateEdit, StopDecision, StopSignal, ToolDecision, ToolOutcome,
};
use loopwright_permissions::{Mode, foreign_name};
use loopwright_sandbox::{Command, Sandbox, SandboxPolicy, Stdin, auto_select};
use loopwright_sessions::SessionId;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use loopwright_capabilities::compaction::{CompactionGate, CompactionTrigger};

use super::arguments::{changed, tool_input};
use super::output::{HookDecision, Said};
use super::{Action, CommandHooks, HookEvent, OnFailure, Places};
use crate::commands::Commands;
use crate::console;
use crate::render::sanitize_terminal;

const NAME: &str = "command_hooks";

/// The maximum number of times that hooks may keep an agent from finishing in one run.
const MAX_CONTINUED: u32 = 8;

/// The context of a run that hooks need.
#[derive(Clone)]
pub(crate) struct HookSetup {
    pub(crate) hooks: CommandHooks,
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) policy: SandboxPolicy,
    /// The files of the agent, which record what hooks change.
    pub(crate) files: WorkspaceRoot,
    pub(crate) permissions: Permissions,
    /// The root of the project.
    pub(crate) project: PathBuf,
    /// The user's home, where their hooks are.
    pub(crate) home: Option<PathBuf>,
    /// The session that the agent works in; `None` if it works in none.
    pub(crate) session: Option<SessionId>,
    /// Shows a message to the user.
    pub(crate) tell: fn(&str),
}

/// Runs the hooks of a run.
pub(crate) struct UseCommandHooks(pub(crate) Option<HookSetup>);

impl Capability for UseCommandHooks {
    fn name(&self) -> Cow<'static, str> {
        "use_command_hooks".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        if let Some(setup) = &self.0 {
            agent.hooks.add(Runner(setup.clone()));
        }
        Ok(())
    }
}

/// The memory between events, for the lifetime of the program.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Sessions whose start was reported.
    started: HashSet<String>,
    /// Calls whose arguments a hook has changed; they are not changed again.
    rewritten: HashSet<String>,
    /// What hooks ask about calls that have no result yet.
    questions: HashMap<String, String>,
    /// Additional text for the model with the result of a call.
    contexts: HashMap<String, Vec<String>>,
    /// How many times runs were kept from finishing.
    continued: HashMap<String, u32>,
    /// Sessions, and the hooks that run only once in each and have run.
    done: HashSet<(String, usize)>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CompactionGate for HookSetup {
    async fn keeps(&self, trigger: CompactionTrigger, state: &AgentState) -> bool {
        let trigger = trigger.as_str();
        let input = json!({ "trigger": trigger, "custom_instructions": "" });
        let said = self
            .run(HookEvent::PreCompact, &[trigger], input, &self.session(state), |it| {
                it.skill.is_none()
            })
            .await;
        match (said.stop, said.decision) {
            (Some(reason), _) | (None, Some(HookDecision::Block(reason))) => {
                (self.tell)(&format!("a hook prevented the compaction: {reason}"));
                true
            }
            _ => false,
        }
    }
}

struct Runner(HookSetup);

impl Runner {
    fn memory(&self) -> MutexGuard<'_, Remembered> {
        self.0.hooks.memory.lock()
    }

    /// Runs the hooks of an event in order.
    async fn run(
        &self,
        event: HookEvent,
        names: &[&str],
        input: Value,
        (state, cx): (&AgentState, &HookCx<'_>),
    ) -> Said {
        self.run_for(event, names, input, (state, cx), |_| true).await
    }

    async fn run_for(
        &self,
        event: HookEvent,
        names: &[&str],
        input: Value,
        (state, cx): (&AgentState, &HookCx<'_>),
        concerns: impl Fn(&super::CommandHook) -> bool,
    ) -> Said {
        let input = match state.parent() {
            Some(parent) if input.get("agent_id").is_none() => {
                let name = json!(&*cx.agent().profile().name);
                with_subagent(input, &agent(state), name, &parent.to_string())
            }
            _ => input,
        };
        let active = active_skills(state);
        let concerns = |hook: &super::CommandHook| hook.is_in_force(&active) && concerns(hook);
        self.0.run(event, names, input, &self.0.session(state), concerns).await
    }

    /// Returns `true` if hooks run after a call.
    fn has_hooks(
        &self,
        names: &[&str],
        state: &AgentState,
        concerns: impl Fn(&super::CommandHook) -> bool,
    ) -> bool {
        let active = active_skills(state);
        let mut hooks = self.0.hooks.at(HookEvent::PostToolUse, names);
        hooks.any(|(_, hook)| hook.is_in_force(&active) && concerns(hook))
    }

    fn stop(reason: String) -> StopSignal {
        StopSignal::requested(NAME, reason)
    }
}

impl HookSetup {
    /// Gives hooks the permissions of commands in a directory, and read access to their project and the folder of the
    /// user's hooks.
    pub(crate) fn new(
        hooks: CommandHooks,
        commands: &Commands,
        workdir: &WorkspaceRoot,
        project: &Path,
        permissions: Permissions,
    ) -> Self {
        let policy = commands.extend_for_user_programs(SandboxPolicy::in_dir(workdir.path()));
        // Most hooks are scripts in these folders.
        let folders = [Some(project.to_path_buf()), commands.own_hooks()];
        let folders = folders.into_iter().flatten().filter(|folder| folder.is_dir());
        let policy = folders.fold(policy, SandboxPolicy::read);
        let policy = policy.with_env("CLAUDE_PROJECT_DIR", project.to_string_lossy());
        Self {
            hooks,
            sandbox: auto_select(),
            policy,
            files: workdir.clone(),
            permissions,
            project: project.to_path_buf(),
            home: commands.home.clone(),
            session: commands.session.clone(),
            tell: |message| console::tell(&sanitize_terminal(message)),
        }
    }

    /// Returns the ID of the session, or that of the agent if it works in none.
    fn session(&self, state: &AgentState) -> String {
        self.session.as_ref().map_or_else(|| agent(state), ToString::to_string)
    }

    fn places(&self) -> Places<'_> {
        let (workdir, project) = (&self.policy.workdir, &self.project);
        Places { workdir, project, home: self.home.as_deref() }
    }

    /// Runs the hooks for a run that waits for the user.
    pub(crate) async fn notify(&self, session: &str) {
        let input = json!({
            "message": "the agent is waiting for your answer", "notification_type": "permission_prompt",
        });
        let is_of_run = |hook: &super::CommandHook| hook.skill.is_none();
        self.run(HookEvent::Notification, &["permission_prompt"], input, session, is_of_run).await;
    }

    async fn run(
        &self,
        event: HookEvent,
        names: &[&str],
        input: Value,
        session: &str,
        concerns: impl Fn(&super::CommandHook) -> bool,
    ) -> Said {
        let mut said = Said::default();
        let hooks: Vec<_> =
            self.hooks.at(event, names).filter(|(_, hook)| concerns(hook)).collect();
        if hooks.is_empty() {
            return said;
        }
        let input = self.input(event, input, session);
        for (index, hook) in hooks {
            let done = (session.to_owned(), index);
            if hook.is_once && !self.hooks.memory.lock().done.insert(done) {
                continue;
            }
            let line = match &hook.action {
                Action::Run(line) => self.line(line),
                Action::Block(reason) => {
                    said.block(reason.clone());
                    continue;
                }
                Action::Ask(reason) => {
                    said.ask(reason.clone());
                    continue;
                }
            };
            let text = serde_json::to_vec(&input).unwrap_or_default();
            let command = Command::shell(line).stdin(Stdin::Bytes(text.into()));
            let policy = hook.within(&self.policy);
            // Dropping this future stops the hook and all processes that it started.
            let cancel = CancellationToken::new();
            match self.sandbox.run(&command, &policy, &mut |_, _| {}, &cancel).await {
                Ok(output) => said.add(event, &output, hook.on_failure),
                // A hook that cannot run has not approved.
                Err(error) => said.fail(&error.to_string(), OnFailure::Block),
            }
        }
        for message in &said.messages {
            (self.tell)(&format!("{}: {message}", event.name()));
        }
        said
    }

    /// Reads the files that a call has changed before hooks change them, too.
    async fn snapshot(&self, files: &[ChangedFile]) -> Option<FileSnapshot> {
        let paths: Vec<String> = files.iter().map(|it| it.path.clone()).collect();
        let root = self.files.clone();
        let read = move || root.snapshot(paths.iter().map(String::as_str));
        tokio::task::spawn_blocking(read).await.ok()
    }

    /// Records what hooks made of these files, so that undoing the call undoes it as well.
    async fn record_changes(&self, before: FileSnapshot) {
        let recorded = tokio::task::spawn_blocking(move || before.record_changes()).await;
        if let Ok(Err(error)) = recorded {
            (self.tell)(&format!("changes made by hooks cannot be undone: {error}"));
        }
    }

    /// Replaces `~` with the user's home in the paths of hooks: in the sandbox, `~` is another folder.
    fn line(&self, command: &str) -> String {
        let Some(home) = &self.home else { return command.to_owned() };
        let full = format!("{}/.claude/", home.display());
        let forms = ["~/.claude/", "$HOME/.claude/", "${HOME}/.claude/"];
        forms.iter().fold(command.to_owned(), |line, form| line.replace(form, &full))
    }

    /// Adds the fields that all events have in common.
    fn input(&self, event: HookEvent, input: Value, session: &str) -> Value {
        let mode = match self.permissions.policy().mode() {
            Mode::Plan => "plan",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Auto => "auto",
            Mode::Deny => "dontAsk",
            Mode::Unconfined => "bypassPermissions",
            Mode::Ask => "default",
        };
        let fields = [
            ("hook_event_name", json!(event.name())),
            ("session_id", json!(session)),
            ("transcript_path", json!("")),
            ("cwd", json!(self.policy.workdir)),
            ("permission_mode", json!(mode)),
        ];
        with_fields(input, fields)
    }
}

/// Returns the user's message of a turn.
fn user_text(turn: &Turn) -> Option<String> {
    match turn.body() {
        TurnBody::Input(message) if message.role() == Role::User => Some(message.text()),
        _ => None,
    }
}

/// Returns the ID of an agent.
fn agent(state: &AgentState) -> String {
    state.id().map(ToString::to_string).unwrap_or_default()
}

/// Adds the sub-agent that a call has run, which its output names, to the input of a hook.
fn of_subagent(input: Value, output: Option<&Value>, state: &AgentState) -> Value {
    let found = output.and_then(|it| Some((it.get("agent")?.as_str()?, it.get("subagent")?)));
    match found {
        Some((id, name)) => with_subagent(input, id, name.clone(), &agent(state)),
        None => input,
    }
}

/// Adds a sub-agent and its parent to the input of a hook.
fn with_subagent(input: Value, id: &str, name: Value, parent: &str) -> Value {
    let fields =
        [("agent_id", json!(id)), ("agent_type", name), ("parent_agent_id", json!(parent))];
    with_fields(input, fields)
}

/// Adds fields to the input of a hook.
fn with_fields<const N: usize>(mut input: Value, fields: [(&str, Value); N]) -> Value {
    if let Some(known) = input.as_object_mut() {
        known.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    }
    input
}

/// Returns a key of a call that is unique across sessions.
fn key(call: &ToolCall, state: &AgentState) -> String {
    let id = call.id.as_deref().unwrap_or(&call.name);
    format!("{}/{}/{id}", agent(state), state.total_steps())
}

fn told(context: &[String]) -> String {
    format!("[hook] {}", context.join("\n"))
}

#[async_trait]
impl Hook for Runner {
    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn points(&self) -> HookPoints {
        let points = [
            HookPoint::BeforeExecution,
            HookPoint::BeforeTool,
            HookPoint::AfterTool,
            HookPoint::OnStop,
        ];
        HookPoints::from_points(points)
    }

    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let is_new = self.memory().started.insert(agent(state));
        if is_new {
            let source = if state.execution_count() <= 1 { "startup" } else { "resume" };
            let said = self
                .run(HookEvent::SessionStart, &[source], json!({ "source": source }), (state, cx))
                .await;
            if !said.context.is_empty() {
                state.push_message(Message::user(told(&said.context)));
            }
            if let Some(reason) = said.stop {
                return Ok(Flow::Stop(Self::stop(reason)));
            }
        }
        let turn = state.transcript().iter().rev().find_map(|turn| user_text(turn));
        let Some(prompt) = turn else { return Ok(Flow::Continue) };
        let said = self
            .run(HookEvent::UserPromptSubmit, &[""], json!({ "prompt": prompt }), (state, cx))
            .await;
        if let Some(reason) = said.stop {
            return Ok(Flow::Stop(Self::stop(reason)));
        }
        if let Some(HookDecision::Block(reason)) = said.decision {
            return Ok(Flow::Stop(Self::stop(format!("a hook blocked the prompt: {reason}"))));
        }
        if !said.context.is_empty() {
            state.push_message(Message::user(told(&said.context)));
        }
        Ok(Flow::Continue)
    }

    async fn before_tool(
        &self,
        call: &ToolCall,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        let arguments = call.parse_arguments().unwrap_or(Value::Null);
        let names = [foreign_name(&call.name), &*call.name];
        let input = json!({
            "tool_name": names[0], "tool_use_id": call.id,
            "tool_input": tool_input(call, &arguments, &self.0.policy.workdir),
        });
        let places = self.0.places();
        let concerns = |hook: &super::CommandHook| hook.concerns(&call.name, &arguments, places);
        let said = self.run_for(HookEvent::PreToolUse, &names, input, (state, cx), concerns).await;
        let key = key(call, state);
        if !said.context.is_empty() {
            self.memory().contexts.insert(key.clone(), said.context);
        }
        if let Some(reason) = said.stop {
            return Ok(ToolDecision::Stop(Self::stop(reason)));
        }
        // A call whose hooks were interrupted is asked about again, even if a hook runs only once.
        let earlier = self.memory().questions.get(&key).cloned();
        let question = match said.decision {
            Some(HookDecision::Block(reason)) => {
                return Ok(ToolDecision::Block { reason: format!("blocked by a hook: {reason}") });
            }
            Some(HookDecision::Ask(text)) => Some(text),
            // This does not override the permission rules, which still apply.
            Some(HookDecision::Allow) | None => earlier,
        };
        if let Some(text) = &question {
            // The user is asked about the call as it runs, even if the hook that changes it has no question about that one.
            self.memory().questions.insert(key.clone(), text.clone());
        }
        if let Some(input) = said.input {
            let wanted = changed(input, call, &arguments, &self.0.policy.workdir);
            if wanted != arguments && self.memory().rewritten.insert(key) {
                return Ok(ToolDecision::Rewrite(Arguments::new(wanted.to_string())));
            }
        }
        Ok(question
            .map_or(ToolDecision::Run, |text| ToolDecision::Ask(ApprovalRequest::new(text, NAME))))
    }

    async fn after_tool(
        &self,
        call: &ToolCall,
        outcome: &mut ToolOutcome,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let mut context = {
            let (key, mut memory) = (key(call, state), self.memory());
            memory.rewritten.remove(&key);
            memory.questions.remove(&key);
            memory.contexts.remove(&key).unwrap_or_default()
        };
        let ToolOutcome::Returned(output) = outcome else { return Ok(Flow::Continue) };
        let arguments = call.parse_arguments().unwrap_or(Value::Null);
        let names = [foreign_name(&call.name), &*call.name];
        let response = output.to_text();
        let input = json!({
            "tool_name": names[0], "tool_use_id": call.id,
            "tool_input": tool_input(call, &arguments, &self.0.policy.workdir),
            "tool_response": { "text": response, "value": output.value },
        });
        let places = self.0.places();
        let concerns = |hook: &super::CommandHook| hook.concerns(&call.name, &arguments, places);
        let mut stop = None;
        let files = output.files.known();
        let before = if files.is_empty() || !self.has_hooks(&names, state, concerns) {
            None
        } else {
            self.0.snapshot(files).await
        };
        let mut said = vec![
            self.run_for(HookEvent::PostToolUse, &names, input.clone(), (state, cx), concerns)
                .await,
        ];
        if let Some(before) = before {
            self.0.record_changes(before).await;
        }
        if names[0] == "Task" {
            let input = of_subagent(input, output.value.as_deref(), state);
            said.push(self.run(HookEvent::SubagentStop, &[""], input, (state, cx)).await);
        }
        for said in said {
            if let Some(replaced) = said.output {
                let text = replaced.as_str().map_or_else(|| replaced.to_string(), str::to_owned);
                output.content = [Part::text(text)].into();
                output.value = Some(Arc::new(replaced));
            }
            if let Some(HookDecision::Block(reason)) = said.decision {
                context.push(reason);
            }
            context.extend(said.context);
            stop = stop.or(said.stop);
        }
        if !context.is_empty() {
            let parts = output.content.iter().cloned().chain([Part::text(told(&context))]);
            output.content = parts.collect();
        }
        Ok(stop.map_or(Flow::Continue, |reason| Flow::Stop(Self::stop(reason))))
    }

    async fn on_stop(
        &self,
        signal: Option<&StopSignal>,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        if signal.is_some() {
            return Ok(StopDecision::Stop);
        }
        let run = format!("{}/{}", agent(state), state.execution_count());
        let continued = self.memory().continued.get(&run).copied().unwrap_or_default();
        if continued >= MAX_CONTINUED {
            return Ok(StopDecision::Stop);
        }
        let input = json!({ "stop_hook_active": continued > 0 });
        let said = self.run(HookEvent::Stop, &[""], input, (state, cx)).await;
        match said.decision {
            Some(HookDecision::Block(reason)) if said.stop.is_none() => {
                self.memory().continued.insert(run, continued + 1);
                state.push_message(Message::user(told(&[reason])));
                Ok(StopDecision::Continue)
            }
            _ => Ok(StopDecision::Stop),
        }
    }
}
