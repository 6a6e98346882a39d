//! What capabilities add to.

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

/// The channels of an agent that is being composed. Each can only do what does not depend on the
/// order of capabilities, but for two that set the same thing: there the last one wins.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Configurator {
    /// What the model may call.
    pub tools: ToolChannel,
    /// Tools that can change while the agent works.
    pub sources: ToolSources,
    /// Hooks, with priorities.
    pub hooks: HookStack,
    /// What the model is told.
    pub prompt: PromptChannel,
    /// What chooses what the model sees.
    pub compiler: ComponentSlot<dyn ContextCompiler>,
    /// What makes answers.
    pub driver: ComponentSlot<dyn Driver>,
    /// An interceptor of one's own. A build with other hooks beside it fails.
    pub interceptor: Option<Interceptor>,
    /// Who listens.
    pub sinks: EventSinks,
    /// Middleware around model calls.
    pub layers: ModelLayers,
    /// What else is known of the agent.
    pub profile: AgentMeta,
    pub(crate) processors: Processors,
    pub(crate) criteria: ContinuationCriteria,
}

impl Configurator {
    /// Adds a wrapper around whole steps.
    pub fn add_processor(&mut self, processor: Arc<dyn StateProcessor>) {
        self.processors.0.push(processor);
    }

    /// Adds voices on whether another step is taken. They are heard together with those of other
    /// capabilities.
    pub fn add_criteria(&mut self, criteria: &ContinuationCriteria) {
        self.criteria.merge(criteria);
    }

    /// Configures a capability for an agent that may not call every tool. If the capability brings tools
    /// and the agent may call none of them, the instructions and the compiler of the capability are left
    /// out: the model never reads of tools that it lacks. The hooks stay, because they may restrict.
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

/// A part that is set once and may be wrapped, in any order: wrappers go around whatever is set in
/// the end.
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

    /// Wraps the part. A wrapper that is added later goes around those added before.
    pub fn wrap(&mut self, wrapper: impl FnOnce(Arc<T>) -> Arc<T> + Send + 'static) {
        self.wrappers.push(Box::new(wrapper));
    }

    /// Returns `true` if the part is set.
    pub fn is_set(&self) -> bool {
        self.base.is_some()
    }

    /// Remembers what is set and how often it is wrapped.
    fn mark(&self) -> (Option<Arc<T>>, usize) {
        (self.base.clone(), self.wrappers.len())
    }

    /// Removes what was set or wrapped since the mark.
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

/// Tools, and tools that are made when everything else is decided.
#[derive(Default)]
pub struct ToolChannel {
    direct: ToolSet,
    deferred: Vec<Arc<dyn DeferredTools>>,
}

/// Makes tools that need the finished driver and the other tools.
pub trait DeferredTools: Send + Sync {
    /// Makes the tools.
    ///
    /// # Errors
    ///
    /// If they cannot be made; the error names the remedy.
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

/// What is decided when deferred tools are made.
#[derive(Clone, Copy)]
pub struct DeferredToolCx<'a> {
    /// The finished driver, wrappers included.
    pub driver: &'a Arc<dyn Driver>,
    /// The finished compiler, wrappers included.
    pub compiler: &'a Arc<dyn ContextCompiler>,
    /// The tools so far: all direct ones, and deferred ones that were added before.
    pub tools: &'a ToolSet,
    /// Who listens.
    pub sinks: &'a EventSinks,
}

impl fmt::Debug for DeferredToolCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredToolCx").field("tools", self.tools).finish_non_exhaustive()
    }
}

impl ToolChannel {
    /// Adds a tool, in the place of one that has its name.
    pub fn add(&mut self, tool: impl IntoTool) {
        self.direct.add(tool);
    }

    /// Adds several tools.
    pub fn merge(&mut self, tools: &ToolSet) {
        self.direct.merge(tools);
    }

    /// Adds tools that are made when everything else is decided.
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

/// What the model is told before the conversation.
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
    /// Adds instructions under a name, in the place of those of that name. Fragments stand in the
    /// order of their numbers, and of equal numbers in the order they were added.
    ///
    /// They are stable: what changes from step to step belongs to the tail of the prompt, which
    /// compilers make.
    pub fn add(&mut self, order: i16, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) {
        self.place(order, name.into(), Fragment::Fixed(text.into()), Audience::Agent);
    }

    /// Adds instructions as [`add`](Self::add) does, which sub-agents of the agent have too.
    pub fn share(&mut self, order: i16, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) {
        self.place(order, name.into(), Fragment::Fixed(text.into()), Audience::Subagents);
    }

    /// Adds instructions that are made of the finished agent, in the place of those of that name; none
    /// if there is nothing to say. A copy of the agent with other tools has them made anew.
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

    /// Adds instructions to those of a name, which keep their place.
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

    /// Puts turns before the conversation in every request.
    pub fn extend_head(&mut self, turns: &Transcript) {
        self.head.extend(turns.iter().cloned());
    }

    /// Sets the form of answers for states that set none; the last one wins.
    pub fn set_response_format(&mut self, format: ResponseFormat) {
        self.response_format = Some(format);
    }

    pub(crate) fn resolve(mut self) -> (Instructions, Transcript, Option<ResponseFormat>) {
        self.fragments.sort_by_key(|it| it.order);
        let fragments = self.fragments.into_iter().map(|it| (it.name, it.fragment, it.audience));
        (Instructions::for_audiences(fragments), self.head, self.response_format)
    }
}
