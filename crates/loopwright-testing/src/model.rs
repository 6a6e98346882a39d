//! A model without a provider.

use std::{
    fmt,
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use async_trait::async_trait;
use loopwright_core::{
    ChatModel, Delta, DeltaSink, InferCx, ModelError, ModelErrorKind,
    messages::{Content, InferenceRequest, InferenceResponse, Message, Role},
};

use crate::{poll::yield_times, scenario::ScenarioStep};

/// A model that responds from a script or a function, and records its requests. Clones share the
/// position in the script and the requests.
#[derive(Clone)]
pub struct FakeModel(Arc<Inner>);

type Answer =
    dyn Fn(&InferenceRequest, usize) -> Result<InferenceResponse, ModelError> + Send + Sync;

struct Inner {
    name: Option<Arc<str>>,
    answer: Arc<Answer>,
    ends: Ends,
    streams: Option<usize>,
    pauses: u32,
    call_count: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<InferenceRequest>>>,
}

#[derive(Clone, Copy)]
enum Ends {
    Always,
    WhenCancelled,
    Never,
}

impl FakeModel {
    /// Responds from a script: each call takes the next step, and the last one repeats. An empty
    /// script responds with `ok`.
    pub fn script<S: Into<ScenarioStep>>(steps: impl IntoIterator<Item = S>) -> Self {
        let steps: Vec<ScenarioStep> = steps.into_iter().map(Into::into).collect();
        Self::of(move |_, call| step(&steps, call).to_response())
    }

    /// Responds from a script whose position is a function of the request, so that a repeated
    /// request gets the same response.
    pub fn script_by<S: Into<ScenarioStep>>(
        position: impl Fn(&InferenceRequest) -> usize + Send + Sync + 'static,
        steps: impl IntoIterator<Item = S>,
    ) -> Self {
        let steps: Vec<ScenarioStep> = steps.into_iter().map(Into::into).collect();
        Self::of(move |request, _| step(&steps, position(request)).to_response())
    }

    /// Responds with a function of the request.
    pub fn from_fn(
        answer: impl Fn(&InferenceRequest) -> Result<InferenceResponse, ModelError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::of(move |request, _| answer(request))
    }

    /// Repeats the last message of the user.
    pub fn echo() -> Self {
        Self::of(|request, _| {
            let said = request.prompt.stable().map(|turn| turn.message());
            let last = said.chain(&request.prompt.tail).filter(|it| it.role() == Role::User).last();
            let text = last.map(Message::text).unwrap_or_default();
            ScenarioStep::final_answer(text).to_response()
        })
    }

    /// Does not respond until the run is cancelled.
    pub fn pending() -> Self {
        Self::default().change(|inner| inner.ends = Ends::WhenCancelled)
    }

    /// Does not respond, and ignores cancellation.
    pub fn ignoring_cancel() -> Self {
        Self::default().change(|inner| inner.ends = Ends::Never)
    }

    /// Sets the name of the model.
    #[must_use]
    pub fn with_name(self, name: impl Into<Arc<str>>) -> Self {
        self.change(|inner| inner.name = Some(name.into()))
    }

    /// Streams its responses in pieces of this number of characters.
    #[must_use]
    pub fn with_fragment_size(self, characters: usize) -> Self {
        self.change(|inner| inner.streams = Some(characters.max(1)))
    }

    /// Yields this number of times before each response.
    #[must_use]
    pub fn with_yields(self, times: u32) -> Self {
        self.change(|inner| inner.pauses = times)
    }

    /// Returns the number of calls.
    pub fn asked(&self) -> usize {
        self.0.call_count.load(SeqCst)
    }

    /// Returns the requests, oldest first.
    pub fn requests(&self) -> Vec<InferenceRequest> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn of(
        answer: impl Fn(&InferenceRequest, usize) -> Result<InferenceResponse, ModelError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            name: None,
            answer: Arc::new(answer),
            ends: Ends::Always,
            streams: None,
            pauses: 0,
            call_count: Arc::default(),
            requests: Arc::default(),
        }))
    }

    fn change(self, change: impl FnOnce(&mut Inner)) -> Self {
        let it = &*self.0;
        let mut inner = Inner {
            name: it.name.clone(),
            answer: Arc::clone(&it.answer),
            ends: it.ends,
            streams: it.streams,
            pauses: it.pauses,
            call_count: Arc::clone(&it.call_count),
            requests: Arc::clone(&it.requests),
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }
}

