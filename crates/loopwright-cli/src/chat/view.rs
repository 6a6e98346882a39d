//! Commands that only show something: at the prompt, and while the agent works.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::Definitions as _;
use loopwright_capabilities::skills::SkillAudience;
use loopwright_core::AgentState;
use loopwright_sessions::{AgentSession, SessionError, SessionId, SessionStore, StoreError};

use super::command::{ChatCommand, NamedSkill};
use super::place::Place;
use super::{context, diff, help};
use crate::agent::Setup;
use crate::console;
use crate::definitions::Defined;
use crate::input::Pastes;
use crate::loops::maintenance_runtime;
use crate::mcp;
use crate::mcp_mentions;
use crate::mentions;
use crate::mode_change::change_mode;
use crate::model::effort_name;
use crate::render::{UiSender, sanitize_terminal, single_line};
use crate::session::SessionsError;
use crate::startup::NoopListener;
use crate::steering::{LiveLine, LiveLines};
use crate::table::table;
use crate::untrusted::REVIEW_IN_CHAT;
use crate::user_skill;

/// What the commands show. It changes nothing.
pub(super) struct View {
    pub(super) setup: Setup,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) place: Place,
    /// What was pasted in the chat.
    pub(super) pastes: Pastes,
}

impl View {
    /// Returns the output of a command, in a session if there is one. `None` means that the command does more than to show
    /// something.
    pub(super) async fn show(
        &self,
        command: &ChatCommand,
        session: Option<&SessionId>,
    ) -> Option<Result<String, SessionsError>> {
        let setup = &self.setup;
        Some(match command {
            ChatCommand::Help => Ok(help::help()),
            ChatCommand::Unknown(word) => Ok(unknown(word)),
            ChatCommand::Diff => self.diff(session).await,
            ChatCommand::Context => self.context(session).await,
            ChatCommand::Cost => self.cost(session).await,
            ChatCommand::Thinking => self.state(session).await.map(|it| context::reasoning(&it)),
            ChatCommand::Agents => Ok(self.agents()),
            ChatCommand::Skills => Ok(self.skills()),
            ChatCommand::Mode(None) => Ok(format!("mode {}", setup.mode())),
            ChatCommand::AddDir(folder) if folder.is_empty() => Ok(self.folders()),
            ChatCommand::Tasks(command) => Ok(command.run(&setup.commands.tasks)),
            ChatCommand::Mcp => Ok(mcp::status(&setup.mcp)),
            ChatCommand::Permissions => Ok(self.permissions()),
            ChatCommand::Hooks => Ok(self.hooks()),
            ChatCommand::Model(None) => Ok(sanitize_terminal(&setup.model())),
            ChatCommand::Effort(None) => Ok(effort(setup)),
            ChatCommand::UnknownEffort(level) => Err(SessionsError::Usage(format!(
                "unknown effort `{}`; available: minimal, low, medium, high, default",
                single_line(level, 40)
            ))),
            _ => return None,
        })
    }

    async fn state(&self, session: Option<&SessionId>) -> Result<AgentState, SessionsError> {
        let Some(id) = session else { return Err(SessionsError::NoMessages) };
        let session = maintenance_runtime(&self.store).session(id).await?;
        Ok(session.state().clone())
    }

    async fn cost(&self, session: Option<&SessionId>) -> Result<String, SessionsError> {
        let Some(id) = session else { return Err(SessionsError::NoMessages) };
        let loaded = self.store.load(id).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let changes = loaded.changes.clone();
        let session = AgentSession::from_loaded(loaded)?;
        Ok(context::cost(session.state(), &changes))
    }

    async fn context(&self, session: Option<&SessionId>) -> Result<String, SessionsError> {
        let state = match session {
            Some(_) => self.state(session).await?,
            None => AgentState::new(),
        };
        let agent = self.setup.build(NoopListener).map_err(SessionError::from)?;
        Ok(context::context(&agent, &state, self.setup.context_window))
    }

    async fn diff(&self, session: Option<&SessionId>) -> Result<String, SessionsError> {
        let Some(id) = session else { return Err(SessionsError::NoMessages) };
        diff::diff(&maintenance_runtime(&self.store), id, &self.setup.workdir).await
    }

    fn agents(&self) -> String {
        let all = self.place.defined().map(|it| it.agents.all()).unwrap_or_default();
        let rows = all.iter().map(|it| (it.name.as_str(), it.description.as_str()));
        list(rows.collect(), "no agents are defined; create one: loopwright agents new NAME")
    }

    fn skills(&self) -> String {
        let all = self.place.defined().map(|it| it.skills.list(SkillAudience::Users));
        let all = all.unwrap_or_default();
        let rows = all.iter().map(|it| (it.name(), it.info.description.as_str()));
        list(rows.collect(), "no skills found; create one as .agents/skills/NAME/SKILL.md")
    }

