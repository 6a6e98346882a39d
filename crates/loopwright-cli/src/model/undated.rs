//! Models that leave the time limit to the run.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    ChatModel, InferCx, LlmConfig, ModelError, Models,
    messages::{InferenceRequest, InferenceResponse},
};

/// Does not tell models when the time of the run is over.
///
/// The run gives a request up at that moment by itself, and stops for the limit. A model that knew the
/// moment would be first with an error, and the run would fail for a slow provider.
pub(super) struct Undated<T>(pub(super) T);

impl<T: Models> Models for Undated<T> {
    fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
        Ok(Arc::new(Undated(self.0.resolve(llm)?)))
    }
}

#[async_trait]
impl ChatModel for Undated<Arc<dyn ChatModel>> {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        self.0.infer(request, InferCx { deadline: None, ..cx }).await
    }

    fn model(&self) -> Option<Arc<str>> {
        self.0.model()
    }
}
