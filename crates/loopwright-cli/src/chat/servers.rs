//! Resources and prompts of servers of the Model Context Protocol in a chat.

use std::pin::pin;

use futures::future::{Either, select};

use super::command::NamedSkill;
use super::{ChatSession, Said};
use crate::console;
use crate::conversation::UserInput;
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::input::Input;
use crate::mcp_mentions::{self, Attachments};
use crate::render::sanitize_terminal;
use crate::signals::exit_code;
use crate::typed_text::typed_command;

impl ChatSession<'_> {
    /// Uses a prompt of a server, or sends the line as a message if there is no such server.
    pub(super) async fn use_prompt(
        &mut self,
        named: NamedSkill,
        input: &mut Input,
    ) -> Option<ExitCode> {
        let servers = self.conversation.setup.mcp.clone();
        let prompt = mcp_mentions::prompt(&named.name, &named.arguments, &servers);
        match self.unless_signalled(prompt).await {
            Ok(Some(Ok(prompt))) => {
                // The text comes from the server, so files that it names are not attached.
                let mut printed = std::mem::take(&mut self.printed);
                printed.extend([typed_command(&named.line), String::new()]);
                let message = Some(prompt.to_message(&printed.join("\n\n")));
                self.send(UserInput { message, ..UserInput::default() }, input).await
            }
            Ok(Some(Err(reason))) => {
                console::warn(&sanitize_terminal(&reason));
                None
            }
            Ok(None) => self.say(Some(Said::typed(named.line)), input).await,
            Err(ends) => ends,
        }
    }

    /// Reads the server resources that a text of the user names.
    pub(super) async fn attached(&mut self, typed: &str) -> Result<Attachments, Option<ExitCode>> {
        let servers = self.conversation.setup.mcp.clone();
        let attached = self.unless_signalled(mcp_mentions::attach(typed, &servers)).await?;
        if !attached.resources.is_empty() {
            console::tell(&format!("attached: {}", attached.resources.join(", ")));
        }
        for note in &attached.notes {
            console::warn(&sanitize_terminal(note));
        }
        Ok(attached)
    }

    /// Waits for servers. Returns `Err` with the exit status, if any, when the user interrupts the wait.
    async fn unless_signalled<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Option<ExitCode>> {
        let Some(signals) = self.signals.as_mut() else { return Ok(work.await) };
        match select(pin!(work), pin!(signals.next())).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right((Interruption::Interrupt, _)) => {
                console::tell("interrupted; nothing was sent");
                Err(None)
            }
            Either::Right((reason, _)) => Err(Some(exit_code(reason))),
        }
    }
}
