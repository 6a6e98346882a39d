//! Hooks.

use std::{fmt, sync::Arc};

use loopwright_core::{Hook, HookPoints, Interceptor, Priority};

use crate::{capabilities::capability, processor::StateProcessor};

/// Adds a hook.
///
/// ```
/// use loopwright_agent::UseHook;
/// use loopwright_core::{CallableHook, Flow, HookPoint};
///
/// let audit = CallableHook::new("audit").after_tool_async(async |call, outcome, _state, _cx| {
///     // Write to a database here, with `.await`.
///     println!("{}: {}", call.name, outcome.to_result().to_text());
///     Ok(Flow::Continue)
/// });
/// let audit = UseHook::new(audit).with_points(HookPoint::AfterTool);
/// ```
#[derive(Clone)]
#[must_use]
pub struct UseHook {
    hook: Arc<dyn Hook>,
    priority: Priority,
    points: Option<HookPoints>,
    name: Option<Arc<str>>,
}

impl UseHook {
    /// Adds a hook at the default priority and at all its points, under its own name.
    pub fn new(hook: impl Hook + 'static) -> Self {
        Self::from_arc(Arc::new(hook))
    }

    /// Adds a hook that is shared with other owners.
    pub fn from_arc(hook: Arc<dyn Hook>) -> Self {
        Self { hook, priority: Priority::default(), points: None, name: None }
    }

    /// Sets the priority: higher runs earlier.
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Calls the hook at these points only.
    pub fn with_points(mut self, points: impl Into<HookPoints>) -> Self {
        self.points = Some(points.into());
        self
    }

    /// Sets the name of the hook in events and stop signals.
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }
}

capability!(UseHook, "use_hook", |it, agent| {
    let name = it.name.clone().unwrap_or_else(|| it.hook.name().into());
    let points = it.points.unwrap_or_else(|| it.hook.points());
    agent.hooks.register(name, it.priority, points, Arc::clone(&it.hook));
});

impl fmt::Debug for UseHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseHook")
            .field("hook", &self.hook.name())
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// Sets the interceptor, for agents without other hooks.
///
/// An agent that also has guards, hooks, processors or criteria cannot be built: the interceptor
/// would disable them. [`AgentBuilder::base`](crate::AgentBuilder::base) has none.
#[derive(Clone, Debug)]
pub struct UseInterceptor(pub Interceptor);

capability!(UseInterceptor, "use_interceptor", |it, agent| {
    agent.interceptor = Some(it.0.clone());
});

/// Wraps whole steps. The first one added is outermost.
#[derive(Clone)]
pub struct UseStateProcessor(Arc<dyn StateProcessor>);

impl UseStateProcessor {
    /// Adds a wrapper.
    pub fn new(processor: impl StateProcessor + 'static) -> Self {
        Self(Arc::new(processor))
    }
}

capability!(UseStateProcessor, "use_state_processor", |it, agent| {
    agent.add_processor(Arc::clone(&it.0));
});

impl fmt::Debug for UseStateProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UseStateProcessor")
    }
}
