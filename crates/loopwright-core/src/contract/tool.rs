//! Tools that a model can call.
//!
//! Implement [`Tool`], put `#[tool]` on an `async fn`, or wrap a closure with [`tool_fn`]. The loop
//! only knows [`AnyTool`].

mod any;
mod argument;
mod child;
mod closure;
mod external;
mod fast_check;
mod output;
mod registry;
mod schema;
#[cfg(feature = "engine")]
mod schema_check;
mod set;
mod source;

use std::{fmt, future::ready, sync::Arc, time::Duration};

use loopwright_messages::{InferenceRequest, InferenceResponse, ToolCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    BoxError,
    agent::AgentLoop,
    budget::BudgetUsage,
    clock::RunEnv,
    event_bus::EventBus,
    failure::Failure,
    file_changes::Writes,
    handle::CancelReason,
    host::RunHost,
    interrupted::OnInterrupted,
    journal::{IdempotencyKey, Journal},
    meter::BudgetAccount,
    model::ChatModel,
    on_ask::OnAsk,
    outcome::ApprovalDecision,
    pause::{QuestionRefusal, ToolPause},
    state::AgentState,
    step_error::StepError,
    stop::StopSignal,
};

pub(crate) use self::any::RawArgs;
#[cfg(feature = "json-schema")]
pub use self::schema_check::BoundedSchema;
#[cfg(feature = "engine")]
pub(crate) use self::source::AttachedSource;
pub use self::{
    any::{AnyTool, IntoTool, ToolDescriptor, ToolHandler},
    argument::{ToolArgument, WritePath},
    child::StartedAgent,
    closure::{FnTool, tool_fn, tool_fn_with},
    external::ExternalTool,
    output::{IntoToolOutput, Json, NoArgs},
    registry::{RegistryError, ToolRegistry},
    set::ToolSet,
    source::{SOURCE_TOOLS, ToolListing, ToolSource, ToolSourceError, ToolSources},
};
#[cfg(feature = "engine")]
pub use self::{schema::violation_of, schema_check::SCHEMA_TOO_COMPLEX};

/// A tool that a model can call, with typed arguments.
///
/// ```
/// use loopwright_core::{IntoTool as _, Tool, ToolCx, ToolError};
///
/// struct Divide;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct DivideArgs {
///     /// Number to divide.
///     number: f64,
///     /// Number to divide by.
///     by: f64,
/// }
///
/// impl Tool for Divide {
///     type Args = DivideArgs;
///     type Output = f64;
///     type Error = ToolError;
///
///     fn name(&self) -> &str {
///         "divide"
///     }
///
///     fn description(&self) -> &str {
///         "Divides a number by another one."
///     }
///
///     async fn call(&self, args: DivideArgs, _cx: &ToolCx<'_>) -> Result<f64, ToolError> {
///         if args.by == 0.0 {
///             let error = "cannot divide by 0; pass another number in `by`";
///             return Err(ToolError::InvalidArguments(error.to_owned()));
///         }
///         Ok(args.number / args.by)
///     }
/// }
///
/// assert_eq!(&**Divide.into_tool().name(), "divide");
/// ```
pub trait Tool: Send + Sync + 'static {
    /// The arguments. The model sees their schema.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// The result that the model receives.
    type Output: IntoToolOutput;
    /// The error of a call: any error, or a [`ToolError`] for more detail.
    type Error: Into<BoxError>;

    /// Returns the name, unique within an agent.
    fn name(&self) -> &str;

    /// Returns the description, written for the model.
    fn description(&self) -> &str;

    /// Returns the options for its calls.
    fn options(&self) -> ToolOptions {
        ToolOptions::default()
    }

    /// Returns the files that a call can write, without running it. By default, calls of a tool
    /// whose side effects are [`SideEffects::ReadOnly`] write nothing, and those of others can
    /// write any file.
    fn writes(&self, _args: &Self::Args) -> Writes {
        self.options().side_effects.into()
    }

    /// Returns `false` if a call must not run again after an interruption, although the tool is
    /// [`SideEffects::Resumable`]: it requests something that its journal does not cover. The call
    /// then counts as [`SideEffects::AtMostOnce`]. By default, this is `true`.
    fn is_repeatable(&self, _args: &Self::Args) -> bool {
        true
    }

    /// Returns the agent that a call starts, without running it, so that permission rules for agents apply to the call.
    /// By default, calls start none. Work that blocks, such as reading a file, belongs on another thread.
    fn starts(&self, _args: Self::Args) -> impl Future<Output = Option<StartedAgent>> + Send {
        ready(None)
    }

    /// Returns the question to the user if a call needs approval. The loop calls it only if the
    /// [options](ToolOptions::approval) say [`ToolApproval::PerCall`].
    fn approval(&self, _args: &Self::Args) -> Option<String> {
        None
    }

    /// Runs one call. The arguments match the schema. Dropping the future must end all work that it
    /// started.
    fn call(
        &self,
        args: Self::Args,
        cx: &ToolCx<'_>,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// Options for the calls of a tool.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_core::{BoxError, IntoTool as _, NoArgs, SideEffects, ToolOptions, tool_fn};
///
/// let options = ToolOptions {
///     side_effects: SideEffects::ReadOnly,
///     timeout: Some(Duration::from_secs(5)),
///     ..ToolOptions::default()
/// };
/// let status = tool_fn("status", "Returns the status.", |_: NoArgs| async { Ok::<_, BoxError>("ok") });
/// let status = status.into_tool().with_options(options);
/// assert_eq!(status.options().timeout, Some(Duration::from_secs(5)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOptions {
    /// The side effects of a call, which decide whether it can be repeated.
    pub side_effects: SideEffects,
    /// The time limit of a call; `None` means no limit.
    pub timeout: Option<Duration>,
    /// `true` if no other call of the step can run at the same time.
    pub exclusive: bool,
    /// Retries of a failed call, only if the call can be repeated.
    pub retry: ToolRetry,
    /// The group of the tool, for browsing.
    pub namespace: Option<Arc<str>>,
    /// Detailed instructions for use, returned on request; longer than the description.
    pub instructions: Option<Arc<str>>,
    /// Whether the model sees the tool from the start.
    pub visibility: ToolVisibility,
    /// The resources that a call can reach, which decide whether a sub-agent can have the tool
    /// without its parent.
    pub reach: Reach,
    /// Whether calls need approval. A permission rule that allows a call counts as its approval.
    pub approval: ToolApproval,
}

