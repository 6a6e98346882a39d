//! The capability for skills.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, CapabilityRegistry, Configurator, Definitions};

use crate::child::IsolateAgents;
use crate::skills::library::SkillLibrary;
use crate::skills::loaded::Repeating;
use crate::skills::model::SkillModel;
use crate::skills::policy::SkillPolicy;
use crate::skills::prompt::catalogue;
use crate::skills::shell::SkillShell;
use crate::skills::tool::LoadSkill;

/// Lists the available skills to the model, and adds the tool `load_skill`.
///
/// The list is created when the agent is built, so that requests keep their prefix; `load_skill`
/// sees later changes.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseSkills(LoadSkill);

impl UseSkills {
    /// Creates the capability with the skills of a library.
    pub fn new(library: SkillLibrary) -> Self {
        Self(LoadSkill::from(library))
    }

    /// Creates the capability with the skills of a directory.
    pub fn in_dir(directory: impl Into<std::path::PathBuf>) -> Self {
        Self::new(SkillLibrary::new(directory))
    }

    /// Sets the policy of skills.
    pub fn with_policy(self, policy: SkillPolicy) -> Self {
        Self(self.0.with_policy(policy))
    }

    /// Runs the commands in skills; otherwise they stay text.
    pub fn with_shell(self, shell: SkillShell) -> Self {
        Self(self.0.with_shell(shell))
    }

    /// Lists only skills to models for whose names the function returns `true`; see [`LoadSkill::with_listed`].
    pub fn with_listed(self, is_listed: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(self.0.with_listed(is_listed))
    }

    /// Sets rules for the files of skills; see [`LoadSkill::with_access`].
    pub fn with_access(self, access: Arc<dyn crate::files::FileAccess>) -> Self {
        Self(self.0.with_access(access))
    }

    /// Sets the agents that skills can name for their execution.
    pub fn with_agents(self, agents: impl Definitions + 'static) -> Self {
        Self(self.0.with_agents(Arc::new(agents)))
    }

    /// Sets what gives these agents their own places, whose definition has an isolation.
    pub fn with_isolation(self, isolation: Arc<dyn IsolateAgents>) -> Self {
        Self(self.0.with_isolation(isolation))
    }

    /// Sets the registry of the capabilities that the definitions of these agents name.
    pub fn with_capabilities(self, capabilities: Arc<CapabilityRegistry>) -> Self {
        Self(self.0.with_capabilities(capabilities))
    }
}

/// The place of the catalogue among the instructions: after what tools say of themselves.
const PLACE: i16 = 60;

impl Capability for UseSkills {
    fn name(&self) -> Cow<'static, str> {
        "use_skills".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        if let Some(text) = catalogue(&self.0.listed()) {
            agent.prompt.add(PLACE, "skills", text);
        }
        agent.tools.add(self.0.clone());
        agent.compiler.wrap(|compiler| Arc::new(Repeating::new(compiler)));
        agent.driver.wrap(|driver| Arc::new(SkillModel(driver)));
        Ok(())
    }
}
