//! Decisions about calls.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, AnyTool, ApprovalRequest, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints,
    InferenceDecision, OnAsk, Reach, RunEnv, SideEffects, StartedAgent, StopSignal, ToolDecision,
    ToolOutcome, Writes,
    messages::{InferenceRequest, ToolCall, ToolSpec, ToolSpecs},
};
use loopwright_permissions::{Call, Decision, Mode, Policy};
use serde::Deserialize as _;
use serde_json::Value;

use super::capability::{Grants, IsConfined};
use super::restriction::Restriction;
use super::shared::Permissions;
use crate::questions;

/// The name of the hook, which is the source of its approval requests.
pub const HOOK: &str = "permissions";

/// How the reasons of calls that the rules deny begin.
const DENIED: &str = "not permitted";

pub(super) struct Rules {
    pub(super) permissions: Permissions,
    pub(super) on_ask: OnAsk,
    pub(super) is_confined: IsConfined,
    pub(super) restriction: Option<Restriction>,
    pub(super) grants: Option<Grants>,
    pub(super) shown: ShownTools,
}

/// The tools that the model was shown last, so that requests that offer the same tools share them.
#[derive(Debug, Default)]
pub(super) struct ShownTools(Mutex<Option<(ToolSpecs, ToolSpecs)>>);

impl ShownTools {
    /// Returns the tools that no rule denies whatever they are called with.
    fn without_removed(&self, offered: &ToolSpecs, policy: &Policy) -> ToolSpecs {
        let is_shown = |tool: &&ToolSpec| policy.removes(&tool.name).is_none();
        if offered.iter().all(|tool| is_shown(&tool)) {
            return offered.clone();
        }
        let shown: ToolSpecs = offered.iter().filter(is_shown).cloned().collect();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, same)) if of.ptr_eq(offered) && **same == *shown => same.clone(),
            _ => {
                *last = Some((offered.clone(), shown.clone()));
                shown
            }
        }
    }
}

impl Rules {
    /// Returns the policy that is in force for the agent.
    fn policy(&self) -> Policy {
        let policy = self.permissions.policy();
        match &self.restriction {
            Some(restriction) => restriction.apply(policy),
            None => policy,
        }
    }

    /// Returns `true` if the effects of a tool are confined. The commands of an agent whose definition makes it plan run
    /// as those of the agent that started it, which may write.
    fn is_confined(&self, tool: &str, policy: &Policy) -> bool {
        let may_write = self.permissions.policy().mode() != Mode::Plan;
        (self.is_confined)(tool) && !(policy.mode() == Mode::Plan && may_write)
    }

