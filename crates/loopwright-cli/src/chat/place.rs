//! The search path of a chat for agents and skills.

use std::collections::BTreeSet;

use loopwright_agent::Definitions as _;
use loopwright_capabilities::skills::SkillAudience;

use crate::chat_commands::{COMMANDS, names};
use crate::config::{Config, ConfigSources};
use crate::definitions::Defined;
use crate::render::single_line;

/// The search path for agents and skills.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) config: Config,
    pub(super) sources: ConfigSources,
}

impl Place {
    /// Finds what is defined now. Blocks while it reads.
    pub(super) fn defined(&self) -> Option<Defined> {
        Defined::of(&self.config, &self.sources)
    }

    /// Returns the commands, skills and agents with their descriptions. Of those with one name, the first is meant.
    pub(super) fn completions(&self) -> Vec<(String, String)> {
        let about = |name: &str| {
            let is_named = |typed: &str| {
                typed.strip_prefix('/').is_some_and(|it| it.split(' ').next() == Some(name))
            };
            COMMANDS.iter().find(|(typed, _)| is_named(typed)).map_or("", |(_, about)| about)
        };
        let own = names().map(|name| (name.to_owned(), about(name).to_owned()));
        let defined = self.defined();
        let (skills, agents) = defined
            .map(|it| (it.skills.list(SkillAudience::Users), it.agents.all()))
            .unwrap_or_default();
        let skills = skills.iter().map(|it| (it.name(), it.info.description.clone()));
        let agents =
            agents.iter().map(|it| (it.name.as_str(), format!("agent: {}", it.description)));
        let others = skills.chain(agents).map(|(name, about)| (name, single_line(&about, 60)));
        let others = others.map(|(name, about)| (name.to_owned(), about));
        let mut seen = BTreeSet::new();
        let is_first = |it: &(String, String)| seen.insert(it.0.clone());
        own.chain(others).filter(is_first).collect()
    }
}
