//! Middleware between an agent and its models.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_messages::{Cost, InferenceRequest, InferenceResponse};

use crate::model::{ChatModel, InferCx, MediaKind, ModelError};

/// Middleware for all model calls of an agent: those of the driver, of tools and of hooks.
///
/// A layer sees each request as it is sent, after the hooks, and each response before them. Its own
/// response is charged like a model's response. Layers nest: the layer added last runs first.
#[async_trait]
pub trait ModelLayer: Send + Sync {
    /// Responds instead of a model. It can call the model, once or several times.
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
    /// Adds a layer, which runs before the others.
    pub fn add(&mut self, layer: Arc<dyn ModelLayer>) {
        self.0 = self.0.iter().cloned().chain([layer]).collect();
    }

    /// Adds all layers of another list, which run before these.
    pub fn extend(&mut self, others: &Self) {
        self.0 = self.0.iter().chain(others.0.iter()).cloned().collect();
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a model wrapped in these layers.
    pub(crate) fn over<'a>(&'a self, model: &'a dyn ChatModel) -> Layered<'a> {
        Layered { model, layers: &self.0 }
    }
}

impl fmt::Debug for ModelLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({})", self.len())
    }
}

/// A model wrapped in layers.
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

    fn takes(&self, request: &InferenceRequest, kind: MediaKind) -> Option<bool> {
        self.model.takes(request, kind)
    }
}
