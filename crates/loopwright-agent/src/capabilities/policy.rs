//! When to continue and when to end.

use loopwright_core::Priority;

use crate::{
    capabilities::capability,
    criteria::ContinuationCriteria,
    error_policy::{ErrorPolicy, ErrorPolicyHook},
};

/// Carries an [`ErrorPolicy`] out. Without one, tool errors are left to the model and a step without
/// an answer fails the run.
#[derive(Clone, Copy, Debug)]
pub struct UseErrorPolicy(pub ErrorPolicy);

capability!(UseErrorPolicy, "use_error_policy", |it, agent| {
    agent.hooks.add_at(Priority::FINISH, ErrorPolicyHook(it.0));
});

/// Asks criteria whether another step is taken, together with those of other capabilities; every
/// voice is part of the event that tells of the decision.
#[derive(Clone, Debug)]
pub struct UseContinuation(pub ContinuationCriteria);

capability!(UseContinuation, "use_continuation", |it, agent| {
    agent.add_criteria(&it.0);
});
