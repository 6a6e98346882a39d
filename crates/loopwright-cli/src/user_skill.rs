//! Skills, commands and agents that the user invokes with `/NAME ARGUMENTS`.

use std::sync::Arc;

use loopwright_agent::Definitions as _;
use loopwright_capabilities::files::{FileAccess as _, FileUse};
use loopwright_capabilities::skills::{
    Skill, SkillAudience, SkillContext, SkillLibrary, SkillScope,
};
use loopwright_core::{LlmConfig, StartedAgent};
use loopwright_permissions::{Call, Decision};
use loopwright_sessions::{SessionId, SessionStore};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent::Setup;
use crate::config::{Config, ConfigSources, closest};
use crate::console;
use crate::definitions::Defined;
use crate::mentions::ENDS;
use crate::model;
use crate::project_settings::ProjectSettings;
use crate::render::single_line;
use crate::startup::NoopListener;
use crate::typed_text::typed_command;
use crate::user_command;

/// The tool that carries a skill out in a conversation of its own.
const LOAD_SKILL: &str = "load_skill";

/// The tool that starts a sub-agent.
const SPAWN: &str = "spawn_subagent";

/// What the user wrote after the name of a skill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    /// All of it.
    pub(crate) text: &'a str,
    /// The part that was typed, and not piped in.
    pub(crate) typed: &'a str,
}

/// Where a skill is invoked.
pub(crate) struct Invocation<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) config: &'a Config,
    pub(crate) sources: &'a ConfigSources,
    /// The session that records changes of files.
    pub(crate) session: Option<(&'a Arc<dyn SessionStore>, &'a SessionId)>,
    pub(crate) cancel: &'a CancellationToken,
}

/// A skill as a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invoked {
    /// The text of the message.
    pub(crate) text: String,
    /// The words that name attached files as `@FILE`: those of the user, and those of a skill that may.
    pub(crate) mentions: String,
    /// The model of the turn, if the skill names one.
    pub(crate) llm: Option<LlmConfig>,
    /// The skill whose hooks run in this turn; `None` if it runs in a conversation of its own.
    pub(crate) skill: Option<String>,
}

/// Parts a line such as `/NAME ARGUMENTS`. A path or a sentence is none.
pub(crate) fn named(line: &str) -> Option<(&str, &str)> {
    let (first, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = first.strip_prefix('/')?;
    let is_part = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b':');
    (!name.is_empty() && name.bytes().all(is_part)).then(|| (name, arguments.trim()))
}

/// A skill or an agent that a user names.
pub(crate) enum Named {
    /// A skill, and where it is from.
    Skill(Arc<Skill>, Option<SkillScope>),
    /// The agent with this name.
    Agent(String),
}

/// Finds what users know by a name: a skill, or else an agent, or else the only command in a folder whose own name it is. Blocks
/// while it reads.
pub(crate) fn find(defined: &Defined, name: &str) -> Option<Named> {
    let skill = |name: &str| {
        let skill = defined.skills.get(name).filter(|it| it.info.user_invocable)?;
        Some(Named::Skill(skill, defined.skills.scope(name)))
    };
    if let Some(found) = skill(name) {
        return Some(found);
    }
    if defined.agents.get(name).is_ok() {
        return Some(Named::Agent(name.to_owned()));
    }
    match &in_folders(&defined.skills.names(SkillAudience::Users), name)[..] {
        [only] => skill(only),
        _ => None,
    }
}

/// Returns the names that a user may mean by a name that none has: those of commands in folders, or else the closest one. Blocks
/// while it reads.
pub(crate) fn suggestions(defined: &Defined, name: &str) -> Vec<String> {
    suggested(&defined.skills.names(SkillAudience::Users), name)
}

fn suggested(known: &[String], name: &str) -> Vec<String> {
    let found = in_folders(known, name);
    if !found.is_empty() {
        return found;
    }
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(found) = closest(name, &names) {
        return vec![found.to_owned()];
    }
    let own: Vec<&str> = names.iter().filter_map(|it| Some(it.rsplit_once(':')?.1)).collect();
    closest(name, &own).map(|own| in_folders(known, own)).unwrap_or_default()
}

/// Returns the names of commands in folders, such as `git:tidy`, whose last part is a name.
fn in_folders(known: &[String], name: &str) -> Vec<String> {
    let is_same = |it: &&String| it.rsplit_once(':').is_some_and(|(_, last)| last == name);
    known.iter().filter(is_same).cloned().collect()
}