/// Whether the calls of a tool need approval, by its own declaration.
///
/// ```
/// use loopwright_core::{
///     AgentState, BoxError, IntoTool as _, NoArgs, ToolApproval, ToolOptions, tool_fn,
/// };
/// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
/// use serde_json::json;
///
/// let pay = tool_fn("pay", "Pays.", |_: NoArgs| async { Ok::<_, BoxError>("paid") });
/// let approval = ToolApproval::Always("Send the money?".into());
/// let pay = pay.into_tool().with_options(ToolOptions { approval, ..ToolOptions::default() });
///
/// let steps = [ScenarioStep::tool_call("pay", json!({})), "Done.".into()];
/// let agent = test_loop(FakeDriver::steps(steps)).with_tool(pay);
/// let state = block_on(agent.execute(AgentState::new()));
/// assert_eq!(state.pending()[0].question.text, "Send the money?");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolApproval {
    /// No call needs approval.
    #[default]
    Never,
    /// Each call needs approval. The text is the question to the user.
    Always(Arc<str>),
    /// The tool decides about each call: [`Tool::approval`].
    PerCall,
}

/// The resources that the calls of a tool can reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reach {
    /// Everything: files, processes, networks, other agents. A sub-agent has the tool only if its
    /// parent has it.
    #[default]
    World,
    /// Only files of the working directory. [`Tool::writes`] declares which of them a call writes, and
    /// permission rules for files decide about it. A sub-agent has the tool only if its parent has
    /// it.
    Workspace,
    /// Only the state of the calling agent, and the model that the agent calls in any case. A
    /// capability can give the tool to a sub-agent whose parent does not have it.
    Agent,
}

/// Whether a model sees a tool from the start. In both cases the agent can run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolVisibility {
    /// Every request includes the tool.
    #[default]
    Always,
    /// Requests omit the tool until the model asks for it. This needs a hook; without it, every
    /// request includes the tool.
    Deferred,
}

/// The side effects of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SideEffects {
    /// None: the call only reads. It can run again, and its start need not be durable.
    ReadOnly,
    /// Repeated runs with the same key have the effect of one.
    Idempotent,
    /// The call has its own journal of its progress, and can be resumed with the same key.
    Resumable,
    /// The effect must not happen twice. An interrupted call is reported as unknown.
    #[default]
    AtMostOnce,
}

impl From<SideEffects> for Writes {
    fn from(side_effects: SideEffects) -> Self {
        if side_effects == SideEffects::ReadOnly { Self::Nothing } else { Self::Unknown }
    }
}

/// Retries of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRetry {
    /// The maximum number of attempts, including the first.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles each time.
    pub delay: Duration,
}

impl Default for ToolRetry {
    fn default() -> Self {
        Self { attempts: 1, delay: Duration::from_millis(250) }
    }
}

