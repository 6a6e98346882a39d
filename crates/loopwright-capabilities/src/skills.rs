//! Skills: instructions for one kind of work, loaded when needed.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::skills::{Skill, SkillInfo, SkillLibrary, UseSkills};
//! use loopwright_core::AgentState;
//! use loopwright_testing::{FakeModel, ScenarioStep, block_on};
//! use serde_json::json;
//!
//! let greet = SkillInfo::new("greet", "Greets people. Use it when the user says hello.");
//! let skills = SkillLibrary::default().with(Skill::new(greet, "Say: hello, $ARGUMENTS!"));
//! # let load = json!({ "skill_name": "greet", "arguments": "Ann" });
//! # let steps = [ScenarioStep::tool_call("load_skill", load), "Hello, Ann!".into()];
//! # let model = FakeModel::script(steps);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseSkills::new(skills))
//!     .build()?;
//! let state = block_on(agent.execute(AgentState::new().with_user_message("Hello, I am Ann.")));
//! assert_eq!(state.text(), "Hello, Ann!");
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```
//!
//! Skills are directories with a `SKILL.md` in the open format: [`SkillLibrary`] finds them. The
//! model sees their names and descriptions, loads the text of a skill with [`LoadSkill`], and reads
//! its files when it needs them. While a skill is active, the model that it names is used, and a
//! program can let the calls that it lists run without approval ([`SkillGrants`]). A skill is active
//! until another one is loaded, the model ends it, or the execution ends. Its instructions stay in force after that: they are
//! repeated if a later request would lack them.

mod warning;
mod substitute;
mod skill;
mod parse;
mod read;
mod library;
mod active;
mod loaded;
mod policy;
mod prompt;
mod shell;
mod model;
mod grants;
mod fork;
mod tool;
mod preload;
mod capability;
#[cfg(test)]
mod tests;

pub(crate) use self::active::handed_on;
pub use self::{
    active::{ACTIVE, ActiveSkill, INVOKED, active_skills},
    capability::UseSkills,
    grants::SkillGrants,
    library::{SkillAudience, SkillLibrary, SkillScope},
    policy::{SkillPolicy, is_foreign_model},
    preload::SkillStateFactory,
    shell::SkillShell,
    skill::{Skill, SkillContext, SkillInfo},
    tool::{LoadSkill, LoadSkillArgs, SkillError},
    warning::{SkillProblem, SkillWarning},
};
pub use loopwright_permissions::ToolRule;
