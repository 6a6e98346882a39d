//! The selection of the tools in a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_agent::ACTIVATED_TOOLS;
use loopwright_core::{
    AgentState, BoxError, Flow, Hook, HookCx, InferenceDecision, StateEdit, ToolSet,
    ToolVisibility,
    messages::{InferenceRequest, ToolSpec, ToolSpecs},
};

/// Lists that are kept for runs at the same time, those that were offered last: there may be many
/// sub-agents, each with its own.
const KEPT: usize = 64;

/// Leaves deferred tools out of requests until they are in
/// [`ACTIVATED_TOOLS`](loopwright_agent::ACTIVATED_TOOLS). For capabilities with a search tool of their own.
#[derive(Debug, Default)]
pub struct OfferActivatedTools(Mutex<VecDeque<Offered>>);

/// A list that was made: the next request of the run offers the same one, in memory too.
#[derive(Debug)]
struct Offered {
    all: ToolSpecs,
    active: Vec<Arc<str>>,
    some: ToolSpecs,
}

#[async_trait]
impl Hook for OfferActivatedTools {
    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        // Drivers that put the tools into a text do not pass this hook with them: they look here.
        if state.get(&ACTIVATED_TOOLS).is_none() {
            state.set(&ACTIVATED_TOOLS, &Vec::new())?;
        }
        Ok(Flow::Continue)
    }

    async fn before_inference(
        &self,
        request: &mut InferenceRequest,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<InferenceDecision, BoxError> {
        if !request.tools.is_empty() {
            let active = state.get(&ACTIVATED_TOOLS).unwrap_or_default();
            request.tools = self.offer(&request.tools, active, cx.agent().tools());
        }
        Ok(InferenceDecision::Send)
    }
}

impl OfferActivatedTools {
    pub(super) fn offer(
        &self,
        all: &ToolSpecs,
        active: Vec<Arc<str>>,
        tools: &ToolSet,
    ) -> ToolSpecs {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|it| it.all.ptr_eq(all) && it.active == active);
        let offered = known.and_then(|at| kept.remove(at)).unwrap_or_else(|| {
            let some = select(all, &active, tools);
            Offered { all: all.clone(), active, some }
        });
        let some = offered.some.clone();
        kept.truncate(KEPT - 1);
        kept.push_front(offered);
        some
    }
}

/// Puts what the model has asked for after what is always there, so that the list only grows.
fn select(all: &ToolSpecs, active: &[Arc<str>], tools: &ToolSet) -> ToolSpecs {
    let is_shown = |spec: &&ToolSpec| {
        let tool = tools.get(&spec.name);
        tool.is_none_or(|it| it.options().visibility == ToolVisibility::Always)
    };
    let find = |name: &Arc<str>| all.iter().find(|it| it.name == *name);
    let added = active.iter().filter_map(find).filter(|spec| !is_shown(spec));
    all.iter().filter(is_shown).chain(added).cloned().collect()
}
