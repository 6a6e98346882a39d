//! What has no effect because the project that brings it is not trusted, as one warning.

use std::collections::BTreeSet;

use loopwright_capabilities::skills::{SkillAudience, SkillScope};
use loopwright_permissions::Policy;

use crate::claude_keys::ClaudeKeys;
use crate::command_hooks::{self, SkillHooks};
use crate::config::{Config, ConfigSources, Discovery};
use crate::mcp_servers::ConfiguredServers;
use crate::project_settings::ProjectSettings;
use crate::render::count;

/// How warnings about permission settings end that count only in a trusted project.
pub(crate) const UNTRUSTED: &str = "the project is not trusted";

/// What reviews the settings of a project.
pub(crate) const REVIEW: &str = "`loopwright trust`";

/// The same in a chat at a terminal.
pub(crate) const REVIEW_IN_CHAT: &str = "`/trust`";

/// What a project brings that has no effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Untrusted {
    permissions: usize,
    hooks: usize,
    servers: usize,
    /// Keys of Claude Code's settings.
    keys: BTreeSet<&'static str>,
    skills: usize,
    commands: usize,
}

impl Untrusted {
    /// Finds it; nothing in a project that is trusted. Blocks while it reads skills.
    pub(crate) fn find(
        policy: &Policy,
        config: &Config,
        sources: &ConfigSources,
        project: &ProjectSettings,
    ) -> Self {
        if project.is_trusted() {
            return Self::default();
        }
        let is_untrusted = |message: &str| message.ends_with(UNTRUSTED);
        let mut found = Self {
            permissions: policy.warnings().iter().filter(|it| is_untrusted(&it.message)).count(),
            ..Self::default()
        };
        for (_, path, text) in project.claude() {
            // How many hooks a file has that cannot be read is not known.
            if command_hooks::is_readable(text) {
                found.hooks += command_hooks::read(&path, text).0.len();
            }
            let read = ClaudeKeys::read(text);
            let keys = [
                ("`env`", !read.variables.is_empty()),
                ("`model`", read.model.is_some()),
                ("`statusLine`", read.status_line.is_some()),
            ];
            found.keys.extend(keys.into_iter().filter(|it| it.1).map(|it| it.0));
        }
        let servers = ConfiguredServers::find(config, sources, project).servers;
        found.servers = servers.iter().filter(|it| !it.is_trusted).count();
        if sources.discovery != Discovery::Nothing {
            let library = project.skills(sources);
            let hooks = SkillHooks::of(library).into_iter().filter(|it| it.is_of_project);
            found.hooks += hooks.map(|it| it.hooks.len()).sum::<usize>();
            for skill in library.list(SkillAudience::Models) {
                if library.scope(skill.name()) != Some(SkillScope::Project) {
                    continue;
                }
                let file = library.file(skill.name()).unwrap_or_default();
                let is_skill = file.file_name().is_some_and(|it| it == "SKILL.md");
                *if is_skill { &mut found.skills } else { &mut found.commands } += 1;
            }
        }
        found
    }

    /// Returns the warning; `None` means that settings of the project have their effect. Skills alone are no settings.
    pub(crate) fn warning(
        &self,
        reason: &str,
        review: &str,
        are_skills_withheld: bool,
    ) -> Option<String> {
        let numbers = |numbers: &[(usize, &str)]| -> Vec<String> {
            let numbers = numbers.iter().filter(|it| it.0 > 0);
            numbers.map(|(number, noun)| count(*number as u64, noun)).collect()
        };
        let mut ignored = numbers(&[
            (self.permissions, "permission setting"),
            (self.hooks, "hook"),
            (self.servers, "MCP server"),
        ]);
        let is_one = self.permissions + self.hooks + self.servers + self.keys.len() == 1;
        ignored.extend(self.keys.iter().map(|it| (*it).to_owned()));
        if ignored.is_empty() {
            return None;
        }
        let verb = if is_one { "is" } else { "are" };
        let ignored = format!("{} {verb} ignored", listed(&ignored));
        let withheld = numbers(&[(self.skills, "skill"), (self.commands, "command")]);
        let withheld = if are_skills_withheld && !withheld.is_empty() {
            let verb = if self.skills + self.commands == 1 { "is" } else { "are" };
            format!(", and {} {verb} not offered to the model", listed(&withheld))
        } else {
            String::new()
        };
        Some(format!("{reason}: {ignored}{withheld}; review with {review}"))
    }
}

/// Returns a list in words: `a, b and c`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_ignored_is_one_line() {
        let all = Untrusted {
            permissions: 6,
            hooks: 1,
            servers: 1,
            keys: ["`env`", "`model`"].into(),
            skills: 1,
            commands: 2,
        };
        let ignored = "not trusted: 6 permission settings, 1 hook, 1 MCP server, `env` and `model` are ignored";
        let check = |found: &Untrusted, withheld, expect: Option<String>| {
            assert_eq!(found.warning("not trusted", REVIEW, withheld), expect);
        };
        check(&all, false, Some(format!("{ignored}; review with `loopwright trust`")));
        let withheld = "and 1 skill and 2 commands are not offered to the model";
        check(&all, true, Some(format!("{ignored}, {withheld}; review with `loopwright trust`")));
        let one = Untrusted { hooks: 1, ..Untrusted::default() };
        let expect = "not trusted: 1 hook is ignored; review with `loopwright trust`";
        check(&one, true, Some(expect.to_owned()));
        check(&Untrusted { skills: 2, ..Untrusted::default() }, true, None);
    }
}
