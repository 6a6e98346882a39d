//! The hooks of an agent that its sub-agents inherit.

use std::sync::Arc;

use loopwright_core::{HookPoint, HookPoints, HookStack, Interceptor, Priority, RegisteredHook};

/// Where hooks stand around what an agent does to the world: a caller that does it for the agent is bound by
/// them as well.
const AROUND: [HookPoint; 4] = [
    HookPoint::BeforeInference,
    HookPoint::AfterInference,
    HookPoint::BeforeTool,
    HookPoint::AfterTool,
];

/// Adds the hooks that bind children: guards and cancellation as they are, and of all others what
/// stands around models and tools.
pub(super) fn binding(of: &Interceptor, to: &mut HookStack) {
    for hook in of.hooks() {
        let points = if hook.priority() >= Priority::GUARD {
            hook.points()
        } else {
            HookPoints::from_points(hook.points().iter().filter(|it| AROUND.contains(it)))
        };
        if points != HookPoints::NONE {
            add(hook, points, to);
        }
    }
}

/// Adds all hooks.
pub(super) fn all(of: &Interceptor, to: &mut HookStack) {
    of.hooks().iter().for_each(|hook| add(hook, hook.points(), to));
}

fn add(hook: &RegisteredHook, points: HookPoints, to: &mut HookStack) {
    to.register(hook.name().into(), hook.priority(), points, Arc::clone(hook.hook()));
}
