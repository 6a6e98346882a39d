//! The calls that active skills allow.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::AgentState;
use loopwright_permissions::{Source, SourceKind};

use crate::skills::active::own_skills;
use crate::skills::library::{SkillAudience, SkillLibrary};

/// The calls that the skills of a library allow without approval while they are active: those in
/// [`allowed_tools`](super::SkillInfo::allowed_tools), as allow rules. They forbid no other calls, and rules that deny or ask stay
/// stronger. A skill is active in the agent that has loaded it, carries it out, or works on a message that invokes it, and not in
/// its other sub-agents.
///
/// Give them to [`UsePermissions::with_grants`](crate::permissions::UsePermissions::with_grants).
#[derive(Clone, Debug, Default)]
pub struct SkillGrants(Arc<BTreeMap<String, Source>>);

impl SkillGrants {
    /// Reads what the skills of a library allow, which must be only those that the user wrote or trusts. `base` is the absolute path
    /// of the folder that patterns such as `/src/**` start from. Later changes of files allow nothing more. Blocks while it reads.
    pub fn of(library: &SkillLibrary, base: &str) -> Self {
        let skills = library.list(SkillAudience::All).into_iter();
        let grants = skills.filter(|it| !it.info.allowed_tools.is_empty()).map(|skill| {
            let name = skill.name().to_owned();
            let source = Source::new(SourceKind::Definition, format!("skill `{name}`"), base);
            let rules = skill.info.allowed_tools.iter();
            let source = rules.fold(source, |source, rule| source.allow(rule.as_str(), 0));
            (name, source)
        });
        Self(Arc::new(grants.collect()))
    }

    /// Returns the rules of the skills that are active in a state.
    pub fn active(&self, state: &AgentState) -> Vec<Source> {
        if self.0.is_empty() {
            return Vec::new();
        }
        own_skills(state).iter().filter_map(|name| self.0.get(name)).cloned().collect()
    }
}
