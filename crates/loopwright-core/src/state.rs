//! Everything an agent remembers.

pub(crate) mod change;
pub(crate) mod continuation;
pub(crate) mod edit;
pub(crate) mod execution;
pub(crate) mod fold;
pub(crate) mod outbox;
pub(crate) mod outcome;
pub(crate) mod pause;
pub(crate) mod step;

use std::{sync::Arc, time::Duration};

use loopwright_messages::{
    AgentId, CacheBreak, Message, ResponseFormat, SectionName, Sections, ToolCall, ToolResult,
    Transcript, Turn, TurnBody, Usage,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    budget::{Budget, Spend},
    change::{Change, Edit, Seq},
    clock::{Timestamp, stamp_or_none},
    execution::{Execution, ExecutionStatus},
    failure::{Failure, FailureKind},
    key::{Key, Metadata, Namespace, Scope, StateKey},
    llm::LlmConfig,
    outbox::Outbox,
    outcome::ApprovalDecision,
    pause::PendingApproval,
    step::{Step, StepKind},
    stop::{StopReason, StopSignal},
};

/// Everything an agent remembers. Immutable to callers but by [`edit`](AgentState::edit); cheap to
/// clone, since the parts that grow are shared.
///
/// A state is the fold of its [`Change`]s: [`replay`](AgentState::replay) makes it again from a
/// journal. Only the loop can begin, record or end an execution.
///
/// ```
/// use loopwright_core::{AgentState, Budget, ExecutionStatus};
/// use loopwright_testing::{FakeDriver, block_on, test_loop};
///
/// let agent = test_loop(FakeDriver::responses(["A harbour town."]));
/// let state = AgentState::new()
///     .with_system_prompt("Answer in one sentence.")
///     .with_budget(Budget::unlimited().with_steps(5))
///     .with_user_message("What is Piran?");
/// let after = block_on(agent.execute(state.clone()));
/// assert_eq!((after.text().as_str(), after.step_count()), ("A harbour town.", 1));
/// assert_eq!(state.status(), &ExecutionStatus::Pending); // The state that you passed is unchanged.
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "stamp_or_none")]
    pub(crate) created_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "stamp_or_none")]
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) context: AgentContext,
    pub(crate) budget: Budget,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) llm: Option<Arc<LlmConfig>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) execution: Option<Execution>,
    pub(crate) executions: u32,
    pub(crate) total_steps: u64,
    pub(crate) total_spent: Spend,
    pub(crate) total_worked: Duration,
    pub(crate) seq: Seq,
    #[serde(skip)]
    pub(crate) outbox: Outbox,
}

/// What the model may see, and what capabilities and programs keep beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentContext {
    pub(crate) sections: Sections,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system_prompt: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_format: Option<ResponseFormat>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub(crate) metadata: Metadata,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub(crate) values: Metadata,
}

impl AgentContext {
    /// Returns the conversation in its sections.
    pub fn sections(&self) -> &Sections {
        &self.sections
    }

    /// Returns the session's own instructions; the agent's come on top of them.
    pub fn system_prompt(&self) -> Option<&Arc<str>> {
        self.system_prompt.as_ref()
    }

    /// Returns the form of answers.
    pub fn response_format(&self) -> Option<&ResponseFormat> {
        self.response_format.as_ref()
    }

    /// Returns the metadata that models and users write.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// How a state is set up.
impl AgentState {
    /// Creates a state that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies an edit. A journal gets it with the next run.
    ///
    /// While a step is open, what is said is kept back and follows the step.
    #[must_use]
    pub fn edit(mut self, edit: Edit) -> Self {
        self.apply_edit(&edit);
        self.seq += 1;
        self.outbox.push_unstamped(Change::StateEdited { by: Arc::from("caller"), edit });
        self
    }

    /// Says something as the user.
    #[must_use]
    pub fn with_user_message(self, text: impl Into<Arc<str>>) -> Self {
        self.with_message(Message::user(text))
    }

    /// Says something. What is empty, or calls tools, is not said.
    #[must_use]
    pub fn with_message(self, message: Message) -> Self {
        self.edit(Edit::Append { section: SectionName::MESSAGES.into(), message })
    }

    /// Appends messages to the conversation. What is empty, or calls tools, is left out.
    #[must_use]
    pub fn with_appended_messages(self, messages: impl IntoIterator<Item = Message>) -> Self {
        messages.into_iter().fold(self, Self::with_message)
    }

    /// Replaces the conversation by messages. What is empty, or calls tools, is left out.
    #[must_use]
    pub fn with_messages(self, messages: impl IntoIterator<Item = Message>) -> Self {
        let said = messages.into_iter().filter(|it| !it.is_empty());
        self.with_transcript(said.filter_map(|it| Turn::from_message(it).ok()).collect())
    }

