//! Criteria that decide whether another step follows.

use loopwright_core::Priority;

use crate::{
    capabilities::capability,
    criteria::ContinuationCriteria,
    error_policy::{ErrorPolicy, ErrorPolicyHook},
};

/// Applies an [`ErrorPolicy`]. Without one, the model handles tool errors, and a step without a
/// response fails the run.
#[derive(Clone, Copy, Debug)]
pub struct UseErrorPolicy(pub ErrorPolicy);

capability!(UseErrorPolicy, "use_error_policy", |it, agent| {
    agent.hooks.add_at(Priority::FINISH, ErrorPolicyHook(it.0));
});

/// Evaluates criteria for another step, together with those of other capabilities. The event about
/// the decision contains every result.
#[derive(Clone, Debug)]
pub struct UseContinuation(pub ContinuationCriteria);

capability!(UseContinuation, "use_continuation", |it, agent| {
    agent.add_criteria(&it.0);
});
