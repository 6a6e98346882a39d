//! A turn of a conversation while it runs.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures::{FutureExt as _, Stream, future::BoxFuture};
use loopwright_core::{
    AgentEvent, EventEnvelope, EventSink, Reply, StreamFragment, messages::AgentId,
};

use super::{Chat, ChatError};
use crate::{action::SessionAction, actions::SendMessage};

/// A turn that runs while it is polled: fragments of the answer, events, and finally the reply.
///
/// The turn starts at the first poll. Dropping the stream stops the turn at once: the model call
/// and running tools are aborted, and the session keeps all recorded steps. The next turn of the
/// conversation resumes the execution and answers both questions.
#[must_use = "a turn does nothing until it is polled"]
pub struct ChatStream<'a> {
    /// `None` once the turn has ended.
    turn: Option<BoxFuture<'a, Result<Reply, ChatError>>>,
    /// How the turn ended, as long as updates before it were not taken.
    ended: Option<Result<Reply, ChatError>>,
    updates: Arc<Updates>,
}

/// An update of a turn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChatUpdate {
    /// A fragment of the answer, or of other text that the model writes. Models that do not stream
    /// send none.
    Text(String),
    /// Any other event, including those of sub-agents.
    Event(Box<EventEnvelope>),
    /// The reply, durable. The last update.
    Reply(Box<Reply>),
}

#[derive(Default)]
struct Updates(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<ChatUpdate>,
    /// The agent of the session. Its events come first.
    agent: Option<AgentId>,
}

impl EventSink for Updates {
    fn emit(&self, envelope: &EventEnvelope) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = *queue.agent.get_or_insert_with(|| envelope.agent.clone()) == envelope.agent;
        queue.waiting.push_back(match &envelope.event {
            AgentEvent::StreamDelta(it) if is_own && !it.aside => match &it.delta {
                StreamFragment::Text(text) => ChatUpdate::Text(text.clone()),
                _ => ChatUpdate::Event(Box::new(envelope.clone())),
            },
            _ => ChatUpdate::Event(Box::new(envelope.clone())),
        });
    }
}

impl Updates {
    fn pop(&self) -> Option<ChatUpdate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }
}

impl Chat {
    /// Sends a question to the agent, and yields the answer while the model writes it. An
    /// interrupted execution resumes first.
    ///
    /// ```
    /// use loopwright_sessions::{Chat, ChatError, ChatUpdate};
    ///
    /// # async fn one_turn(chat: &mut Chat) -> Result<(), ChatError> {
    /// let mut turn = chat.stream("What is Piran?");
    /// while let Some(update) = turn.next().await {
    ///     match update? {
    ///         ChatUpdate::Text(text) => print!("{text}"),
    ///         ChatUpdate::Reply(reply) => println!("\n{} tokens", reply.usage().total()),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The last item is the reply, or the error that [`ask`](Chat::ask) returns.
    pub fn stream(&mut self, text: impl Into<Arc<str>>) -> ChatStream<'_> {
        self.stream_action(SendMessage::text(text))
    }

    /// Runs an action that the agent answers, as [`stream`](Chat::stream) does, such as a
    /// [`DecideCall`](crate::DecideCall).
    pub fn stream_action<'a>(&'a mut self, action: impl SessionAction + 'a) -> ChatStream<'a> {
        let updates = Arc::<Updates>::default();
        let sink: Arc<dyn EventSink> = updates.clone();
        let turn = async move {
            let runtime = self.runtime.clone().with_event_sink(sink);
            let session = runtime.execute(&self.id, &action).await?;
            Ok((*session.state).try_into()?)
        };
        ChatStream { turn: Some(turn.boxed()), ended: None, updates }
    }
}

impl ChatStream<'_> {
    /// Waits for the next update; `None` after the reply or an error. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<ChatUpdate, ChatError>> {
        futures::StreamExt::next(self).await
    }

    /// Runs the turn to its end and returns the reply. Updates that were not taken are dropped.
    ///
    /// # Errors
    ///
    /// As for [`Chat::ask`]. Returns [`ChatError::Ended`] if [`next`](ChatStream::next) has
    /// returned the reply or an error.
    pub async fn reply(mut self) -> Result<Reply, ChatError> {
        match self.turn.take() {
            Some(turn) => turn.await,
            None => self.ended.take().unwrap_or(Err(ChatError::Ended)),
        }
    }
}

impl Stream for ChatStream<'_> {
    type Item = Result<ChatUpdate, ChatError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The turn advances only when its updates are taken.
        loop {
            if let Some(update) = self.updates.pop() {
                return Poll::Ready(Some(Ok(update)));
            }
            if let Some(ended) = self.ended.take() {
                return Poll::Ready(Some(ended.map(|reply| ChatUpdate::Reply(Box::new(reply)))));
            }
            let Some(turn) = &mut self.turn else { return Poll::Ready(None) };
            match turn.poll_unpin(cx) {
                Poll::Ready(ended) => (self.turn, self.ended) = (None, Some(ended)),
                Poll::Pending => {
                    let update = self.updates.pop();
                    return update.map_or(Poll::Pending, |it| Poll::Ready(Some(Ok(it))));
                }
            }
        }
    }
}

impl fmt::Debug for ChatStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatStream").field("has_ended", &self.turn.is_none()).finish()
    }
}
