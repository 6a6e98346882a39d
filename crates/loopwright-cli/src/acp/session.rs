//! One session that an editor has open.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_agent::{Definitions as _, tasks::TaskList};
use loopwright_capabilities::skills::SkillAudience;
use loopwright_core::{
    ApprovalDecision, LlmConfig, ModelProvider, PendingApproval, RequestKind, StopReason,
    messages::{Message, Part},
};
use loopwright_sessions::{DecideShown, SessionError, SessionId, SessionRuntime, ShownRequest};
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::RpcError;
use super::modes;
use super::options;
use super::permission::{self, Answered, Asked};
use super::replay;
use super::servers::NamedServer;
use super::tool_calls::ToolCalls;
use super::updates::{Updates, plan, text};
use crate::approval::elsewhere::{closed, finished};
use crate::approval::suggested;
use crate::chosen_rules::deciding;
use crate::config::{Config, ConfigSources};
use crate::console;
use crate::conversation::{Conversation, UserInput};
use crate::definitions::Defined;
use crate::display::chain;
use crate::ending::{Interruption, RunEnding};
use crate::exit::ExitCode;
use crate::loops::{FixedLoop, maintenance_runtime};
use crate::mentions;
use crate::model;
use crate::permissions::RunPermissions;
use crate::render::{UiEvent, UiSender, render_loop, single_line};
use crate::report::Report;
use crate::session::{SessionsError, now};
use crate::sessions::UserDecision;
use crate::signals::CancelSwitch;
use crate::startup::NoopListener;
use crate::user_skill::{self, Arguments, Invocation};

/// What the user types to continue an interrupted run without saying anything.
pub(super) const CONTINUE: &str = "continue";

/// The most characters of the description of a command.
const DESCRIPTION: usize = 200;

/// One session that an editor has open.
pub(super) struct EditorSession {
    id: SessionId,
    connection: Arc<Connection>,
    permissions: RunPermissions,
    config: Config,
    sources: ConfigSources,
    models: Arc<dyn ModelProvider>,
    /// The model of the next turn.
    llm: RefCell<LlmConfig>,
    calls: Arc<Mutex<ToolCalls>>,
    /// Taken while a turn is under way.
    conversation: RefCell<Option<Conversation>>,
    /// What cancels the turn under way.
    turn: RefCell<Option<CancelSwitch>>,
}

/// What became of the calls that waited.
enum Decided {
    /// Every call is decided about; the run can continue.
    All,
    /// The user cancelled the turn.
    Cancelled,
    /// A tool asks this; the next prompt answers it.
    Question(String),
}

impl EditorSession {
    /// Opens a session of this ID.
    pub(super) fn new(
        connection: &Arc<Connection>,
        id: SessionId,
        mut conversation: Conversation,
        config: Config,
        sources: ConfigSources,
    ) -> Self {
        if conversation.session.is_none() {
            conversation.new_id = Some(id.clone());
        }
        conversation.attend(true);
        let workdir = conversation.setup.workdir.path();
        Self {
            id,
            connection: Arc::clone(connection),
            permissions: conversation.setup.permissions.clone(),
            config,
            sources,
            models: Arc::clone(&conversation.setup.models),
            llm: RefCell::new(conversation.setup.llm.clone()),
            calls: Arc::new(Mutex::new(ToolCalls::new(workdir))),
            conversation: RefCell::new(Some(conversation)),
            turn: RefCell::default(),
        }
    }

    /// Returns the modes and options, as `session/new` and its like answer.
    pub(super) fn settings(&self) -> Value {
        json!({"modes": modes::state(&self.permissions), "configOptions": self.options()})
    }

    /// Returns the configuration options.
    pub(super) fn options(&self) -> Value {
        let llm = self.llm.borrow();
        let current = model::name(&llm);
        let providers = model::providers(&self.config, &self.sources).ok();
        let names = providers.map(|it| options::models(&it, &current));
        let names = names.unwrap_or_else(|| vec![current.clone()]);
        json!([
            modes::option(&self.permissions),
            options::model(&names, &current),
            options::effort(llm.options.reasoning_effort),
        ])
    }

