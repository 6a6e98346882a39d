//! `/NAME ARGUMENTS` for skills, commands and agents.

use std::pin::pin;

use tokio_util::sync::CancellationToken;

use super::command::NamedSkill;
use super::view::unknown_skill;
use super::{ChatSession, Said};
use crate::console;
use crate::exit::ExitCode;
use crate::input::Input;
use crate::signals::until_signal;
use crate::user_skill::{self, Arguments, Invocation, Invoked};

impl ChatSession<'_> {
    /// Uses a skill, or delegates to an agent. If none has that name and the line may be text, it is sent as a message.
    pub(super) async fn use_skill(
        &mut self,
        named: NamedSkill,
        input: &mut Input,
    ) -> Option<ExitCode> {
        let invoked = match self.invoked(&named).await {
            Some(Ok(invoked)) => invoked,
            Some(Err(reason)) => {
                console::warn(&reason);
                return None;
            }
            None if named.is_command() => {
                let defined = self.place.defined();
                let meant = defined.map(|it| user_skill::suggestions(&it, &named.name));
                console::tell(&unknown_skill(&named.line, &meant.unwrap_or_default()));
                return None;
            }
            None => return self.use_prompt(named, input).await,
        };
        let usual = self.conversation.setup.llm.clone();
        let (config, sources) = (&self.place.config, &self.place.sources);
        if let Some(llm) = invoked.llm {
            self.conversation.setup.use_model(llm, config, sources);
        }
        let Invoked { text, mentions: typed, skill, .. } = invoked;
        let ends = self.say(Some(Said { text, typed, skill }), input).await;
        self.conversation.setup.use_model(usual, &self.place.config, &self.place.sources);
        ends
    }

    /// Makes a message of the skill or the agent that a line names, or returns the reason why it cannot be used. A signal ends
    /// the commands of a skill.
    async fn invoked(&mut self, named: &NamedSkill) -> Option<Result<Invoked, String>> {
        let defined = self.place.defined()?;
        let found = user_skill::find(&defined, &named.name)?;
        let cancel = CancellationToken::new();
        let conversation = &self.conversation;
        let invocation = Invocation {
            setup: &conversation.setup,
            config: &self.place.config,
            sources: &self.place.sources,
            session: conversation.session.as_ref().map(|id| (&conversation.store, id)),
            cancel: &cancel,
        };
        let arguments = Arguments { text: &named.arguments, typed: &named.arguments };
        let invoked = pin!(invocation.message_of(&found, arguments));
        Some(until_signal(self.signals.as_mut(), &cancel, invoked).await)
    }
}
