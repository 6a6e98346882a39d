//! The folders of skills and commands, of a project and of the user.

use std::path::Path;

use loopwright_capabilities::skills::{SkillLibrary, SkillScope};

use crate::config::ConfigSources;
use crate::project::{COMMANDS, PROJECT_SKILLS};

/// Where they are in the user's home directory, besides those of the configuration.
const USER_SKILLS: [&str; 2] = [".agents/skills", ".claude/skills"];

/// Which places count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// The project's and the user's.
    All,
    /// The user's.
    User,
}

/// Finds skills and commands.
pub(crate) fn skills(root: &Path, sources: &ConfigSources, places: Places) -> SkillLibrary {
    let mut skills = SkillLibrary::default().with_boundary(root).with_hooks();
    if places == Places::All {
        for directory in PROJECT_SKILLS {
            skills = skills.with_dir(SkillScope::Project, root.join(directory));
        }
        skills = skills.with_commands(SkillScope::Project, root.join(COMMANDS));
    }
    if let Some(own) = sources.own_directory() {
        skills = skills.with_dir(SkillScope::User, own.join("skills"));
    }
    if let Some(home) = &sources.home {
        for directory in USER_SKILLS {
            skills = skills.with_dir(SkillScope::User, home.join(directory));
        }
        skills = skills.with_commands(SkillScope::User, home.join(COMMANDS));
    }
    skills
}