    /// Replaces the conversation.
    #[must_use]
    pub fn with_transcript(self, turns: Transcript) -> Self {
        let section = SectionName::MESSAGES.into();
        self.edit(Edit::Replace { section, turns, cause: CacheBreak::Compaction })
    }

    /// Sets the session's system prompt.
    #[must_use]
    pub fn with_system_prompt(self, prompt: impl Into<Arc<str>>) -> Self {
        self.edit(Edit::SystemPrompt(Some(prompt.into()).filter(|it| !it.trim().is_empty())))
    }

    /// Sets the form of answers.
    #[must_use]
    pub fn with_response_format(self, format: ResponseFormat) -> Self {
        self.edit(Edit::ResponseFormat(Some(format)))
    }

    /// Sets the budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        self.edit(Edit::Budget(budget))
    }

    /// Selects provider, model and settings.
    #[must_use]
    pub fn with_llm(self, llm: LlmConfig) -> Self {
        self.edit(Edit::Llm(Some(Arc::new(llm))))
    }

    /// Keeps a value of the metadata that models and users see.
    #[must_use]
    pub fn with_metadata(self, key: impl Into<Arc<str>>, value: impl Into<Value>) -> Self {
        let slot = StateKey { space: Namespace::Metadata, key: key.into() };
        self.edit(Edit::Set(slot, Some(value.into())))
    }

    /// Has the budget of the current execution count anew from here.
    #[must_use]
    pub fn renew_budget(self) -> Self {
        self.edit(Edit::RenewBudget)
    }

    /// Names the agent that this one works for.
    #[must_use]
    pub fn with_parent(self, parent: AgentId) -> Self {
        self.edit(Edit::Parent(parent))
    }

    /// Decides about a call of the open step; see [`pending`](AgentState::pending).
    #[must_use]
    pub fn decide(self, call: u16, resolution: ApprovalDecision) -> Self {
        self.edit(Edit::Resolve { call, resolution })
    }

    /// Decides about a call of this agent or of a sub-agent, by its [address](PendingApproval::address). A decision
    /// that does not fit what was asked changes nothing; `AgentLoop::decide` says what does not fit.
    #[must_use]
    pub fn decide_at(self, path: &[u16], resolution: ApprovalDecision) -> Self {
        match path {
            [call] => self.decide(*call, resolution),
            path => self.edit(Edit::ResolveNested { path: path.to_vec(), resolution }),
        }
    }

    /// Returns the changes that no journal has acknowledged yet.
    pub fn unsaved_changes(&self) -> impl Iterator<Item = &Change> {
        self.outbox.changes()
    }

    /// Drops the execution and keeps everything else. The loop does this by itself when a state whose
    /// execution is over is run again.
    #[must_use]
    pub fn for_next_execution(mut self) -> Self {
        if self.execution.is_some() {
            self.clear_execution();
            self.seq += 1;
            self.outbox.push_unstamped(Change::ExecutionCleared);
        }
        self
    }
}

/// What can be read.
impl AgentState {
    /// Returns the agent's name; `None` before the first execution.
    pub fn id(&self) -> Option<&AgentId> {
        self.id.as_ref()
    }

    /// Returns the agent that this one works for.
    pub fn parent(&self) -> Option<&AgentId> {
        self.parent.as_ref()
    }

