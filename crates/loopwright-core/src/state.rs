//! Everything an agent remembers.

pub(crate) mod change;
pub(crate) mod continuation;
pub(crate) mod denied;
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

/// Everything an agent remembers. Callers can change it only through [`edit`](AgentState::edit). It
/// is cheap to clone because clones share the parts that grow.
///
/// A state is built from its [`Change`]s: [`replay`](AgentState::replay) rebuilds it from a
/// journal. Only the loop can start, record or end an execution.
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

/// The data that the model can see, and the values that capabilities and programs store with it.
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

    /// Returns the session's own instructions, which follow those of the agent.
    pub fn system_prompt(&self) -> Option<&Arc<str>> {
        self.system_prompt.as_ref()
    }

    /// Returns the response format.
    pub fn response_format(&self) -> Option<&ResponseFormat> {
        self.response_format.as_ref()
    }

    /// Returns the metadata that models and users write.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// Constructors and setters.
impl AgentState {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies an edit. The next run writes it to its journal.
    ///
    /// While a step is open, new messages are held back and follow the step.
    #[must_use]
    pub fn edit(mut self, edit: Edit) -> Self {
        self.apply_edit(&edit);
        self.seq += 1;
        self.outbox.push_unstamped(Change::StateEdited { by: Arc::from("caller"), edit });
        self
    }

    /// Appends a user message.
    #[must_use]
    pub fn with_user_message(self, text: impl Into<Arc<str>>) -> Self {
        self.with_message(Message::user(text))
    }

    /// Appends a message. Ignores a message that is empty or calls tools.
    #[must_use]
    pub fn with_message(self, message: Message) -> Self {
        self.edit(Edit::Append { section: SectionName::MESSAGES.into(), message })
    }

    /// Appends messages to the conversation. Ignores messages that are empty or call tools.
    #[must_use]
    pub fn with_appended_messages(self, messages: impl IntoIterator<Item = Message>) -> Self {
        messages.into_iter().fold(self, Self::with_message)
    }

    /// Replaces the conversation with messages. Ignores messages that are empty or call tools.
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

    /// Sets the response format.
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

    /// Sets a metadata value, which models and users can see.
    #[must_use]
    pub fn with_metadata(self, key: impl Into<Arc<str>>, value: impl Into<Value>) -> Self {
        let slot = StateKey { space: Namespace::Metadata, key: key.into() };
        self.edit(Edit::Set(slot, Some(value.into())))
    }

    /// Resets the budget of the current execution, so that it counts from zero again.
    #[must_use]
    pub fn renew_budget(self) -> Self {
        self.edit(Edit::RenewBudget)
    }

    /// Sets the agent that this one works for.
    #[must_use]
    pub fn with_parent(self, parent: AgentId) -> Self {
        self.edit(Edit::Parent(parent))
    }

    /// Records a decision about a call of the open step; see [`pending`](AgentState::pending).
    #[must_use]
    pub fn decide(self, call: u16, resolution: ApprovalDecision) -> Self {
        self.decide_at(&[call], resolution)
    }

    /// Decides about a call of this agent or of a sub-agent, by its
    /// [address](PendingApproval::address). A decision that does not match the request changes
    /// nothing; `AgentLoop::decide` returns the reason as an error.
    ///
    /// The reason why an interrupted call is not run again is recorded after the fact that its effects are unknown, so that
    /// the model learns both.
    #[must_use]
    pub fn decide_at(self, path: &[u16], resolution: ApprovalDecision) -> Self {
        let pending = self.pending();
        let asked = pending.iter().find(|it| it.address() == path);
        let resolution = match asked {
            Some(asked) => asked.recorded(resolution),
            None => resolution,
        };
        match path {
            [call] => self.edit(Edit::Resolve { call: *call, resolution }),
            path => self.edit(Edit::ResolveNested { path: path.to_vec(), resolution }),
        }
    }

    /// Returns the changes that no journal has acknowledged yet.
    pub fn unsaved_changes(&self) -> impl Iterator<Item = &Change> {
        self.outbox.changes()
    }

    /// Drops the execution and keeps everything else. The loop does this automatically when it runs
    /// a state whose execution has ended.
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

/// Accessors.
impl AgentState {
    /// Returns the agent's ID; `None` before the first execution.
    pub fn id(&self) -> Option<&AgentId> {
        self.id.as_ref()
    }

    /// Returns the agent that this one works for.
    pub fn parent(&self) -> Option<&AgentId> {
        self.parent.as_ref()
    }

    /// Returns the time of the first recorded change; `None` before that.
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created_at
    }

