//! `/compact`.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::{Either, select};
use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_capabilities::compaction::{ConversationCompacted, UseCompaction};
use loopwright_core::{AgentLoop, EventSinks, ExecutionStatus, LlmConfig, RunOptions};
use loopwright_sessions::{ActionCx, AgentSession, SessionAction, SessionError};

use crate::agent::Setup;
use crate::conversation::Conversation;
use crate::ending::Interruption;
use crate::loops::maintenance_runtime;
use crate::render::{NOT_COMPACTED, UiSender, compacted, sanitize_terminal};
use crate::session::SessionsError;
use crate::signals::{CancelSwitch, Signals};

/// The outcome of a compaction, and the user's input meanwhile.
pub(super) struct Compacted {
    pub(super) told: Result<String, SessionsError>,
    pub(super) interruption: Option<Interruption>,
}

/// Compacts the conversation, and reports the tokens saved. A signal cancels it.
pub(super) async fn compact(
    conversation: &Conversation,
    signals: Option<&mut Signals>,
) -> Compacted {
    let brake = CancelSwitch::new();
    // Only the outcome is shown.
    let (feed, _silent) = UiSender::new();
    let work = pin!(perform(conversation, &brake));
    let told = match signals {
        None => work.await,
        Some(signals) => match select(work, pin!(signals.watch(&brake, &feed))).await {
            Either::Left((told, _)) => told,
            Either::Right((never, _)) => match never {},
        },
    };
    Compacted { told, interruption: brake.reason() }
}

async fn perform(
    conversation: &Conversation,
    brake: &CancelSwitch,
) -> Result<String, SessionsError> {
    let Some(id) = &conversation.session else { return Err(SessionsError::NoMessages) };
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
            .with_capability(
                setup.gated(UseCompaction::now()).with_spill_dir(setup.workdir.clone()),
            )
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
            let text = "the last run was interrupted; first type /continue or send a message";
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
            on_ask: cx.on_ask,
            ..RunOptions::default()
        };
        let state = cx.supervisor.drive(self.agent.start(state, options)).await;
        Ok(session.with_state(state))
    }
}