    /// Returns `true` if the session has these MCP servers of the editor.
    pub(super) fn has_servers(&self, servers: &[NamedServer]) -> bool {
        self.sources.editor_servers == servers
    }

    /// Returns `true` while a turn runs.
    pub(super) fn is_busy(&self) -> bool {
        self.conversation.borrow().is_none()
    }

    /// Gives what the user selected to the same session with other servers, which takes its place.
    ///
    /// # Errors
    ///
    /// Returns an error if a turn has begun meanwhile.
    pub(super) fn hand_over(&self, next: &Self) -> Result<(), RpcError> {
        if self.is_busy() {
            return Err(busy());
        }
        next.llm.borrow_mut().clone_from(&self.llm.borrow());
        let set = next.permissions.set_mode(self.permissions.policy().mode());
        set.map_err(|error| RpcError::internal(error.to_string()))
    }

    fn defined(&self) -> Option<Defined> {
        Defined::of(&self.config, &self.sources)
    }

    /// Tells which commands a prompt can begin with.
    pub(super) fn tell_commands(&self) {
        let description = "Resume an interrupted run without a message";
        let found =
            self.defined().map(|it| (it.skills.list(SkillAudience::Users), it.agents.all()));
        let (skills, agents) = found.unwrap_or_default();
        let skills = skills.iter().map(|skill| {
            let hint = skill.info.argument_hint.as_deref().unwrap_or("arguments");
            (skill.name(), skill.info.description.clone(), hint)
        });
        let agents = agents
            .iter()
            .map(|it| (it.name.as_str(), format!("Agent: {}", it.description), "task"));
        let mut seen = BTreeSet::from([CONTINUE]);
        let others = skills.chain(agents).filter(|(name, ..)| seen.insert(*name));
        let others = others.map(|(name, about, hint)| {
            json!({
                "name": name, "description": single_line(&about, DESCRIPTION),
                "input": {"hint": single_line(hint, DESCRIPTION)},
            })
        });
        let own = json!({"name": CONTINUE, "description": description});
        let commands: Vec<Value> = std::iter::once(own).chain(others).collect();
        self.tell(&json!({
            "sessionUpdate": "available_commands_update", "availableCommands": commands,
        }));
    }

    fn tell(&self, update: &Value) {
        // Who does not read is found out by the next request.
        self.connection.update(self.id.as_str(), update).ok();
    }

    fn calls(&self) -> MutexGuard<'_, ToolCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the history of the session.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read, or a turn is under way.
    pub(super) async fn replay(&self) -> Result<(), RpcError> {
        let store = match &*self.conversation.borrow() {
            Some(conversation) => Arc::clone(&conversation.store),
            None => return Err(busy()),
        };
        let loaded = store.load(&self.id).await.map_err(SessionsError::from)?;
        let changes = loaded.map(|it| it.changes).unwrap_or_default();
        let updates = replay::updates(&changes, &mut self.calls());
        for update in updates {
            self.tell(&update);
        }
        let session = maintenance_runtime(&store).session(&self.id).await;
        let session = session.map_err(SessionsError::from)?;
        let tasks = TaskList::of(session.state());
        if !tasks.0.is_empty() {
            self.tell(&plan(&tasks));
        }
        Ok(())
    }

    /// Changes the permission mode, including that of the current turn.
    ///
    /// # Errors
    ///
    /// Returns an error if the mode cannot be selected.
    pub(super) fn set_mode(&self, name: &str) -> Result<(), RpcError> {
        let unknown = || RpcError::invalid_params(format!("unknown mode `{name}`"));
        let mode = modes::find(&self.permissions, name).ok_or_else(unknown)?;
        let set = self.permissions.set_mode(mode);
        set.map_err(|error| RpcError::invalid_params(error.to_string()))?;
        self.tell(&json!({"sessionUpdate": "current_mode_update", "currentModeId": mode.name()}));
        self.tell_options();
        Ok(())
    }

    fn tell_options(&self) {
        let options = self.options();
        self.tell(&json!({"sessionUpdate": "config_option_update", "configOptions": options}));
    }

