//! `/compact`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::{Either, select};
use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_capabilities::compaction::{SPILL_DIR, UseCompaction};
use loopwright_core::{
    AgentLoop, EventSinks, ExecutionStatus, LlmConfig, RunOptions, events::ConversationCompacted,
};
use loopwright_sessions::{ActionCx, AgentSession, SessionAction, SessionError};

use crate::agent::Setup;
use crate::conversation::Conversation;
use crate::ending::Interruption;
use crate::loops::maintenance_runtime;
use crate::render::{UiSender, count, number, sanitize_terminal};
use crate::sessions::SessionsError;
use crate::signals::{CancelSwitch, Signals};

const NOT_COMPACTED: &str = "the conversation was not compacted";

/// What came of it, and what the user pressed meanwhile.
pub(super) struct Compacted {
    pub(super) told: Result<String, SessionsError>,
    pub(super) interruption: Option<Interruption>,
}

/// Makes the conversation short, and says what that saved. A signal gives it up.
pub(super) async fn compact(
    conversation: &Conversation,
    signals: Option<&mut Signals>,
) -> Compacted {
    let brake = CancelSwitch::new();
    // Nothing is shown meanwhile but what comes of it.
    let (feed, _silent) = UiSender::new();
    let work = pin!(perform(conversation, &brake));
    let told = match signals {
        None => work.await,
        Some(signals) => match select(work, pin!(signals.watch(&brake, &feed))).await {
            Either::Left((told, _)) => told,
            Either::Right((never, _)) => match never {},
        },
    };
    Compacted { told, interruption: brake.why() }
}

async fn perform(
    conversation: &Conversation,
    brake: &CancelSwitch,
) -> Result<String, SessionsError> {
    let Some(id) = &conversation.session else { return Err(super::nothing_said()) };
    let action = Compact::of(&conversation.setup)?;
    let session =
        maintenance_runtime(&conversation.store).execute_until(id, &action, brake.token()).await?;
    if let ExecutionStatus::Failed(failure) = session.state().status() {
        return Ok(format!("{NOT_COMPACTED}: {}", sanitize_terminal(failure.message())));
    }
    let told = action.told.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(told.map_or_else(|| NOT_COMPACTED.to_owned(), |it| compacted(&it)))
}

/// Runs an agent that compacts and does nothing else.
struct Compact {
    agent: AgentLoop,
    llm: LlmConfig,
    told: Arc<Mutex<Option<ConversationCompacted>>>,
}

impl Compact {
    fn of(setup: &Setup) -> Result<Self, SessionsError> {
        let agent = AgentBuilder::base()
            .with_capability(
                UseLlmConfig::from_models(Arc::clone(&setup.models)).with_llm(setup.llm.clone()),
            )
            .with_capability(UseCompaction::now().with_spill_dir(setup.workdir.clone()))
            .build()
            .map_err(|error| SessionsError::from(SessionError::from(error)))?;
        Ok(Self { agent, llm: setup.llm.clone(), told: Arc::default() })
    }
}

#[async_trait]
impl SessionAction for Compact {
    fn name(&self) -> Cow<'static, str> {
        "compact".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        session.require_active()?;
        if session.state().is_interrupted() {
            let text = "the last run was interrupted: /continue or say something first";
            return Err(SessionError::Action(SessionsError::Usage(text.to_owned()).into()));
        }
        let mut state = session.state().clone();
        if state.llm() != Some(&self.llm) {
            state = state.with_llm(self.llm.clone());
        }
        let (told, mut sinks) = (Arc::clone(&self.told), EventSinks::default());
        sinks.on_event(move |event: &ConversationCompacted, _| {
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(event.clone());
        });
        let options = RunOptions {
            env: cx.env.clone(),
            journal: Some(Arc::clone(&cx.journal)),
            sinks,
            cancel: cx.cancel.clone(),
            on_interrupted: cx.interrupted,
            ..RunOptions::default()
        };
        let state = cx.wishes.drive(self.agent.start(state, options)).await;
        Ok(session.with_state(state))
    }
}

/// Describes what a compaction saved, and what it could not do.
pub(crate) fn compacted(told: &ConversationCompacted) -> String {
    let (before, after) = (told.before, told.after);
    let mut text = if before == after {
        let is_done = told.problems.is_empty();
        let nothing = if is_done { "nothing to compact" } else { NOT_COMPACTED };
        nothing.to_owned()
    } else {
        let (turns, left) = (count(before.turns as u64, "message"), number(after.turns as u64));
        let (tokens, saved) = (number(before.tokens), number(after.tokens));
        format!("compacted: {turns} to {left}, about {tokens} tokens to {saved}")
    };
    if !told.files.is_empty() {
        let outputs = count(told.files.len() as u64, "output");
        // Writing to a string does not fail.
        let _written = write!(text, "; {outputs} of tools moved to {SPILL_DIR}");
    }
    for problem in &told.problems {
        let _written = write!(text, "\n  {}", sanitize_terminal(problem));
    }
    text
}

#[cfg(test)]
mod tests {
    use loopwright_core::events::TranscriptSize;

    use super::*;

    #[test]
    fn what_was_saved_is_said_in_a_line_and_what_could_not_be_done_below_it() {
        let volume = |turns, tokens| TranscriptSize { turns, tokens };
        let mut told = ConversationCompacted::new(volume(34, 12_400), volume(5, 1830));
        told.files.push("a".to_owned());
        let saved = "compacted: 34 messages to 5, about 12,400 tokens to 1,830";
        assert_eq!(compacted(&told), format!("{saved}; 1 output of tools moved to .tool-outputs"));
        let mut told = ConversationCompacted::new(volume(4, 10), volume(4, 10));
        assert_eq!(compacted(&told), "nothing to compact");
        told.problems.push("the model is\x1b[31m down".to_owned());
        assert_eq!(
            compacted(&told),
            "the conversation was not compacted\n  the model is\u{fffd}[31m down"
        );
    }
}