    fn decide(
        &self,
        policy: &Policy,
        (call, arguments): (&ToolCall, &Value),
        started: Option<&StartedAgent>,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> ToolDecision {
        let tool = cx.agent().tools().get(&call.name);
        let writes = tool.map_or(Writes::Unknown, |tool| tool.writes(arguments));
        let directory = last_directory(state);
        let mut asked = Call::new(&call.name, arguments);
        if let Some(directory) = &directory {
            asked = asked.with_last_dir(directory);
        }
        if let Writes::Paths(paths) = &writes {
            asked = asked.writing(paths.iter().map(String::as_str));
        }
        if let Some(agent) = started {
            let skills = agent.skills.iter().map(|skill| &**skill);
            asked = asked.starting_agent(&agent.name).preloading_skills(skills);
        }
        if let Some(tool) = tool {
            let options = tool.options();
            if options.side_effects == SideEffects::ReadOnly || options.reach == Reach::Agent {
                asked = asked.read_only();
            }
            if options.reach == Reach::Workspace {
                asked = asked.only_files().confined();
            }
        }
        if self.is_confined(&call.name, policy) {
            asked = asked.confined();
        }
        let verdict = policy.decide(&asked);
        if verdict.decision != Decision::Deny && self.is_granted(policy, &asked, state) {
            return ToolDecision::Allow;
        }
        let reason = verdict.reason.to_string();
        let is_decided = cx.already_approved || tool.is_none();
        match verdict.decision {
            // What the user allows by a rule, or as a whole, needs no approval that the tool declares.
            Decision::Allow if verdict.rule().is_some() || policy.mode() == Mode::Unconfined => {
                ToolDecision::Allow
            }
            // A call that runs elsewhere waits for its result anyway, and giving one approves of it.
            Decision::Ask if !is_decided && !tool.is_some_and(AnyTool::is_external) => {
                self.ask(call, reason)
            }
            // A call of a tool that does not exist is not asked about: it fails.
            Decision::Allow | Decision::Ask => {
                let declared = tool.filter(|_| !is_decided);
                let question = declared.and_then(|it| it.approval(|| Cow::Borrowed(arguments)));
                question.map_or(ToolDecision::Run, |question| self.ask(call, question))
            }
            Decision::Deny => {
                ToolDecision::Block { reason: format!("{DENIED} ({reason}); continue without it") }
            }
        }
    }

    /// Returns `true` if further rules for the state of an agent allow a call that no rule denies.
    fn is_granted(&self, policy: &Policy, call: &Call<'_>, state: &AgentState) -> bool {
        let grants = self.grants.as_ref().map(|grants| grants(state)).unwrap_or_default();
        if grants.is_empty() {
            return false;
        }
        let policy =
            grants.iter().fold(policy.clone(), |policy, source| policy.extended_by(source));
        let verdict = policy.decide(call);
        verdict.decision == Decision::Allow && verdict.rule().is_some()
    }

    /// Asks about a call if a user is present.
    fn ask(&self, call: &ToolCall, question: String) -> ToolDecision {
        match self.on_ask {
            OnAsk::Pause => ToolDecision::Ask(ApprovalRequest::new(question, HOOK)),
            OnAsk::Fail => {
                let message = format!("`{}` needs approval ({question})", call.name);
                ToolDecision::Stop(StopSignal::requested(HOOK, message).with_denied_call(call))
            }
            OnAsk::Deny => ToolDecision::Block {
                reason: format!("{DENIED} without approval ({question}); continue without it"),
            },
        }
    }
}

/// Returns the directory in which the previous command ended, if commands start there.
#[cfg(all(feature = "tools", target_os = "linux"))]
fn last_directory(state: &AgentState) -> Option<String> {
    crate::bash::Bash::last_directory(state)
}

#[cfg(not(all(feature = "tools", target_os = "linux")))]
fn last_directory(_state: &AgentState) -> Option<String> {
    None
}

/// Returns why a call's sub-agent was stopped, if that is a call that needed approval or an answer.
fn stop_of_subagent(outcome: &ToolOutcome) -> Option<StopSignal> {
    let ToolOutcome::Returned(output) = outcome else { return None };
    let value = output.value.as_ref()?;
    value.get("subagent")?;
    let stop = StopSignal::deserialize(value.get("stop")?).ok()?;
    let is_by_request =
        matches!(stop.source.as_deref(), Some(HOOK | OnAsk::SOURCE | questions::NAME));
    // The output lists the call.
    is_by_request.then(|| stop.without_denied_call())
}

#[async_trait]
impl Hook for Rules {
    fn name(&self) -> Cow<'static, str> {
        HOOK.into()
    }

    fn points(&self) -> HookPoints {
        let points = [HookPoint::BeforeInference, HookPoint::BeforeTool];
        let ends_runs = self.on_ask == OnAsk::Fail;
        HookPoints::from_points(points.into_iter().chain(ends_runs.then_some(HookPoint::AfterTool)))
    }

    fn can_skip(&self, point: HookPoint, _state: &AgentState, _env: &RunEnv) -> bool {
        point == HookPoint::BeforeInference && !self.policy().removes_tools()
    }

    async fn before_inference(
        &self,
        request: &mut InferenceRequest,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<InferenceDecision, BoxError> {
        let policy = self.policy();
        if policy.removes_tools() {
            request.tools = self.shown.without_removed(&request.tools, &policy);
        }
        Ok(InferenceDecision::Send)
    }

    async fn after_tool(
        &self,
        _call: &ToolCall,
        outcome: &mut ToolOutcome,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(stop_of_subagent(outcome).map_or(Flow::Continue, Flow::Stop))
    }

    async fn before_tool(
        &self,
        call: &ToolCall,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        // Arguments that cannot be read are refused before the tool runs; until then they name nothing.
        let arguments = call.parse_arguments().unwrap_or(Value::Null);
        let started = match cx.agent().tools().get(&call.name) {
            Some(tool) => tool.starts(&arguments).await,
            None => None,
        };
        Ok(self.decide(&self.policy(), (call, &arguments), started.as_ref(), state, cx))
    }
}