    /// Changes an option. A model and an effort are for the next turn.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such option, or the value cannot be selected.
    pub(super) fn set_option(&self, option: &str, value: &str) -> Result<(), RpcError> {
        match option {
            modes::OPTION => return self.set_mode(value),
            options::MODEL => {
                let (config, sources) = (&self.config, &self.sources);
                let llm = model::named(value, &self.llm.borrow(), &*self.models, config, sources);
                let llm = llm.map_err(|error| RpcError::invalid_params(error.to_string()))?;
                *self.llm.borrow_mut() = llm;
            }
            options::EFFORT => {
                let unknown = || RpcError::invalid_params(format!("unknown effort `{value}`"));
                let effort = model::effort_of(value).ok_or_else(unknown)?;
                self.llm.borrow_mut().options.reasoning_effort = effort;
            }
            _ => return Err(RpcError::invalid_params(format!("unknown option `{option}`"))),
        }
        self.tell_options();
        Ok(())
    }

    /// Cancels the turn under way.
    pub(super) fn cancel(&self, reason: Interruption) {
        if let Some(brake) = &*self.turn.borrow() {
            brake.cancel(reason);
        }
    }

    /// Takes a turn, and returns why it ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the run fails, or another turn is under way.
    pub(super) async fn prompt(&self, message: Message) -> Result<Value, RpcError> {
        let mut conversation = self.conversation.borrow_mut().take().ok_or_else(busy)?;
        let llm = self.llm.borrow().clone();
        conversation.setup.use_model(llm, &self.config, &self.sources);
        let brake = CancelSwitch::new();
        *self.turn.borrow_mut() = Some(brake.clone());
        let is_new = conversation.session.is_none();
        let done = self.turn(&mut conversation, &brake, message).await;
        if is_new && conversation.session.is_some() {
            self.tell_title(&conversation).await;
        }
        conversation.setup.mcp.tell_failures();
        *self.turn.borrow_mut() = None;
        *self.conversation.borrow_mut() = Some(conversation);
        done.map(|reason| json!({"stopReason": reason}))
    }

    async fn tell_title(&self, conversation: &Conversation) {
        let header = conversation.store.header(&self.id).await;
        if let Ok(Some(header)) = header {
            self.tell(&json!({
                "sessionUpdate": "session_info_update", "title": header.title,
                "updatedAt": header.updated_at,
            }));
        }
    }