    fn folders(&self) -> String {
        let workdir = &self.setup.workdir;
        let folders = std::iter::once(workdir.path()).chain(workdir.folders());
        lines(folders.map(|it| it.display().to_string()))
    }

    /// Lists the mode and the rules, which are read again if their files have changed.
    fn permissions(&self) -> String {
        match self.setup.permissions.reload(REVIEW_IN_CHAT) {
            Ok(reloaded) => reloaded.tell(),
            Err(error) => console::warn(&console::chain(&error)),
        }
        let policy = self.setup.permissions.policy();
        let rules = policy.rules().map(ToString::to_string);
        lines(std::iter::once(format!("mode {}", policy.mode())).chain(rules))
    }

    fn hooks(&self) -> String {
        let hooks = lines(self.setup.all_hooks().map(ToString::to_string));
        if hooks.is_empty() { "no hooks".to_owned() } else { hooks }
    }

    /// Returns the meaning of a line that may name a skill, an agent, or a prompt of a server.
    fn named(&self, named: &NamedSkill) -> LiveLine {
        let is_known = |it: Defined| user_skill::find(&it, &named.name).is_some();
        if named.name.contains(':') || self.place.defined().is_some_and(is_known) {
            return LiveLine::Queued;
        }
        if named.is_command() {
            return LiveLine::Shown(unknown(&named.line));
        }
        LiveLine::text(&named.line)
    }

    /// Makes a message with the files and resources that a line names.
    async fn message(&self, text: &str) -> LiveLine {
        let mut attached = mcp_mentions::attach(text, &self.setup.mcp).await;
        let named = mentions::attach(text, text, &self.setup.workdir);
        let attachments: Vec<&str> =
            attached.resources.iter().chain(&named.files).map(String::as_str).collect();
        let shown =
            (!attachments.is_empty()).then(|| format!("attached: {}", attachments.join(", ")));
        let pasted = self.pastes.media(text);
        let mut warnings = attached.notes.clone();
        warnings.extend(named.notes);
        warnings.extend(pasted.warnings());
        for part in pasted.parts.into_iter().chain(named.media) {
            attached.attach(part);
        }
        warnings.extend(self.setup.unseen(attached.media()));
        let warnings = warnings.iter().map(|it| sanitize_terminal(&format!("warning: {it}")));
        let notes = shown.into_iter().chain(warnings).collect();
        LiveLine::Message { message: attached.to_message(&named.text), notes }
    }
}

#[async_trait(?Send)]
impl LiveLines for View {
    async fn read(&self, line: &str, session: &SessionId, feed: &UiSender) -> LiveLine {
        let command = ChatCommand::of(line);
        match &command {
            ChatCommand::Say(text) => return self.message(text).await,
            ChatCommand::Use(named) => return self.named(named),
            ChatCommand::Mode(Some(name)) => {
                let changed = change_mode(&self.setup.permissions, name, |event| feed.tell(event));
                return LiveLine::Shown(match changed {
                    Ok(mode) => format!("mode {mode}"),
                    Err(error) => sanitize_terminal(&format!("error: {error}")),
                });
            }
            _ => {}
        }
        match self.show(&command, Some(session)).await {
            Some(Ok(told)) => LiveLine::Shown(told),
            Some(Err(error @ SessionsError::NoMessages)) => LiveLine::Shown(error.to_string()),
            Some(Err(error)) => LiveLine::Shown(sanitize_terminal(&format!("error: {error}"))),
            None => LiveLine::Queued,
        }
    }
}

/// Returns how much the model reasons.
pub(super) fn effort(setup: &Setup) -> String {
    format!("effort {}", effort_name(setup.llm.options.reasoning_effort))
}

/// Returns what is said about a command that does not exist.
pub(super) fn unknown(word: &str) -> String {
    if word == "!" {
        return "the command is missing; type !COMMAND".to_owned();
    }
    let word = sanitize_terminal(word);
    format!("unknown command {word}; /help lists the commands")
}

/// The same for a command that may be a skill whose name is another one.
pub(super) fn unknown_skill(word: &str, meant: &[String]) -> String {
    if meant.is_empty() {
        return unknown(word);
    }
    let word = sanitize_terminal(word);
    let meant: Vec<String> = meant.iter().map(|it| format!("/{}", single_line(it, 64))).collect();
    format!("unknown command {word}; did you mean {}?", meant.join(" or "))
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.map(|it| sanitize_terminal(&it)).collect::<Vec<_>>().join("\n")
}

/// Returns names with descriptions, or a hint if there are none.
fn list(rows: Vec<(&str, &str)>, none: &str) -> String {
    if rows.is_empty() {
        return none.to_owned();
    }
    let rows =
        rows.into_iter().map(|(name, about)| vec![single_line(name, 64), single_line(about, 80)]);
    table(&rows.collect::<Vec<_>>()).trim_end().to_owned()
}