    /// Returns the time of the last recorded change; `None` before the first.
    pub fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }

    /// Returns the context: the data that the model can see.
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

    /// Returns the selection of the model.
    pub fn llm(&self) -> Option<&LlmConfig> {
        self.llm.as_deref()
    }

    /// Returns the metadata that models and users write.
    pub fn metadata(&self) -> &Metadata {
        &self.context.metadata
    }

    /// Returns a capability's stored value, or `None` if it is missing or has another type.
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

    /// Returns the number of executions that have started.
    pub fn execution_count(&self) -> u32 {
        self.executions
    }

    /// Returns the status of the execution; `Pending` before the first.
    pub fn status(&self) -> &ExecutionStatus {
        self.execution.as_ref().map_or(&ExecutionStatus::Pending, Execution::status)
    }

    /// Returns `true` if the next run resumes this execution instead of starting another one. This
    /// is the case if the execution has not ended, or if it stopped or failed before the final
    /// answer.
    ///
    /// The usage of an ended execution still counts against its budget. A run that is resumed after
    /// a limit therefore stops there again, unless the limit is raised or the budget is
    /// [renewed](AgentState::renew_budget). A new user message renews it.
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

    /// Returns `true` if the execution has not ended, but perhaps no run is advancing it: it was
    /// interrupted, it waits for decisions, or its journal failed, which does not fail the
    /// execution.
    pub fn is_interrupted(&self) -> bool {
        match self.status() {
            ExecutionStatus::InProgress | ExecutionStatus::Paused => true,
            ExecutionStatus::Failed(failure) => failure.kind == FailureKind::Journal,
            _ => false,
        }
    }

    /// Returns the number of completed steps of the execution.
    pub fn step_count(&self) -> u32 {
        self.execution.as_ref().map_or(0, Execution::step_count)
    }

    /// Returns the number of steps of all executions.
    pub fn total_steps(&self) -> u64 {
        self.total_steps
    }

    /// Returns the completed steps of the execution, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.execution.iter().flat_map(Execution::steps)
    }

    /// Returns the tool calls of the conversation with their results, oldest first. Includes
    /// earlier executions and excludes a step that is still open.
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

    /// Returns the newest completed step of the execution.
    pub fn last_step(&self) -> Option<&Step> {
        self.execution.as_ref()?.last_step()
    }

    /// Returns the conversation before a step of any execution. The context compiler selected the
    /// input of the model from it. Takes time proportional to the turns after the step.
    ///
    /// Returns `None` if the step has no turn, because it failed or the response was empty. Also
    /// returns `None` if the turn is no longer part of the conversation, for example after a
    /// summary replaced it.
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

    /// Returns the tokens and the cost of the execution.
    pub fn spent(&self) -> Spend {
        self.execution.as_ref().map(Execution::spent).unwrap_or_default()
    }

    /// Returns the signal for a run that exceeded its time limit or deadline.
    pub(crate) fn lateness(&self, working: Duration, now: Timestamp) -> StopSignal {
        let used = self.execution.as_ref().map(|it| it.budget_usage(working)).unwrap_or_default();
        self.budget.late_by(used, now).unwrap_or_else(|| {
            let text = "the time limit was reached";
            StopSignal::new(StopReason::TimeLimitReached, "budget", text).with("limit", "deadline")
        })
    }

    /// Returns the time until the time limit or the deadline; `None` without such a limit.
    pub(crate) fn time_left(&self, working: Duration, now: Timestamp) -> Option<Duration> {
        let used =
            self.execution.as_ref().map(|it| it.budget_usage(working).time).unwrap_or_default();
        let time = self.budget.time.map(|it| it.saturating_sub(used));
        let until = self.budget.deadline.map(|it| it.since(now));
        time.into_iter().chain(until).min()
    }

    /// Returns the tokens and the cost of all executions.
    pub fn total_spent(&self) -> Spend {
        self.total_spent
    }

    /// Returns the active time of all executions, without pauses.
    pub fn cumulative_time(&self) -> Duration {
        self.total_worked
    }

    /// Returns the number of changes so far.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the model's final answer, if the last step of the execution is final and its answer
    /// is not empty.
    pub fn final_response(&self) -> Option<&Message> {
        let execution = self.execution.as_ref()?;
        let step = execution.last_step().filter(|_| execution.open.is_none())?;
        match step.kind {
            StepKind::FinalResponse => step.message().filter(|it| !it.text().trim().is_empty()),
            _ => None,
        }
    }

    /// Returns `true` if the execution has a final answer.
    pub fn has_final_response(&self) -> bool {
        self.final_response().is_some()
    }

    /// Returns the final answer, or else the last message of the model in this execution.
    pub fn current_response(&self) -> Option<&Message> {
        let said = || self.last_step()?.message().filter(|it| !it.text().trim().is_empty());
        self.final_response().or_else(said)
    }

    /// Returns the text of the final answer, or an empty string without one.
    pub fn text(&self) -> String {
        self.final_response().map(Message::text).unwrap_or_default()
    }

    /// Returns the final answer.
    ///
    /// # Errors
    ///
    /// Returns a [`Failure`] if the execution failed, stopped, waits or has not run.
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

    /// Returns the errors of this execution, step by step.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let steps = self.execution.iter().flat_map(Execution::steps);
        steps.filter(|step| step.has_errors()).flat_map(Step::errors)
    }

    /// Returns `true` if a tool of this execution failed, was blocked or did not run. Such a run
    /// can nevertheless complete.
    pub fn had_tool_errors(&self) -> bool {
        self.execution.as_ref().is_some_and(|it| it.tool_errors > 0)
    }

    /// Returns `true` if the execution has any error.
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

    /// Returns `true` if the loop would end here: the state has no execution, or no further step is
    /// due.
    pub fn should_stop(&self) -> bool {
        self.execution.as_ref().is_none_or(|it| !it.continuation().should_continue)
    }

    /// Returns the calls that wait for a decision, including those of sub-agents; none after a
    /// decision that stops the run.
    pub fn pending(&self) -> Vec<PendingApproval<'_>> {
        let open = self.execution.as_ref().and_then(|it| it.open.as_ref());
        open.map(PendingApproval::of).unwrap_or_default()
    }

    /// Returns `true` if the run cannot resume at a time: a call waits, and its deadline has not
    /// passed.
    pub fn waits_at(&self, now: Timestamp) -> bool {
        self.pending().iter().any(|it| !it.question.is_expired(now))
    }

    /// Returns the time at which the run can resume without any answer: the last deadline of all
    /// calls that wait. `None` if no call waits, or one waits without a deadline.
    pub fn waits_until(&self) -> Option<Timestamp> {
        let deadlines = self.pending().into_iter().map(|it| it.question.deadline);
        deadlines.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Returns the turns of a section; empty if nothing was written to it.
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
