//! Restrictions of an agent definition, in addition to the general rules.

use std::sync::{Arc, Mutex, PoisonError};

use loopwright_agent::{BuildError, CALL_RULES, CallRules, NameList};
use loopwright_permissions::{Mode, Policy, Source, SourceKind};

/// The restrictions of a definition. Clones share the policy that was made last.
#[derive(Clone, Debug)]
pub(super) struct Restriction {
    source: Source,
    /// The policy that was restricted last, and what became of it.
    last: Arc<Mutex<Option<(Policy, Policy)>>>,
}

impl Restriction {
    /// Reads the rules of a definition.
    pub(super) fn new(rules: &CallRules, policy: &Policy) -> Result<Self, BuildError> {
        let wrong = |reason: String| BuildError::capability(CALL_RULES, reason);
        let place = format!("agent `{}`", rules.agent);
        let mut source = Source::new(SourceKind::Definition, place, policy.workdir());
        for rule in rules.only.iter().flat_map(NameList::iter) {
            source = source.with_tools(rule, 0);
        }
        if rules.only.as_ref().is_some_and(NameList::is_empty) {
            source = source.deny("*", 0);
        }
        for rule in rules.deny.iter() {
            source = source.without_tools(rule, 0);
        }
        if let Some(mode) = &rules.mode {
            let mode: Mode = mode.parse().map_err(|error| wrong(format!("{error}")))?;
            source = source.with_mode(mode);
        }
        let alone = Policy::builder(policy.workdir()).source(source.clone()).build();
        if let Some(warning) = alone.warnings().first() {
            return Err(wrong(warning.message.clone()));
        }
        Ok(Self { source, last: Arc::default() })
    }

    /// Returns a policy with the restrictions.
    pub(super) fn apply(&self, policy: Policy) -> Policy {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, restricted)) if of.ptr_eq(&policy) => restricted.clone(),
            _ => {
                let restricted = policy.restricted_by(self.source.clone());
                *last = Some((policy, restricted.clone()));
                restricted
            }
        }
    }
}