impl Invocation<'_> {
    /// Makes a message of a skill or an agent, or returns the reason why it cannot be used.
    pub(crate) async fn message_of(
        &self,
        named: &Named,
        arguments: Arguments<'_>,
    ) -> Result<Invoked, String> {
        match named {
            Named::Skill(skill, scope) => Ok(self.invoke(skill, *scope, arguments).await),
            Named::Agent(name) => self.delegate(name, arguments).await,
        }
    }

    /// Makes a message of a skill: the line that the user typed, and the text of the skill. Its commands run as those of the user
    /// do, and its text names files, if it is the user's or the user trusts the project.
    pub(crate) async fn invoke(
        &self,
        skill: &Skill,
        scope: Option<SkillScope>,
        arguments: Arguments<'_>,
    ) -> Invoked {
        let line = format!("/{} {}", skill.name(), arguments.typed);
        let invoked = self.filled_in(skill, scope, arguments).await;
        let text = format!("{}\n\n{}", typed_command(line.trim_end()), invoked.text);
        Invoked { text, ..invoked }
    }

    /// Makes a message of the text of a skill.
    async fn filled_in(
        &self,
        skill: &Skill,
        scope: Option<SkillScope>,
        arguments: Arguments<'_>,
    ) -> Invoked {
        let Arguments { text: arguments, typed } = arguments;
        let llm = self.llm(skill);
        if skill.info.context == SkillContext::Fork && self.can_load(skill.name()).await {
            let text = forked(skill.name(), arguments);
            return Invoked { text, mentions: typed.to_owned(), llm, skill: None };
        }
        if skill.info.context == SkillContext::Fork {
            console::warn(&format!(
                "`/{}` runs in this conversation because the agent cannot load the skill",
                single_line(skill.name(), 64)
            ));
        }
        let name = Some(skill.name().to_owned());
        if scope == Some(SkillScope::Project) && !self.is_trusted() {
            if !skill.commands().is_empty() {
                console::warn(&format!(
                    "the commands in `/{}` do not run; to allow them, run `loopwright trust`",
                    single_line(skill.name(), 64)
                ));
            }
            let text = skill.render(Some(arguments));
            return Invoked { text, mentions: typed.to_owned(), llm, skill: name };
        }
        let own = skill.render_with(Some(arguments), []);
        let named = own.split_whitespace().filter(|it| self.may_name(it)).map(str::to_owned);
        let mentions: Vec<String> = named.chain([typed.to_owned()]).collect();
        let mut outputs = Vec::new();
        for command in skill.commands() {
            outputs.push(self.run(&command).await);
        }
        let text = skill.render_with(Some(arguments), outputs);
        Invoked { text, mentions: mentions.join(" "), llm, skill: name }
    }

    fn is_trusted(&self) -> bool {
        ProjectSettings::find(self.config, self.sources).is_ok_and(|it| it.is_trusted())
    }

    /// Returns `true` if a word of a skill names a file that rules do not deny.
    fn may_name(&self, word: &str) -> bool {
        let Some(path) = word.strip_prefix('@') else { return false };
        let (root, permissions) = (&self.setup.workdir, self.setup.permissions.shared());
        // A sentence may end behind a path, and a link leads elsewhere: rules apply to its name and its target.
        let is_allowed = |path: &str| {
            let real = root.resolve(path).unwrap_or_else(|_| path.to_owned());
            [path, &real]
                .iter()
                .all(|it| permissions.denied(FileUse::Read, None, &root.path().join(it)).is_none())
        };
        is_allowed(path) && is_allowed(path.trim_end_matches(ENDS))
    }

    /// Returns `true` if the agent can load a skill of this name: it has the skill and the tool, and no rule denies the call.
    async fn can_load(&self, name: &str) -> bool {
        let defined = self.setup.defined();
        let has = |skills: &SkillLibrary| skills.contains(name);
        if !defined.is_some_and(|it| has(&it.skills)) {
            return false;
        }
        let Ok(agent) = self.setup.build(NoopListener) else { return false };
        let arguments = json!({ "skill_name": name });
        let Some(tool) = agent.tools().get(LOAD_SKILL) else { return false };
        let started = tool.starts(&arguments).await;
        self.is_allowed(LOAD_SKILL, &arguments, started.as_ref())
    }

    /// Returns `true` if no rule denies a call that starts this agent.
    fn is_allowed(&self, tool: &str, arguments: &Value, started: Option<&StartedAgent>) -> bool {
        let mut call = Call::new(tool, arguments).read_only();
        if let Some(agent) = started {
            let skills = agent.skills.iter().map(|skill| &**skill);
            call = call.starting_agent(&agent.name).preloading_skills(skills);
        }
        self.setup.permissions.policy().decide(&call).decision != Decision::Deny
    }

    /// Makes a message that delegates a task to the sub-agent of a line `/NAME TASK`.
    ///
    /// # Errors
    ///
    /// Returns the reason if the task is missing, or the agent cannot start the sub-agent.
    pub(crate) async fn delegate(
        &self,
        name: &str,
        task: Arguments<'_>,
    ) -> Result<Invoked, String> {
        if task.text.is_empty() {
            return Err(format!("`/{name}` is an agent; write its task after the name"));
        }
        let arguments = json!({ "subagent": name, "prompt": task.text });
        let agent = self.setup.build(NoopListener).map_err(|error| error.to_string())?;
        let started = match agent.tools().get(SPAWN) {
            Some(tool) => tool.starts(&arguments).await,
            None => None,
        };
        let is_allowed = |it: &StartedAgent| self.is_allowed(SPAWN, &arguments, Some(it));
        if !started.as_ref().is_some_and(is_allowed) {
            return Err(format!("the agent of this run cannot start agent `{name}`"));
        }
        let line = typed_command(format!("/{name} {}", task.typed).trim_end());
        let text = format!("{line}\n\n{}", delegated(name, task.text));
        Ok(Invoked { text, mentions: task.typed.to_owned(), llm: None, skill: None })
    }

    /// Runs a command of a skill, unless a rule denies it.
    async fn run(&self, command: &str) -> String {
        let arguments = json!({ "command": command });
        let verdict = self.setup.permissions.policy().decide(&Call::new("bash", &arguments));
        if verdict.decision == Decision::Deny {
            return format!("[error: `{command}` was not run: a permission rule denies it]");
        }
        match user_command::run(self.setup, self.session, command, self.cancel).await {
            Ok(output) if output.exit_code == 0 => output.text,
            Ok(output) => format!("[error: `{command}` failed: {}]", output.text),
            Err(error) => format!("[error: `{command}` was not run: {error}]"),
        }
    }

    /// Returns the model of the turn with the effort, if the skill names one of them.
    fn llm(&self, skill: &Skill) -> Option<LlmConfig> {
        let model = self.model(skill);
        if skill.info.effort.is_none() {
            return model;
        }
        let mut llm = model.unwrap_or_else(|| self.setup.llm.clone());
        llm.options.reasoning_effort = skill.info.effort;
        Some(llm)
    }

    /// Returns the model of the skill, if it names one that is known.
    fn model(&self, skill: &Skill) -> Option<LlmConfig> {
        let name = skill.info.model.as_deref()?.trim();
        let providers = model::providers(self.config, self.sources).ok()?;
        let aliases = model::aliases(self.config, &providers);
        let name = aliases.get(name).map_or(name, String::as_str);
        if name.is_empty() || name == "inherit" {
            return None;
        }
        let named = LlmConfig::named(name);
        let own = &self.setup.llm;
        let llm = LlmConfig {
            provider: named.provider.or_else(|| own.provider.clone()),
            options: own.options.clone(),
            ..named
        };
        match self.setup.models.resolve(Some(&llm)) {
            Ok(_) => Some(llm),
            Err(error) => {
                console::warn(&format!(
                    "the model `{}` of `/{}` is not available: {error}",
                    single_line(name, 64),
                    single_line(skill.name(), 64)
                ));
                None
            }
        }
    }
}

