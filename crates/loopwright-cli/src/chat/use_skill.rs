//! `/NAME ARGUMENTS` for skills and commands.

use std::pin::pin;

use tokio_util::sync::CancellationToken;

use super::command::NamedSkill;
use super::view::unknown;
use super::{ChatSession, Said};
use crate::console;
use crate::exit::ExitCode;
use crate::input::Input;
use crate::signals::until_signal;
use crate::user_skill::{self, Arguments, Invocation, Invoked};

impl ChatSession<'_> {
    /// Uses a skill, or sends the line as a message if no skill has that name and the line may be text.
    pub(super) async fn use_skill(
        &mut self,
        named: NamedSkill,
        input: &mut Input,
    ) -> Option<ExitCode> {
        let Some(invoked) = self.invoked(&named).await else {
            if named.is_command() {
                console::tell(&unknown(&named.line));
                return None;
            }
            return self.use_prompt(named, input).await;
        };
        let usual = self.conversation.setup.llm.clone();
        if let Some(llm) = invoked.llm {
            self.conversation.setup.llm = llm;
        }
        let Invoked { text, mentions: typed, skill, .. } = invoked;
        let ends = self.say(Some(Said { text, typed, skill }), input).await;
        self.conversation.setup.llm = usual;
        ends
    }

    /// Makes a message of the skill that a line names. A signal ends its commands.
    async fn invoked(&mut self, named: &NamedSkill) -> Option<Invoked> {
        let (skill, scope) = user_skill::find(&self.place.defined()?, &named.name)?;
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
        let invoked = pin!(invocation.invoke(&skill, scope, arguments));
        Some(until_signal(self.signals.as_mut(), &cancel, invoked).await)
    }
}
