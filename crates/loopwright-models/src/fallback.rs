//! Fallback to other models.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{
    ChatModel, InferCx, MediaKind, ModelError, ModelErrorKind,
    messages::{Cost, InferenceOptions, InferenceRequest, InferenceResponse, Usage},
};

use crate::{content_probe::ContentProbe, provider::no_model};

/// Several models, called in turn until one responds.
///
/// The next model is called if the one before failed for a reason other than the request (it cannot
/// be reached, is busy or unavailable, does not know the model, or refuses the user) and no part of
/// its response was passed on yet. If the request is too long for a model, the next one with a
/// larger context window is called. A rejected, cancelled or late request is not sent to another
/// model.
///
/// The origin of a response names its model. Its usage and cost include failed attempts. An error
/// lists the failure of each model.
#[derive(Clone, Default)]
pub struct FallbackModel {
    places: Vec<Place>,
}

/// What is known of a model that may be asked when others cannot answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidate {
    /// As people name it.
    pub(crate) name: String,
    /// What is asked for in place of the request's model, if anything is.
    pub(crate) model: Option<Arc<str>>,
    pub(crate) context_window: Option<u64>,
    pub(crate) options: InferenceOptions,
}

#[derive(Clone)]
struct Place {
    candidate: Candidate,
    /// The model, or why there is none.
    model: Result<Arc<dyn ChatModel>, (ModelErrorKind, Arc<str>)>,
}

impl FallbackModel {
    /// Creates a list with its first model.
    pub fn new(name: impl Into<String>, model: Arc<dyn ChatModel>) -> Self {
        Self::default()
            .and_maybe(Candidate { name: name.into(), ..Candidate::default() }, Ok(model))
    }

    /// Adds a model, which is called if those before it cannot respond.
    #[must_use]
    pub fn with_model(self, name: impl Into<String>, model: Arc<dyn ChatModel>) -> Self {
        let (name, own) = (name.into(), model.model());
        self.and_maybe(Candidate { name, model: own, ..Candidate::default() }, Ok(model))
    }

    /// Sets the context window of the model that was added last.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        if let Some(place) = self.places.last_mut() {
            place.candidate.context_window = Some(tokens);
        }
        self
    }

    /// Adds a model, or the reason why it can never be asked.
    pub(crate) fn and_maybe(
        mut self,
        candidate: Candidate,
        model: Result<Arc<dyn ChatModel>, ModelError>,
    ) -> Self {
        let model = model.map_err(|error| (error.kind, error.message.into()));
        self.places.push(Place { candidate, model });
        self
    }

    /// Checks that there is at least one model.
    ///
    /// # Errors
    ///
    /// Returns the reasons if there is no model.
    pub(crate) fn checked(self) -> Result<Self, ModelError> {
        if self.places.iter().any(|place| place.model.is_ok()) {
            return Ok(self);
        }
        let mut failures = Failures::default();
        for Place { candidate, model } in &self.places {
            if let Err((kind, message)) = model {
                failures.add(&candidate.name, ModelError::new(*kind, &**message));
            }
        }
        Err(failures.into_error())
    }
}

#[async_trait]
impl ChatModel for FallbackModel {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let mut failures = Failures::default();
        let mut deltas = ContentProbe::new(cx.deltas);
        // The longest window that was too short.
        let mut too_short = None;
        for Place { candidate, model } in &self.places {
            if too_short.is_some_and(|window| candidate.context_window <= window) {
                continue;
            }
            let model = match model {
                Ok(model) => model,
                Err((kind, message)) => {
                    failures.add(&candidate.name, ModelError::new(*kind, &**message));
                    continue;
                }
            };
            let own = candidate.request(request);
            let cx = InferCx {
                deltas: &mut deltas,
                cancel: cx.cancel,
                deadline: cx.deadline,
                clock: cx.clock,
                memory: cx.memory,
            };
            let (deadline, clock) = (cx.deadline, cx.clock);
            let error = match model.infer(own.as_ref().unwrap_or(request), cx).await {
                Ok(response) => return Ok(failures.paid_by(response)),
                Err(error) => error,
            };
            let is_late = deadline.is_some_and(|deadline| clock.monotonic() >= deadline);
            let kind = error.kind;
            failures.add(&candidate.name, error);
            if deltas.has_content || is_late || !may_do_better(kind) {
                break;
            }
            if kind == ModelErrorKind::ContextLength {
                // Who takes an unknown number of tokens cannot be told from who takes fewer.
                too_short = Some(candidate.context_window.max(too_short.flatten()));
                if candidate.context_window.is_none() {
                    break;
                }
            }
        }
        Err(failures.into_error())
    }

    fn model(&self) -> Option<Arc<str>> {
        self.places.iter().find_map(|place| place.model.as_ref().ok()?.model())
    }

    /// The first model that can be asked is asked first.
    fn least_cost(&self, request: &InferenceRequest) -> Option<Cost> {
        let place = self.places.iter().find(|place| place.model.is_ok())?;
        let own = place.candidate.request(request);
        place.model.as_ref().ok()?.least_cost(own.as_ref().unwrap_or(request))
    }

    /// The first model that can be asked is asked first.
    fn takes(&self, request: &InferenceRequest, kind: MediaKind) -> Option<bool> {
        let place = self.places.iter().find(|place| place.model.is_ok())?;
        let own = place.candidate.request(request);
        place.model.as_ref().ok()?.takes(own.as_ref().unwrap_or(request), kind)
    }
}

/// Returns `true` if another model may do better after a failure of this kind.
fn may_do_better(kind: ModelErrorKind) -> bool {
    !matches!(kind, ModelErrorKind::InvalidRequest | ModelErrorKind::Cancelled)
}

impl Candidate {
    /// Returns the request as this model is asked, if that differs.
    fn request(&self, request: &InferenceRequest) -> Option<InferenceRequest> {
        if self.model.is_none() && self.options.is_empty() {
            return None;
        }
        let mut request = request.clone();
        request.model = self.model.clone().or(request.model);
        request.options = self.options.with_defaults(&request.options);
        Some(request)
    }
}

/// What went wrong, and what it consumed.
#[derive(Default)]
struct Failures {
    messages: Vec<String>,
    last: Option<ModelError>,
    usage: Usage,
    /// Nothing if the cost of something that was consumed is not known.
    cost: Option<Cost>,
    is_unpriced: bool,
}

impl Failures {
    fn add(&mut self, name: &str, error: ModelError) {
        self.messages.push(format!("{name}: {}", error.message));
        self.usage += error.usage;
        match error.cost {
            Some(cost) => self.cost = Some(self.cost.unwrap_or_default() + cost),
            None => self.is_unpriced |= error.usage.total() > 0,
        }
        self.last = Some(error);
    }

    fn paid_by(&self, mut response: InferenceResponse) -> InferenceResponse {
        response.usage += self.usage;
        let own = response.cost.filter(|_| !self.is_unpriced);
        response.cost = own.map(|cost| cost + self.cost.unwrap_or_default());
        response
    }

    fn into_error(self) -> ModelError {
        let Some(mut last) = self.last else { return no_model("no model is configured") };
        if self.messages.len() > 1 {
            last.message = format!("no model answered: {}", self.messages.join("; "));
        }
        last.usage = self.usage;
        last.cost = self.cost.filter(|_| !self.is_unpriced);
        last
    }
}

impl fmt::Debug for FallbackModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.places.iter().map(|place| &*place.candidate.name).collect();
        f.debug_struct("FallbackModel").field("names", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
