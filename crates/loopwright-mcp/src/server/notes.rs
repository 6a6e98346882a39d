//! Progress and log messages of a call in progress.

use std::pin::pin;

use futures_util::future::join;
use loopwright_core::{AgentEvent, AgentState, EventEnvelope, EventSinks};
use rmcp::RoleServer;
use rmcp::model::{
    CustomNotification, ProgressNotificationParam, ProgressToken, ServerNotification,
};
use rmcp::service::RequestContext;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::event::{McpLogLevel, McpProgress, McpToolLog};

/// The method of log messages.
const LOG: &str = "notifications/message";

enum Note {
    Progress(McpProgress),
    Log(McpToolLog),
    End,
}

/// Passes on what a call reports.
pub(super) struct Notes {
    sender: UnboundedSender<Note>,
    receiver: UnboundedReceiver<Note>,
    token: Option<ProgressToken>,
    level: Option<McpLogLevel>,
}

impl Notes {
    /// Passes on progress if the client wants to hear of it, and log messages of this level or above.
    pub(super) fn new(context: &RequestContext<RoleServer>, level: Option<McpLogLevel>) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self { sender, receiver, token: context.meta.get_progress_token(), level }
    }

    /// Returns what listens to the call.
    pub(super) fn sinks(&self) -> EventSinks {
        let mut sinks = EventSinks::default();
        let (has_token, level) = (self.token.is_some(), self.level);
        if !has_token && level.is_none() {
            return sinks;
        }
        let sender = self.sender.clone();
        sinks.wiretap(move |envelope: &EventEnvelope| {
            let AgentEvent::Custom(event) = &envelope.event else { return };
            let note = if let Some(progress) = event.get::<McpProgress>().filter(|_| has_token) {
                Note::Progress(progress.clone())
            } else if let Some(log) = event.get::<McpToolLog>()
                && level.is_some_and(|least| least <= log.level)
            {
                Note::Log(log.clone())
            } else {
                return;
            };
            // The receiver outlives the call.
            sender.send(note).ok();
        });
        sinks
    }

    /// Runs a call, and passes on what it reports before its end.
    pub(super) async fn during(
        &mut self,
        context: &RequestContext<RoleServer>,
        call: impl Future<Output = AgentState>,
    ) -> AgentState {
        if self.token.is_none() && self.level.is_none() {
            return call.await;
        }
        let sender = self.sender.clone();
        let call = pin!(async move {
            let state = call.await;
            sender.send(Note::End).ok();
            state
        });
        let (receiver, token) = (&mut self.receiver, self.token.as_ref());
        let passing = async move {
            while let Some(note) = receiver.recv().await {
                let sent = match note {
                    Note::End => return,
                    Note::Progress(progress) => {
                        let Some(token) = token else { continue };
                        let mut told =
                            ProgressNotificationParam::new(token.clone(), progress.progress);
                        told.total = progress.total;
                        told.message = progress.message;
                        context.peer.notify_progress(told).await
                    }
                    Note::Log(log) => {
                        let told = CustomNotification::new(LOG, serde_json::to_value(log).ok());
                        context
                            .peer
                            .send_notification(ServerNotification::CustomNotification(told))
                            .await
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
        };
        let passing = async {
            tokio::select! {
                () = passing => (),
                // A client that reads nothing any more holds up no call that has ended.
                () = context.ct.cancelled() => (),
            }
        };
        join(call, passing).await.0
    }
}

/// Reads a level in the form of the protocol.
pub(super) fn level(wire: impl Serialize) -> Option<McpLogLevel> {
    serde_json::from_value(serde_json::to_value(wire).ok()?).ok()
}
