//! The channels that capabilities add to.

use std::{fmt, sync::Arc};

use loopwright_core::{
    AgentLoop, AgentMeta, AnyTool, Audience, ContextCompiler, Driver, EventSinks, Fragment,
    HookStack, Instructions, Interceptor, IntoTool, ModelLayers, ToolSet, ToolSources,
    messages::{ResponseFormat, Transcript},
};

use crate::{
    capability::{BuildError, Capability},
    criteria::ContinuationCriteria,
    processor::{Processors, StateProcessor},
};

/// The channels of an agent that is being built. The order of capabilities matters only if two set
/// the same part: the last one wins.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Configurator {
    /// The tools that the model can call.
    pub tools: ToolChannel,
    /// Tools that can change while the agent works.
    pub sources: ToolSources,
    /// Hooks, with priorities.
    pub hooks: HookStack,
    /// The instructions for the model.
    pub prompt: PromptChannel,
    /// The context compiler.
    pub compiler: ComponentSlot<dyn ContextCompiler>,
    /// The driver.
    pub driver: ComponentSlot<dyn Driver>,
    /// An explicit interceptor. The build fails if there are other hooks.
    pub interceptor: Option<Interceptor>,
    /// The listeners.
    pub sinks: EventSinks,
    /// Middleware around model calls.
    pub layers: ModelLayers,
    /// The metadata of the agent.
    pub profile: AgentMeta,
    pub(crate) processors: Processors,
    pub(crate) criteria: ContinuationCriteria,
}

impl Configurator {
    /// Adds a wrapper around whole steps.
    pub fn add_processor(&mut self, processor: Arc<dyn StateProcessor>) {
        self.processors.0.push(processor);
    }

    /// Adds criteria for another step. They are evaluated together with those of other
    /// capabilities.
    pub fn add_criteria(&mut self, criteria: &ContinuationCriteria) {
        self.criteria.merge(criteria);
    }

    /// Configures a capability for an agent that cannot call every tool. If the agent can call none
    /// of the tools of the capability, its instructions and its compiler are left out, so that the
    /// model never reads about missing tools. The hooks stay, because they may restrict.
    pub(crate) fn configure_for(
        &mut self,
        capability: &dyn Capability,
        may_call: &Arc<dyn Fn(&AnyTool) -> bool + Send + Sync>,
    ) -> Result<(), BuildError> {
        let (prompt, compiler) = (self.prompt.clone(), self.compiler.mark());
        let tools = std::mem::take(&mut self.tools);
        let sources = std::mem::take(&mut self.sources);
        let configured = capability.configure(self);
        let brought = std::mem::replace(&mut self.tools, tools);
        let brought_sources = std::mem::replace(&mut self.sources, sources);
        configured?;
        let may = Arc::clone(may_call);
        self.sources.extend(&brought_sources.filter(move |tool| may(tool)));
        let has_use = !brought.deferred.is_empty()
            || !brought_sources.is_empty()
            || brought.direct.iter().any(|tool| may_call(tool));
        if !brought.direct.is_empty() && !has_use {
            self.prompt = prompt;
            self.compiler.reset(compiler);
        }
        self.tools.direct.merge(&brought.direct);
        self.tools.deferred.extend(brought.deferred);
        Ok(())
    }
}

/// A part that is set once and can be wrapped, in any order: wrappers apply to the final part.
pub struct ComponentSlot<T: ?Sized> {
    base: Option<Arc<T>>,
    wrappers: Vec<Box<Wrapper<T>>>,
}

type Wrapper<T> = dyn FnOnce(Arc<T>) -> Arc<T> + Send;

impl<T: ?Sized> ComponentSlot<T> {
    /// Sets the part; the last one wins.
    pub fn set(&mut self, part: Arc<T>) {
        self.base = Some(part);
    }

    /// Wraps the part. A later wrapper encloses the earlier ones.
    pub fn wrap(&mut self, wrapper: impl FnOnce(Arc<T>) -> Arc<T> + Send + 'static) {
        self.wrappers.push(Box::new(wrapper));
    }

    /// Returns `true` if the part is set.
    pub fn is_set(&self) -> bool {
        self.base.is_some()
    }

    /// Records the part and the number of wrappers.
    fn mark(&self) -> (Option<Arc<T>>, usize) {
        (self.base.clone(), self.wrappers.len())
    }

    /// Removes parts and wrappers added since the mark.
    fn reset(&mut self, (base, wrappers): (Option<Arc<T>>, usize)) {
        self.base = base;
        self.wrappers.truncate(wrappers);
    }

    pub(crate) fn resolve(self, default: impl FnOnce() -> Option<Arc<T>>) -> Option<Arc<T>> {
        let base = self.base.or_else(default)?;
        Some(self.wrappers.into_iter().fold(base, |part, wrap| wrap(part)))
    }
}

impl<T: ?Sized> Default for ComponentSlot<T> {
    fn default() -> Self {
        Self { base: None, wrappers: Vec::new() }
    }
}

impl<T: ?Sized> fmt::Debug for ComponentSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComponentSlot")
            .field("is_set", &self.is_set())
            .field("wrappers", &self.wrappers.len())
            .finish_non_exhaustive()
    }
}

/// Tools, including deferred ones, which are created at the end of the build.
#[derive(Default)]
pub struct ToolChannel {
    direct: ToolSet,
    deferred: Vec<Arc<dyn DeferredTools>>,
}