    async fn turn(
        &self,
        conversation: &mut Conversation,
        brake: &CancelSwitch,
        message: Message,
    ) -> Result<&'static str, RpcError> {
        let words = message.text();
        let mut said = match words.trim() {
            "" if message.parts().iter().all(|it| it.as_text().is_some()) => None,
            "/continue" => None,
            _ => Some(message),
        };
        if conversation.session.is_some() {
            // No call is decided about whose run would be refused.
            conversation.refuse_snapshots().await?;
            let reply = said.as_ref().map(|_| words.clone());
            let had_question = self.has_question(conversation).await?;
            if let Some(reason) = self.decide_all(conversation, brake, reply).await? {
                return Ok(reason);
            }
            if had_question {
                // The answer to a question is not said again.
                said = None;
            }
        } else if said.is_none() {
            return Err(RpcError::invalid_params("the prompt is empty"));
        }
        let mut input = match said {
            Some(message) => self.invoked(conversation, brake, message).await,
            None => UserInput::default(),
        };
        loop {
            let report = self.run(conversation, brake, std::mem::take(&mut input)).await?;
            if report.exit_code != ExitCode::NeedsInput {
                return self.ended(&report, brake);
            }
            if let Some(reason) = self.decide_all(conversation, brake, None).await? {
                return Ok(reason);
            }
            if let Some(session) = finished(&conversation.store, &self.id).await? {
                let (feed, _) = UiSender::new();
                let ended = conversation.ended(&session, Duration::ZERO, &feed, brake);
                let report = Box::pin(ended).await;
                self.tell(&text("agent_message_chunk", &report.text));
                return self.ended(&report, brake);
            }
        }
    }

    /// Makes a message of the skill or the agent that a message names, if it names one. The model of the skill is for this turn.
    async fn invoked(
        &self,
        conversation: &mut Conversation,
        brake: &CancelSwitch,
        message: Message,
    ) -> UserInput {
        let words = message.text();
        let named = user_skill::named(words.trim()).and_then(|(name, arguments)| {
            let defined = self.defined()?;
            Some((user_skill::find(&defined, name)?, arguments))
        });
        let unchanged = |message| UserInput { message: Some(message), ..UserInput::default() };
        let Some((named, arguments)) = named else { return unchanged(message) };
        let invocation = Invocation {
            setup: &conversation.setup,
            config: &self.config,
            sources: &self.sources,
            session: conversation.session.as_ref().map(|id| (&conversation.store, id)),
            cancel: brake.token(),
        };
        // What follows the first line can be a file that the editor adds.
        let typed = arguments.lines().next().unwrap_or_default();
        let arguments = Arguments { text: arguments, typed };
        let invoked = match invocation.message_of(&named, arguments).await {
            Ok(invoked) => invoked,
            Err(reason) => {
                console::warn(&reason);
                return unchanged(message);
            }
        };
        if let Some(llm) = invoked.llm {
            conversation.setup.use_model(llm, &self.config, &self.sources);
        }
        let workdir = conversation.setup.workdir.clone();
        let (text, named) = (invoked.text, invoked.mentions);
        // The editor may have to answer, and meanwhile other sessions go on.
        let attaching =
            tokio::task::spawn_blocking(move || mentions::attach(&text, &named, &workdir));
        let Ok(attached) = attaching.await else { return unchanged(message) };
        for note in attached.notes {
            console::warn(&note);
        }
        let others = message.parts().iter().filter(|it| it.as_text().is_none()).cloned();
        let text = std::iter::once(Part::text(attached.text));
        let message = Message::new(message.role(), text.chain(attached.media).chain(others));
        UserInput { message: Some(message), skill: invoked.skill, ..UserInput::default() }
    }

    /// Runs the agent until it has answered, has to ask or is cancelled.
    async fn run(
        &self,
        conversation: &mut Conversation,
        brake: &CancelSwitch,
        said: UserInput,
    ) -> Result<Report, RpcError> {
        let (feed, notes) = UiSender::new();
        let feed = feed.watching(conversation.setup.workdir.clone());
        let updates = Box::new(Updates {
            connection: Arc::clone(&self.connection),
            session: self.id.to_string(),
            calls: Arc::clone(&self.calls),
            context_window: conversation.setup.context_window,
            have_spoken: BTreeSet::new(),
        });
        let hang_up = brake.clone();
        let shown = tokio::task::spawn_blocking(move || {
            render_loop(updates, &notes, || hang_up.cancel(Interruption::HangUp))
        });
        let done = Box::pin(conversation.take_turn(&feed, brake, said)).await;
        let report = match &done {
            Ok(report) => report.clone(),
            Err(error) => Report::refused(error.exit_code(), error.stop_reason(), chain(error)),
        };
        feed.tell(UiEvent::Over(Box::new(report)));
        // The answer to the prompt follows the last update.
        shown.await.ok();
        Ok(done?)
    }

    /// Says how a run ended, in the words of the protocol.
    fn ended(&self, report: &Report, brake: &CancelSwitch) -> Result<&'static str, RpcError> {
        if brake.reason().is_some() && report.status == "stopped" {
            return Ok("cancelled");
        }
        let remark = report.remark.clone();
        if report.status == "failed" {
            let reason = remark.or_else(|| report.errors.last().cloned()).unwrap_or_default();
            return Err(match report.exit_code {
                ExitCode::NoModel => RpcError::auth_required(reason),
                _ => RpcError::internal(reason),
            });
        }
        if let Some(remark) = remark {
            console::tell(&remark);
            if report.status == "stopped" {
                // The editor has no other place for it.
                self.tell(&text("agent_message_chunk", &format!("\n\n{remark}")));
            }
        }
        Ok(match report.stop_reason {
            reason if reason == RunEnding::CutOff.name() => "max_tokens",
            "token_limit" => "max_tokens",
            reason if reason == RunEnding::Refused.name() => "refusal",
            reason if reason == RunEnding::Filtered.name() => "refusal",
            reason if reason == StopReason::StopRequested.as_str() => "end_turn",
            _ if report.status == "stopped" => "max_turn_requests",
            _ => "end_turn",
        })
    }

    /// Returns `true` if a tool asks something.
    async fn has_question(&self, conversation: &Conversation) -> Result<bool, RpcError> {
        let session = maintenance_runtime(&conversation.store).session(&self.id).await;
        let session = session.map_err(SessionsError::from)?;
        let pending = session.state().pending();
        Ok(pending
            .iter()
            .filter(|it| waits(it))
            .any(|it| !matches!(it.kind, RequestKind::Approval)))
    }

    /// Asks the editor about each call that waits. Returns why the turn ends, unless every call is decided about.
    async fn decide_all(
        &self,
        conversation: &Conversation,
        brake: &CancelSwitch,
        reply: Option<String>,
    ) -> Result<Option<&'static str>, RpcError> {
        Ok(match self.decide(conversation, brake, reply).await? {
            Decided::All => None,
            Decided::Cancelled => Some("cancelled"),
            Decided::Question(question) => {
                self.tell(&text("agent_message_chunk", &question));
                Some("end_turn")
            }
        })
    }

    /// Asks the editor about each call that waits, and records the answers. `reply` answers what a tool asks.
    async fn decide(
        &self,
        conversation: &Conversation,
        brake: &CancelSwitch,
        mut reply: Option<String>,
    ) -> Result<Decided, RpcError> {
        let setup = &conversation.setup;
        let agent = setup.build(NoopListener).map_err(SessionError::from);
        let agent = agent.map_err(SessionsError::from)?;
        let runtime = SessionRuntime::new(Arc::clone(&conversation.store), FixedLoop(agent));
        let mut is_cancelled = false;
        loop {
            let header = conversation.store.header(&self.id).await.map_err(SessionsError::from)?;
            let version = header.map(|it| it.version);
            let session = runtime.session(&self.id).await.map_err(SessionsError::from)?;
            let state = session.state();
            let pending = state.pending();
            let Some(asked) = pending.iter().find(|it| waits(it)) else {
                return Ok(if is_cancelled { Decided::Cancelled } else { Decided::All });
            };
            let is_question = !matches!(asked.kind, RequestKind::Approval);
            let request = ShownRequest::of(&self.id, state, asked);
            let mut rules = Vec::new();
            let answered: Option<Answered> = if is_question && !is_cancelled {
                let Some(answer) = reply.take() else {
                    return Ok(Decided::Question(asked.question.text.clone()));
                };
                Some(UserDecision::Reply(answer).of(Some(asked), state).into())
            } else if is_cancelled {
                None
            } else {
                rules = suggested(setup, state, asked);
                let params = permission::request(
                    self.id.as_str(),
                    setup,
                    &mut self.calls(),
                    state,
                    asked,
                    &rules,
                );
                let deadline = asked.question.deadline;
                let settled = closed(&conversation.store, &self.id, &request, version, deadline);
                match permission::ask(&self.connection, brake, &params, settled).await? {
                    Asked::Answered(answer) => permission::decision(&answer, state, asked, &rules),
                    Asked::Cancelled => None,
                    // What the session has on record decides.
                    Asked::Settled => continue,
                }
            };
            let answered = answered.unwrap_or_else(|| {
                is_cancelled = true;
                ApprovalDecision::Deny { reason: permission::CANCELLED.to_owned() }.into()
            });
            let resolution = answered.resolution.clone();
            let decide = DecideShown { request, resolution };
            let action = deciding(decide, answered.session_rules(&rules));
            match runtime.execute(&self.id, &action).await {
                // Rules are kept only with the decision that they come from.
                Ok(session) => answered.keep(&setup.permissions, &session, &rules),
                Err(error @ SessionError::Superseded { .. }) => console::warn(&error),
                // An answer that does not fit is not recorded, and the question stands.
                Err(SessionError::Decision(error)) => console::warn(&error),
                Err(error) => return Err(SessionsError::from(error).into()),
            }
        }
    }
}

/// Returns `true` if a request takes a decision. The run denies those whose deadline has passed.
fn waits(asked: &PendingApproval<'_>) -> bool {
    !asked.question.is_expired(now())
}

fn busy() -> RpcError {
    RpcError::invalid_request("a turn of this session is running; cancel it first")
}
