//! Switching a conversation to another session.

use std::sync::Arc;

use loopwright_sessions::SessionId;

use super::{StartError, Started, Startup, load};
use crate::args::session::ResumeArgs;
use crate::args::{ChatArgs, Cli};
use crate::config::Loaded;
use crate::conversation::Conversation;

impl Startup {
    /// Sets up a session as `--resume` does, in the store of a conversation: with the session's own agent and model, and with
    /// the permission mode and rules that are configured for it. An agent, a model or a system prompt that was typed is
    /// for the session it was typed for. Warnings about the configuration are not told again.
    ///
    /// # Errors
    ///
    /// Returns an error if the session or its model cannot be used. The conversation stays as it is.
    pub(crate) async fn switch(
        cli: &Cli,
        args: &ChatArgs,
        from: &Conversation,
        id: SessionId,
    ) -> Result<(Self, Conversation), StartError> {
        let (mut agent, mut typed) = (args.agent.clone(), args.session.clone());
        (agent.definition, agent.model, agent.system_prompt) = (None, None, None);
        typed.origin = ResumeArgs { resume: Some(id), ..ResumeArgs::default() };
        let (sources, Loaded { config, .. }) = load(cli, &agent, &typed, None)?;
        let stage = super::RunDisplay::new(config.output_format.value, agent.surroundings.quiet);
        let mut opening = Self { sources, config, stage, applied: None };
        let started =
            Started { new: None, store: Arc::clone(&from.store), name: from.command.name };
        let mut conversation = Box::pin(opening.converse(cli, &agent, &typed, started)).await?;
        conversation.attend(from.is_attended);
        conversation.setup.commands.take_over(&from.setup.commands);
        Ok((opening, conversation))
    }
}