/// Asks the agent to carry a skill out in a conversation of its own.
fn forked(name: &str, arguments: &str) -> String {
    let arguments = match arguments {
        "" => String::new(),
        arguments => format!(" and these arguments: {arguments}"),
    };
    format!("Call `{LOAD_SKILL}` with the skill `{name}`{arguments}\n\nThen report its result.")
}

/// Asks the agent to start a sub-agent.
fn delegated(name: &str, task: &str) -> String {
    format!(
        "Call `{SPAWN}` with the sub-agent `{name}` and this prompt: {task}\n\nThen report its result."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_none_has_suggests_commands_in_folders_or_else_the_closest_name() {
        let suggested = |name: &str| {
            super::suggested(
                &["git:tidy", "db:tidy", "git:push", "review"].map(str::to_owned),
                name,
            )
        };
        assert_eq!(suggested("tidy"), ["git:tidy", "db:tidy"]);
        assert_eq!(suggested("push"), ["git:push"]);
        assert_eq!(suggested("reveiw"), ["review"]);
        assert_eq!(suggested("zzz"), Vec::<String>::new());
    }

    #[test]
    fn a_line_may_name_a_skill() {
        let cases = [
            ("/review", Some(("review", ""))),
            ("/git:push  to main ", Some(("git:push", "to main"))),
            ("/etc/passwd is what?", None),
            ("/ is a slash", None),
            ("review", None),
        ];
        for (line, expect) in cases {
            assert_eq!(named(line), expect, "{line}");
        }
    }
}
