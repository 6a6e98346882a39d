//! Switching a conversation to another session.

use std::sync::Arc;

use loopwright_sessions::SessionId;

use super::{StartError, Started, Startup, load};
use crate::args::session::{ResumeArgs, SessionArgs};
use crate::args::{AgentArgs, ChatArgs, Cli};
use crate::config::Loaded;
use crate::conversation::Conversation;
use crate::snapshots::refuse_snapshots_of;
use crate::untrusted::REVIEW_IN_CHAT;

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
        // Before anything is decided or run in it.
        refuse_snapshots_of(&*from.store, &id).await?;
        let mut agent = args.agent.clone();
        (agent.definition, agent.model, agent.system_prompt) = (None, None, None);
        let typed = ResumeArgs { resume: Some(id), ..ResumeArgs::default() };
        let typed = args.session.with_origin(typed);
        Self::again(cli, &agent, &typed, from).await
    }

    /// Sets up the same conversation with the settings as they are now. What was chosen in the conversation stays: the model, and
    /// the permission mode if it was changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings cannot be used. The conversation stays as it is.
    pub(crate) async fn reload(
        cli: &Cli,
        args: &ChatArgs,
        from: &Conversation,
    ) -> Result<(Self, Conversation), StartError> {
        let (opening, mut conversation) = if let Some(id) = from.session.clone() {
            Self::switch(cli, args, from, id).await?
        } else {
            let typed = args.session.with_origin(ResumeArgs::default());
            Self::again(cli, &args.agent, &typed, from).await?
        };
        conversation.new_id.clone_from(&from.new_id);
        let setup = &mut conversation.setup;
        setup.llm.clone_from(&from.setup.llm);
        setup.context_window = from.setup.context_window;
        setup.capabilities.clone_from(&from.setup.capabilities);
        if let Some(mode) = from.setup.permissions.chosen_mode() {
            // A mode that the settings disable now stays disabled.
            setup.permissions.set_mode(mode).ok();
        }
        Ok((opening, conversation))
    }

    /// Sets up a conversation in the store of another one.
    async fn again(
        cli: &Cli,
        agent: &AgentArgs,
        typed: &SessionArgs,
        from: &Conversation,
    ) -> Result<(Self, Conversation), StartError> {
        let (sources, Loaded { config, .. }) = load(cli, agent, typed, None)?;
        let stage = super::RunDisplay::new(config.output_format.value, agent.surroundings.quiet);
        let review = REVIEW_IN_CHAT;
        let mut opening = Self { sources, config, stage, applied: None, review, tools: None };
        let started =
            Started { new: None, store: Arc::clone(&from.store), name: from.command.name };
        let mut conversation = Box::pin(opening.converse(cli, agent, typed, started)).await?;
        conversation.attend(from.is_attended);
        conversation.setup.commands.take_over(&from.setup.commands);
        Ok((opening, conversation))
    }
}
