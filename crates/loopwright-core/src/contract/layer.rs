//! What stands between an agent and its models.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_messages::{Cost, InferenceRequest, InferenceResponse};

use crate::model::{ChatModel, InferCx, ModelError};

/// Stands between an agent and whatever models it asks: the driver's, and those of tools and hooks.
///
/// A layer sees each request as it is sent, after the hooks, and each answer before them. What it
/// answers with is charged like a model's answer. Layers nest: the one that was added last is asked
/// first.
#[async_trait]
pub trait ModelLayer: Send + Sync {
    /// Answers in the place of a model, which it may ask, once or several times.
    async fn infer(
        &self,
        model: &dyn ChatModel,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError>;
}

/// Layers, in the order in which they were added. Cheap to clone.
#[derive(Clone, Default)]
pub struct ModelLayers(Arc<[Arc<dyn ModelLayer>]>);

impl ModelLayers {
    /// Adds a layer above the others.
    pub fn add(&mut self, layer: Arc<dyn ModelLayer>) {
        self.0 = self.0.iter().cloned().chain([layer]).collect();
    }

    /// Adds all layers of another list above these.
    pub fn extend(&mut self, others: &Self) {
        self.0 = self.0.iter().chain(others.0.iter()).cloned().collect();
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a model as it is below these layers.
    pub(crate) fn over<'a>(&'a self, model: &'a dyn ChatModel) -> Layered<'a> {
        Layered { model, layers: &self.0 }
    }
}

impl fmt::Debug for ModelLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({})", self.len())
    }
}

/// A model below layers.
pub(crate) struct Layered<'a> {
    model: &'a dyn ChatModel,
    layers: &'a [Arc<dyn ModelLayer>],
}

#[async_trait]
impl ChatModel for Layered<'_> {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        match self.layers.split_last() {
            None => self.model.infer(request, cx).await,
            Some((layer, layers)) => {
                layer.infer(&Layered { model: self.model, layers }, request, cx).await
            }
        }
    }

    fn model(&self) -> Option<Arc<str>> {
        self.model.model()
    }

    fn least_cost(&self, request: &InferenceRequest) -> Option<Cost> {
        self.model.least_cost(request)
    }
}