impl Default for FakeModel {
    fn default() -> Self {
        Self::script::<ScenarioStep>([])
    }
}

fn step(steps: &[ScenarioStep], index: usize) -> ScenarioStep {
    let step = steps.get(index).or(steps.last()).cloned();
    step.unwrap_or_else(|| ScenarioStep::final_answer("ok"))
}

#[async_trait]
impl ChatModel for FakeModel {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let call = self.0.call_count.fetch_add(1, SeqCst);
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        match self.0.ends {
            Ends::Always => yield_times(self.0.pauses).await,
            Ends::WhenCancelled => {
                cx.cancel.cancelled().await;
                return Err(ModelError::new(ModelErrorKind::Cancelled, "the run was cancelled"));
            }
            Ends::Never => pending().await,
        }
        let response = (self.0.answer)(request, call)?;
        if let Some(characters) = self.0.streams {
            stream(&response, characters, cx.deltas);
        }
        Ok(response)
    }

    fn model(&self) -> Option<Arc<str>> {
        self.0.name.clone()
    }
}

fn stream(response: &InferenceResponse, characters: usize, deltas: &mut dyn DeltaSink) {
    let mut call = 0;
    for part in response.message.parts() {
        match part.content() {
            Content::Text(text) => {
                pieces(text, characters).for_each(|it| deltas.push(Delta::Text(it)));
            }
            Content::Reasoning(text) => {
                pieces(text, characters).for_each(|it| deltas.push(Delta::Reasoning(it)));
            }
            Content::ToolCall(it) => {
                let (index, id) = (call, it.id.as_deref());
                deltas.push(Delta::ToolCall { index, id, name: &it.name });
                for fragment in pieces(&it.arguments, characters) {
                    deltas.push(Delta::ToolArguments { index, fragment });
                }
                call += 1;
            }
            _ => (),
        }
    }
    deltas.push(Delta::Usage(response.usage));
    deltas.push(Delta::End);
}

/// Cuts a text between characters.
fn pieces(text: &str, characters: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(characters).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece).filter(|it| !it.is_empty())
    })
}

impl fmt::Debug for FakeModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeModel").field("asked", &self.asked()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::{AgentState, StreamFragment, events::StreamDelta};

    use super::*;
    use crate::{EventRecorder, ModelDriver, block_on, test_loop};

    #[test]
    fn a_streamed_answer_comes_in_pieces_and_ends_once() {
        let events = EventRecorder::new();
        let model = FakeModel::script(["añb"]).with_fragment_size(2);
        let agent = test_loop(ModelDriver::new(model)).with_event_sink(events.sink());
        let state = block_on(agent.execute(AgentState::new().with_user_message("hi")));
        assert_eq!(state.text(), "añb");
        let deltas: Vec<_> =
            events.events_of::<StreamDelta>().into_iter().map(|it| it.delta).collect();
        let text = |it: &str| StreamFragment::Text(it.into());
        assert_eq!(deltas, [text("añ"), text("b"), StreamFragment::End]);
    }

    #[test]
    fn an_echo_says_what_the_user_said_last_and_notes_the_request() {
        let model = FakeModel::echo();
        let agent = test_loop(ModelDriver::new(model.clone()));
        let state = block_on(agent.execute(AgentState::new().with_user_message("hi")));
        assert_eq!((state.text().as_str(), model.asked()), ("hi", 1));
        assert_eq!(model.requests()[0].prompt.turns.len(), 1);
    }
}