/// The context of a running call.
#[derive(Clone, Copy)]
pub struct ToolCx<'a> {
    /// The agent's state at the start of the call, including the calls that run at the same time.
    pub state: &'a AgentState,
    /// The call as written by the model.
    pub call: &'a ToolCall,
    /// The key of the call, the same for all attempts, so that a repeated effect can be recognized.
    pub key: &'a IdempotencyKey,
    /// The loop that runs the call, for tools that create agents.
    pub agent: &'a AgentLoop,
    /// The account that model calls draw from.
    pub meter: &'a BudgetAccount,
    /// The session's journal, if it has one.
    pub journal: Option<&'a Arc<dyn Journal>>,
    /// Fires when the run is cancelled. Work in progress then has the grace period to finish. When
    /// the run is stopped, the call has the same grace period without a notification. It also fires
    /// when the run ends or is dropped, which ends all processes that a call has left running.
    pub cancel: &'a CancellationToken,
    /// The reason why `cancel` fires.
    pub cancel_reason: &'a CancelReason,
    /// The policy for an interrupted call that must not happen twice.
    pub on_interrupted: OnInterrupted,
    /// The policy for calls that need an approval, an answer or a result.
    pub on_ask: OnAsk,
    /// The grace period after `cancel` fires.
    pub grace: Duration,
    /// Emits events.
    pub events: &'a EventBus,
    /// Time and IDs.
    pub env: &'a RunEnv,
    pub(crate) inference: &'a dyn RunHost,
    /// The question of the tool in its previous attempt.
    pub(crate) pause: Option<&'a ToolPause>,
}

impl ToolCx<'_> {
    /// Calls a model. Hooks see the request and the response, the account is charged, and
    /// cancelling the run cancels the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the model does not respond, a hook fails or stops the run, or the budget
    /// does not allow the call.
    pub async fn infer(
        &self,
        model: &dyn ChatModel,
        mut request: InferenceRequest,
    ) -> Result<InferenceResponse, StepError> {
        self.inference.call_model(self.state, model, &mut request).await
    }

    /// Returns the answer to the tool's question in this call, or `None` if it has not asked one.
    /// The answer is durable.
    pub fn answer(&self) -> Option<&Value> {
        match self.pause?.own_decision()? {
            ApprovalDecision::Reply(value) => Some(value),
            _ => None,
        }
    }

    /// Returns how the user refused to answer the tool's question, if the tool
    /// [takes refusals](ToolPause::with_refusals).
    pub fn refusal(&self) -> Option<QuestionRefusal> {
        self.pause?.refusal()
    }

    /// Returns the value that the tool stored when it [asked](ToolPause::with_resume).
    pub fn resume_value(&self) -> Option<&Value> {
        self.pause?.resume.as_deref()
    }

    /// Returns the decisions about the calls of a sub-agent that this call runs. Each has the
    /// positions of the sub-agents' calls, as [`decide_at`](AgentState::decide_at) of a state takes
    /// them.
    pub fn nested_decisions(&self) -> impl Iterator<Item = (Vec<u16>, &ApprovalDecision)> {
        let requests = self.pause.into_iter().flat_map(|it| &it.requests);
        requests.filter(|it| !it.path.is_empty()).filter_map(|it| {
            let path = it.path.iter().map(|segment| segment.call).collect();
            Some((path, it.decision.as_ref()?))
        })
    }

    /// Returns the budget usage of the execution so far, including the time of this step.
    pub fn used(&self) -> BudgetUsage {
        let execution = self.state.execution();
        execution.map(|it| it.budget_usage(self.inference.working())).unwrap_or_default()
    }
}

impl fmt::Debug for ToolCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCx")
            .field("call", self.call)
            .field("key", self.key)
            .finish_non_exhaustive()
    }
}

/// A call without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments match the schema but are invalid. The model receives the message.
    #[error("invalid arguments: {0}")]
    InvalidArguments(String),
    /// The tool stops the agent; not a failure.
    #[error("{0}")]
    Stop(StopSignal),
    /// The tool needs an answer first; not a failure. The call waits, and runs again with the
    /// answer.
    #[error("the tool is waiting for an answer")]
    Pause(Box<ToolPause>),
    /// The journal of a sub-agent could not be read or written. The run ends before its next
    /// effect, as when its own journal fails. A resumed run makes the call again.
    #[error("{0}")]
    Journal(Failure),
    /// The outcome of an earlier attempt is unknown. The model receives this error.
    #[error("the call was interrupted, and its effect is unknown")]
    OutcomeUnknown,
    /// The tool failed. The model receives the error.
    #[error(transparent)]
    Failed(BoxError),
}

impl From<BoxError> for ToolError {
    fn from(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => Self::Failed(error),
        }
    }
}

impl From<ToolPause> for ToolError {
    fn from(pause: ToolPause) -> Self {
        Self::Pause(Box::new(pause))
    }
}

impl From<StopSignal> for ToolError {
    fn from(signal: StopSignal) -> Self {
        Self::Stop(signal)
    }
}
