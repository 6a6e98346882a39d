//! Something a model can call.
//!
//! Authors write [`Tool`], put `#[tool]` on an `async fn`, or wrap a closure with [`tool_fn`]. The
//! loop only knows [`AnyTool`].

mod any;
mod argument;
mod child;
mod closure;
mod fast_check;
mod output;
mod registry;
mod schema;
mod set;
mod source;

use std::{fmt, sync::Arc, time::Duration};

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
    outcome::ApprovalDecision,
    pause::ToolPause,
    state::AgentState,
    step_error::StepError,
    stop::StopSignal,
};

pub(crate) use self::any::RawArgs;
pub use self::{
    any::{AnyTool, IntoTool, ToolDescriptor, ToolHandler},
    argument::{ToolArgument, WritePath},
    closure::{FnTool, tool_fn, tool_fn_with},
    output::{IntoToolOutput, Json, NoArgs},
    registry::{RegistryError, ToolRegistry},
    set::ToolSet,
    source::{SOURCE_TOOLS, ToolListing, ToolSource, ToolSourceError, ToolSources},
};
#[cfg(feature = "engine")]
pub(crate) use self::{schema::violation_of, source::AttachedSource};

/// Something a model can call, with typed arguments.
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
    /// What the model passes; its schema is what the model is shown.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// What the model gets back.
    type Output: IntoToolOutput;
    /// Why a call may fail: any error, or a [`ToolError`] to say more.
    type Error: Into<BoxError>;

    /// Returns the name, unique within an agent.
    fn name(&self) -> &str;

    /// Returns what it does, written for the model.
    fn description(&self) -> &str;

    /// Returns how the loop is to treat its calls.
    fn options(&self) -> ToolOptions {
        ToolOptions::default()
    }

    /// Returns the files that a call may write, without running it. By default, calls of a tool whose side effects are
    /// [`SideEffects::ReadOnly`] write nothing, and those of others may write any file.
    fn writes(&self, _args: &Self::Args) -> Writes {
        self.options().side_effects.into()
    }

    /// Runs one call. The arguments fit the schema. Dropping the future must end what it began.
    fn call(
        &self,
        args: Self::Args,
        cx: &ToolCx<'_>,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// How the loop treats the calls of a tool.
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
    /// What a call does to the world, and so whether it may be repeated.
    pub side_effects: SideEffects,
    /// How long a call may take; without limit if there is none.
    pub timeout: Option<Duration>,
    /// Whether no other call of the step may run at the same time.
    pub exclusive: bool,
    /// How often a failing call is tried again; only for calls that may be repeated.
    pub retry: ToolRetry,
    /// Groups tools for those who browse them.
    pub namespace: Option<Arc<str>>,
    /// How to use it, for those who ask; longer than the description.
    pub instructions: Option<Arc<str>>,
    /// Whether the model is shown it from the start.
    pub visibility: ToolVisibility,
    /// What a call can reach, and so whether a sub-agent may have the tool without its parent.
    pub reach: Reach,
}

/// What the calls of a tool can reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reach {
    /// Anything: files, processes, networks, other agents. A sub-agent has the tool only if its parent
    /// has it.
    #[default]
    World,
    /// Only the state of the agent that calls, and the model that the agent calls anyway. A capability
    /// may bring the tool to a sub-agent whose parent does not have it.
    Agent,
}

/// Whether a model is shown a tool from the start. Either way the agent can run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolVisibility {
    /// It is in every request.
    #[default]
    Always,
    /// Requests leave it out until it is asked for. A hook sees to that: where there is none, it is in
    /// every request.
    Deferred,
}

/// What a call does to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SideEffects {
    /// Nothing: it only looks. It may be run again, and its start need not be on record.
    ReadOnly,
    /// The same thing however often it is run with the same key.
    Idempotent,
    /// Its own journal remembers how far it came: it is entered again with the same key.
    Resumable,
    /// Something that must not happen twice. An interrupted call is reported as unknown.
    #[default]
    AtMostOnce,
}

impl From<SideEffects> for Writes {
    fn from(side_effects: SideEffects) -> Self {
        if side_effects == SideEffects::ReadOnly { Self::Nothing } else { Self::Unknown }
    }
}