/// Creates tools that need the finished driver and the other tools.
pub trait DeferredTools: Send + Sync {
    /// Creates the tools.
    ///
    /// # Errors
    ///
    /// Returns an error with a remedy if they cannot be created.
    fn provide(&self, cx: &DeferredToolCx<'_>) -> Result<Vec<AnyTool>, BuildError>;
}

impl<F, T> DeferredTools for F
where
    F: Fn(&DeferredToolCx<'_>) -> Result<T, BuildError> + Send + Sync,
    T: IntoTool,
{
    fn provide(&self, cx: &DeferredToolCx<'_>) -> Result<Vec<AnyTool>, BuildError> {
        Ok(vec![self(cx)?.into_tool()])
    }
}

/// The finished parts when deferred tools are created.
#[derive(Clone, Copy)]
pub struct DeferredToolCx<'a> {
    /// The finished driver, including wrappers.
    pub driver: &'a Arc<dyn Driver>,
    /// The finished compiler, including wrappers.
    pub compiler: &'a Arc<dyn ContextCompiler>,
    /// The tools so far: all direct ones, and earlier deferred ones.
    pub tools: &'a ToolSet,
    /// The listeners.
    pub sinks: &'a EventSinks,
}

impl fmt::Debug for DeferredToolCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredToolCx").field("tools", self.tools).finish_non_exhaustive()
    }
}

impl ToolChannel {
    /// Adds a tool, or replaces the one with the same name.
    pub fn add(&mut self, tool: impl IntoTool) {
        self.direct.add(tool);
    }

    /// Adds several tools.
    pub fn merge(&mut self, tools: &ToolSet) {
        self.direct.merge(tools);
    }

    /// Adds tools that are created at the end of the build.
    pub fn defer(&mut self, tools: Arc<dyn DeferredTools>) {
        self.deferred.push(tools);
    }

    pub(crate) fn resolve(
        self,
        driver: &Arc<dyn Driver>,
        compiler: &Arc<dyn ContextCompiler>,
        sinks: &EventSinks,
    ) -> Result<ToolSet, BuildError> {
        let mut tools = self.direct;
        for deferred in self.deferred {
            let provided =
                deferred.provide(&DeferredToolCx { driver, compiler, tools: &tools, sinks })?;
            for tool in provided {
                tools.add(tool);
            }
        }
        Ok(tools)
    }
}

impl fmt::Debug for ToolChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolChannel")
            .field("direct", &self.direct)
            .field("deferred", &self.deferred.len())
            .finish()
    }
}

/// The instructions and turns before the conversation.
#[derive(Clone, Debug, Default)]
pub struct PromptChannel {
    fragments: Vec<Placed>,
    head: Transcript,
    response_format: Option<ResponseFormat>,
}

#[derive(Clone, Debug)]
struct Placed {
    order: i16,
    name: Arc<str>,
    fragment: Fragment,
    audience: Audience,
}

impl PromptChannel {
    /// Adds instructions under a name, which replace those with the same name. Fragments are sorted
    /// by number, then by the order in which they were added.
    ///
    /// They must be stable: put text that changes from step to step in the tail of the prompt,
    /// which compilers create.
    pub fn add(&mut self, order: i16, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) {
        self.place(order, name.into(), Fragment::Fixed(text.into()), Audience::Agent);
    }

    /// Adds instructions as [`add`](Self::add) does, and passes them on to the agent's sub-agents.
    pub fn share(&mut self, order: i16, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) {
        self.place(order, name.into(), Fragment::Fixed(text.into()), Audience::Subagents);
    }

    /// Adds instructions that are derived from the finished agent, which replace those with the
    /// same name; `None` for no text. They are derived again for a copy of the agent with other
    /// tools.
    pub fn derive(
        &mut self,
        order: i16,
        name: impl Into<Arc<str>>,
        derive: impl Fn(&AgentLoop) -> Option<Arc<str>> + Send + Sync + 'static,
    ) {
        self.place(order, name.into(), Fragment::Derived(Arc::new(derive)), Audience::Agent);
    }

    fn place(&mut self, order: i16, name: Arc<str>, fragment: Fragment, audience: Audience) {
        let placed = Placed { order, name, fragment, audience };
        match self.fragments.iter_mut().find(|it| it.name == placed.name) {
            Some(same) => *same = placed,
            None => self.fragments.push(placed),
        }
    }

    /// Adds instructions to those with a name, which keep their position.
    pub fn append(&mut self, order: i16, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) {
        let (name, text) = (name.into(), text.into());
        let Some(same) = self.fragments.iter_mut().find(|it| it.name == name) else {
            return self.add(order, name, text);
        };
        same.fragment = match same.fragment.clone() {
            Fragment::Fixed(before) => Fragment::Fixed(format!("{before}\n\n{text}").into()),
            Fragment::Derived(derive) => Fragment::Derived(Arc::new(move |agent: &AgentLoop| {
                let before = derive(agent);
                Some(before.map_or_else(|| text.clone(), |it| format!("{it}\n\n{text}").into()))
            })),
        };
    }

    /// Adds turns before the conversation in every request.
    pub fn extend_head(&mut self, turns: &Transcript) {
        self.head.extend(turns.iter().cloned());
    }

    /// Sets the response format for states that set none; the last one wins.
    pub fn set_response_format(&mut self, format: ResponseFormat) {
        self.response_format = Some(format);
    }

    pub(crate) fn resolve(mut self) -> (Instructions, Transcript, Option<ResponseFormat>) {
        self.fragments.sort_by_key(|it| it.order);
        let fragments = self.fragments.into_iter().map(|it| (it.name, it.fragment, it.audience));
        (Instructions::for_audiences(fragments), self.head, self.response_format)
    }
}