    /// Returns when the first change was recorded; `None` before that.
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created_at
    }

    /// Returns when the last change was recorded; `None` before the first.
    pub fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }

    /// Returns what the model may see.
    pub fn context(&self) -> &AgentContext {
        &self.context
    }

    /// Returns the conversation.
    pub fn transcript(&self) -> &Transcript {
        self.context.sections.messages()
    }

    /// Returns the budget.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns which model is asked.
    pub fn llm(&self) -> Option<&LlmConfig> {
        self.llm.as_deref()
    }

    /// Returns the metadata that models and users write.
    pub fn metadata(&self) -> &Metadata {
        &self.context.metadata
    }

    /// Returns a capability's own value; `None` if there is none, or it has another shape.
    pub fn get<T: DeserializeOwned>(&self, key: &Key<T>) -> Option<T> {
        let slot = key.slot();
        match slot.space.scope() {
            Scope::Execution => self.execution.as_ref()?.values.typed(&slot.key),
            Scope::Session => self.context.values.typed(&slot.key),
        }
    }

    /// Returns the current or last execution; `None` before the first.
    pub fn execution(&self) -> Option<&Execution> {
        self.execution.as_ref()
    }

    /// Returns how many executions have begun.
    pub fn execution_count(&self) -> u32 {
        self.executions
    }

    /// Returns where the execution stands; pending before the first.
    pub fn status(&self) -> &ExecutionStatus {
        self.execution.as_ref().map_or(&ExecutionStatus::Pending, Execution::status)
    }

    /// Returns `true` if the next run resumes this execution instead of starting another one: it has not
    /// ended, or it was stopped or failed before there was an answer.
    ///
    /// What an ended execution used still counts against its budget, so a run that is resumed after a
    /// limit stops there again, unless the limit is raised, the budget is
    /// [renewed](AgentState::renew_budget), or the user says something, which renews it.
    ///
    /// ```
    /// use loopwright_core::{AgentState, Budget};
    /// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
    ///
    /// let steps = [ScenarioStep::tool("Working."), ScenarioStep::final_answer("Done.")];
    /// let agent = test_loop(FakeDriver::steps(steps));
    /// let budget = Budget::unlimited().with_steps(1);
    /// let stopped = block_on(agent.execute(AgentState::new().with_budget(budget).with_user_message("Go.")));
    /// assert!(stopped.is_resumable());
    ///
    /// let done = block_on(agent.execute(stopped.with_budget(Budget::unlimited())));
    /// assert_eq!((done.text().as_str(), done.execution_count()), ("Done.", 1));
    /// ```
    pub fn is_resumable(&self) -> bool {
        self.is_interrupted() || self.execution.as_ref().is_some_and(|it| it.is_unanswered)
    }

    /// Returns `true` if the execution has not ended, and no run may be at work on it: it was interrupted,
    /// it waits for decisions, or its journal failed, which is no failure of the execution.
    pub fn is_interrupted(&self) -> bool {
        match self.status() {
            ExecutionStatus::InProgress | ExecutionStatus::Paused => true,
            ExecutionStatus::Failed(failure) => failure.kind == FailureKind::Journal,
            _ => false,
        }
    }

    /// Returns the number of steps of the execution that are over.
    pub fn step_count(&self) -> u32 {
        self.execution.as_ref().map_or(0, Execution::step_count)
    }

    /// Returns the number of steps of all executions.
    pub fn total_steps(&self) -> u64 {
        self.total_steps
    }

    /// Returns the steps of the execution that are over, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.execution.iter().flat_map(Execution::steps)
    }

    /// Returns the tool calls of the conversation with their results, oldest first: those of earlier
    /// executions too, and none of a step that is still open.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&ToolCall, &ToolResult)> {
        self.transcript().iter().flat_map(|turn| {
            match turn.body() {
                TurnBody::ToolExchange(exchange) => Some(exchange.pairs()),
                _ => None,
            }
            .into_iter()
            .flatten()
        })
    }

    /// Returns a step of the execution by its position.
    pub fn step_at(&self, index: usize) -> Option<&Step> {
        self.execution.as_ref()?.step_at(index)
    }

    /// Returns the newest step of the execution that is over.
    pub fn last_step(&self) -> Option<&Step> {
        self.execution.as_ref()?.last_step()
    }

    /// Returns the conversation before a step of any execution, from which the context compiler chose what the
    /// model saw. Takes time proportional to the turns after the step.
    ///
    /// Returns `None` if the step has no turn, because it failed or the response was empty, or if the turn is not
    /// part of the conversation any more, for example after a summary replaced it.
    pub fn input_of(&self, step: &Step) -> Option<Transcript> {
        let is_of_step = |turn: &Arc<Turn>| {
            let meta = turn.meta();
            meta.step == Some(step.number) && meta.execution.as_ref() == Some(&step.execution)
        };
        step.turn.as_ref()?;
        let position = self.transcript().iter().rposition(is_of_step)?;
        Some(self.transcript().prefix(position))
    }

    /// Returns the tokens of the execution.
    pub fn usage(&self) -> Usage {
        self.spent().usage
    }

    /// Returns the tokens and the money of the execution.
    pub fn spent(&self) -> Spend {
        self.execution.as_ref().map(Execution::spent).unwrap_or_default()
    }

    /// Returns the signal for a run that went on for too long.
    pub(crate) fn lateness(&self, working: Duration, now: Timestamp) -> StopSignal {
        let used = self.execution.as_ref().map(|it| it.budget_usage(working)).unwrap_or_default();
        self.budget.late_by(used, now).unwrap_or_else(|| {
            let text = "the time is used up";
            StopSignal::new(StopReason::TimeLimitReached, "budget", text).with("limit", "deadline")
        })
    }

    /// Returns what is left until the time is used up or the deadline comes; `None` without such a limit.
    pub(crate) fn time_left(&self, working: Duration, now: Timestamp) -> Option<Duration> {
        let used =
            self.execution.as_ref().map(|it| it.budget_usage(working).time).unwrap_or_default();
        let time = self.budget.time.map(|it| it.saturating_sub(used));
        let until = self.budget.deadline.map(|it| it.since(now));
        time.into_iter().chain(until).min()
    }

    /// Returns the tokens and the money of all executions.
    pub fn total_spent(&self) -> Spend {
        self.total_spent
    }

    /// Returns the time that was worked in all executions; pauses do not count.
    pub fn cumulative_time(&self) -> Duration {
        self.total_worked
    }

    /// Returns the number of changes so far.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the model's final answer, if the last step of the execution is one and says something.
    pub fn final_response(&self) -> Option<&Message> {
        let execution = self.execution.as_ref()?;
        let step = execution.last_step().filter(|_| execution.open.is_none())?;
        match step.kind {
            StepKind::FinalResponse => step.message().filter(|it| !it.text().trim().is_empty()),
            _ => None,
        }
    }

    /// Returns `true` if there is a final answer.
    pub fn has_final_response(&self) -> bool {
        self.final_response().is_some()
    }

    /// Returns the final answer, or else what the model said last in this execution.
    pub fn current_response(&self) -> Option<&Message> {
        let said = || self.last_step()?.message().filter(|it| !it.text().trim().is_empty());
        self.final_response().or_else(said)
    }

    /// Returns the words of the final answer; empty if there is none.
    pub fn text(&self) -> String {
        self.final_response().map(Message::text).unwrap_or_default()
    }

    /// Returns the final answer.
    ///
    /// # Errors
    ///
    /// If the execution failed, stopped, waits or has not run: the failure says which.
    ///
    /// ```
    /// use loopwright_core::AgentState;
    /// use loopwright_testing::{FakeDriver, block_on, test_loop};
    ///
    /// let agent = test_loop(FakeDriver::responses(["A harbour town."]));
    /// let message = block_on(agent.execute(AgentState::new().with_user_message("What is Piran?"))).into_result()?;
    /// assert_eq!(message.text(), "A harbour town.");
    /// # Ok::<(), loopwright_core::Failure>(())
    /// ```
    pub fn into_result(self) -> Result<Message, Failure> {
        match self.status() {
            ExecutionStatus::Failed(failure) => Err(failure.clone()),
            _ => self.final_response().cloned().ok_or_else(|| {
                Failure::new(
                    crate::FailureKind::Other,
                    format!("no answer: {}", self.explain_stop()),
                )
            }),
        }
    }

    /// Returns what went wrong in this execution, step by step.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let steps = self.execution.iter().flat_map(Execution::steps);
        steps.filter(|step| step.has_errors()).flat_map(Step::errors)
    }

    /// Returns `true` if a tool of this execution failed, was blocked or did not run. Such a run may
    /// nevertheless have completed.
    pub fn had_tool_errors(&self) -> bool {
        self.execution.as_ref().is_some_and(|it| it.tool_errors > 0)
    }

    /// Returns `true` if anything went wrong in this execution.
    pub fn has_errors(&self) -> bool {
        self.had_tool_errors() || self.execution.as_ref().is_some_and(|it| it.failed_steps > 0)
    }

    /// Returns the signal that ended the execution, or the strongest one raised so far. `None` after
    /// a natural end.
    pub fn stop_signal(&self) -> Option<&StopSignal> {
        match self.status() {
            ExecutionStatus::Stopped(signal) => Some(signal),
            _ => self.execution.as_ref()?.strongest_signal(),
        }
    }

    /// Returns `true` if the loop would end here: there is no execution, or no further step is due.
    pub fn should_stop(&self) -> bool {
        self.execution.as_ref().is_none_or(|it| !it.continuation().should_continue)
    }

    /// Returns the calls that somebody has to decide about, those of sub-agents included.
    pub fn pending(&self) -> Vec<PendingApproval<'_>> {
        let open = self.execution.as_ref().and_then(|it| it.open.as_ref());
        open.map(PendingApproval::of).unwrap_or_default()
    }

    /// Returns the turns of a section, none if it was never written to.
    pub fn section(&self, name: &str) -> impl Iterator<Item = &Arc<Turn>> {
        self.context.sections.get(name).into_iter().flat_map(Transcript::iter)
    }
}

impl Namespace {
    fn scope(self) -> Scope {
        match self {
            Self::Execution => Scope::Execution,
            Self::Session | Self::Metadata => Scope::Session,
        }
    }
}