/// How often a failing call is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRetry {
    /// Attempts, the first one included.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles each time.
    pub delay: Duration,
}

impl Default for ToolRetry {
    fn default() -> Self {
        Self { attempts: 1, delay: Duration::from_millis(250) }
    }
}

/// What a running tool may use.
#[derive(Clone, Copy)]
pub struct ToolCx<'a> {
    /// The agent as it was when the call began, and with it the calls that run at the same time.
    pub state: &'a AgentState,
    /// The call as the model wrote it.
    pub call: &'a ToolCall,
    /// Names the call over all attempts: what makes a repeated effect recognisable.
    pub key: &'a IdempotencyKey,
    /// The loop that runs the call, for agents that make agents.
    pub agent: &'a AgentLoop,
    /// The account that model calls draw from.
    pub meter: &'a BudgetAccount,
    /// The session's journal, if it has one.
    pub journal: Option<&'a Arc<dyn Journal>>,
    /// Fires when the run is being cancelled: what is under way has its grace to come to an end. When
    /// the run is stopped, the call has the same grace without being told. It fires too when the run
    /// is over or dropped, which ends what a call has left running.
    pub cancel: &'a CancellationToken,
    /// Why `cancel` fires.
    pub cancel_reason: &'a CancelReason,
    /// What the run does about a call that was interrupted and must not happen twice.
    pub on_interrupted: OnInterrupted,
    /// How long what is under way has once `cancel` fires.
    pub grace: Duration,
    /// Where to tell what happens.
    pub events: &'a EventBus,
    /// Time and ids.
    pub env: &'a RunEnv,
    pub(crate) inference: &'a dyn RunHost,
    /// What the tool asked when it was called before.
    pub(crate) pause: Option<&'a ToolPause>,
}

impl ToolCx<'_> {
    /// Asks a model. Hooks see the request and the answer, the account is charged, and cancelling
    /// the run cancels the request.
    ///
    /// # Errors
    ///
    /// If the model does not respond, a hook fails or stops the run, or the budget does not allow it.
    pub async fn infer(
        &self,
        model: &dyn ChatModel,
        mut request: InferenceRequest,
    ) -> Result<InferenceResponse, StepError> {
        self.inference.call_model(self.state, model, &mut request).await
    }

    /// Returns the answer to what the tool asked in this call; `None` if it asked nothing yet. It is on record.
    pub fn answer(&self) -> Option<&Value> {
        match self.pause?.own_decision()? {
            ApprovalDecision::Reply(value) => Some(value),
            _ => None,
        }
    }

    /// Returns what the tool wanted back when it [asked](ToolPause::with_resume).
    pub fn resume_value(&self) -> Option<&Value> {
        self.pause?.resume.as_deref()
    }

    /// Returns what was decided about the calls of a sub-agent that this call runs, each with the positions of the
    /// sub-agents' calls: what a state takes with [`decide_at`](AgentState::decide_at).
    pub fn nested_decisions(&self) -> impl Iterator<Item = (Vec<u16>, &ApprovalDecision)> {
        let requests = self.pause.into_iter().flat_map(|it| &it.requests);
        requests.filter(|it| !it.path.is_empty()).filter_map(|it| {
            let path = it.path.iter().map(|segment| segment.call).collect();
            Some((path, it.decision.as_ref()?))
        })
    }

    /// Returns what the execution has used of its budget so far, the time of this step included.
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

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments fit the schema and still make no sense; the model is told.
    #[error("invalid arguments: {0}")]
    InvalidArguments(String),
    /// The tool stops the agent; not a failure.
    #[error("{0}")]
    Stop(StopSignal),
    /// The tool needs an answer first; not a failure. The call waits, and is made again with the answer.
    #[error("the tool waits for an answer")]
    Pause(Box<ToolPause>),
    /// The journal of a sub-agent could not be read or written. The run ends before its next effect, as when its own
    /// journal fails; a run that resumes makes the call again.
    #[error("{0}")]
    Journal(Failure),
    /// What an earlier attempt of the call did is not known any more; the model is told.
    #[error("what the call did before an interruption is not known")]
    OutcomeUnknown,
    /// The tool failed; the model is told.
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
