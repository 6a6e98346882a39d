//! The headers and fields that requests may contain: only those that the user's agents set.
//!
//! Agents of a project, sessions that were taken in and what is in a database are the words of others. Whatever
//! brings their settings to a model call, it is asked through [`Granted`], which lets nothing else pass.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::messages::{
    Cost, InferenceOptions, InferenceRequest, InferenceResponse, InferenceSettings,
};
use loopwright_core::{
    ChatModel, InferCx, LlmConfig, MediaKind, ModelError, ModelErrorKind, ModelProvider,
};
use serde_json::Value;

use crate::definitions::Defined;

/// What to do about settings that are refused.
const REMEDY: &str = "write a header under `providers.NAME.headers` in your configuration, or set the option in an \
                      agent of your own";

/// What requests may carry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants(Arc<[InferenceSettings]>);

impl Grants {
    /// Takes what the user's agents set. None without definitions.
    pub(crate) fn of(defined: Option<&Defined>) -> Self {
        Self(defined.map(|it| it.agents.granted_settings()).unwrap_or_default().into())
    }

    fn has(&self, key: &str, value: &Value) -> bool {
        self.0.iter().any(|it| match key.split_once('.') {
            Some(("headers", name)) => it.headers.get(name).map(String::as_str) == value.as_str(),
            Some((_, name)) => it.extra.get(name) == Some(value),
            None => false,
        })
    }

    /// Takes out what is not granted, and returns the keys.
    pub(crate) fn limit(&self, options: &mut InferenceOptions) -> Vec<String> {
        if options.privileged().is_empty() {
            return Vec::new();
        }
        options.withhold(|key, value| self.has(key, value))
    }
}

/// Says which settings another owner's agent or session does not get.
pub(crate) fn withheld(keys: &[String], from: &str) -> String {
    let keys: Vec<String> = keys.iter().map(|it| format!("`llm.options.{it}`")).collect();
    let is_are = if keys.len() == 1 { "is" } else { "are" };
    format!(
        "{} of {from} {is_are} not sent: only your own agents can set such options; {REMEDY}",
        keys.join(", ")
    )
}

/// Models that are asked with nothing that was not granted.
pub(crate) struct Granted {
    models: Arc<dyn ModelProvider>,
    grants: Grants,
}

impl Granted {
    pub(crate) fn new(models: Arc<dyn ModelProvider>, grants: Grants) -> Self {
        Self { models, grants }
    }
}

impl ModelProvider for Granted {
    fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
        let model = self.models.resolve(llm)?;
        Ok(Arc::new(GrantedModel { model, grants: self.grants.clone() }))
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").field("grants", &self.grants).finish_non_exhaustive()
    }
}

struct GrantedModel {
    model: Arc<dyn ChatModel>,
    grants: Grants,
}

#[async_trait]
impl ChatModel for GrantedModel {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let keys = self.grants.limit(&mut request.options.clone());
        if keys.is_empty() {
            return self.model.infer(request, cx).await;
        }
        let text = withheld(&keys, "the request");
        Err(ModelError::new(ModelErrorKind::InvalidRequest, text))
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

#[cfg(test)]
mod tests {
    use loopwright_core::messages::InferenceOptions;
    use loopwright_core::{DiscardDeltas, FixedModel, ModelCache, SystemClock};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Says that it was asked.
    struct Asked;

    #[async_trait]
    impl ChatModel for Asked {
        async fn infer(
            &self,
            _: &InferenceRequest,
            _: InferCx<'_>,
        ) -> Result<InferenceResponse, ModelError> {
            Err(ModelError::new(ModelErrorKind::NoModel, "asked"))
        }
    }

    fn options(value: Value) -> InferenceOptions {
        serde_json::from_value(value).unwrap()
    }

    async fn told(grants: &[Value], asked: Value) -> (ModelErrorKind, String) {
        let grants = grants.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect();
        let models = Granted::new(Arc::new(FixedModel(Arc::new(Asked))), Grants(grants));
        let request = InferenceRequest { options: options(asked), ..InferenceRequest::default() };
        let cx = InferCx {
            deltas: &mut DiscardDeltas,
            cancel: &CancellationToken::new(),
            deadline: None,
            clock: &SystemClock::default(),
            memory: &mut ModelCache::default(),
        };
        let error = models.resolve(None).unwrap().infer(&request, cx).await.unwrap_err();
        (error.kind, error.to_string())
    }

    #[tokio::test]
    async fn a_model_is_asked_with_nothing_that_was_not_granted() {
        let header = |value: &str| json!({ "headers": { "X-Team": value } });
        let asked = (ModelErrorKind::NoModel, "asked".to_owned());
        assert_eq!(told(&[], json!({ "temperature": 1.0, "extra": { "top_k": 3 } })).await, asked);
        assert_eq!(told(&[header("a")], header("a")).await, asked);
        let extra = json!({ "extra": { "service_tier": "flex" } });
        assert_eq!(told(&[header("a"), extra.clone()], extra.clone()).await, asked);
        for (grants, request, key) in [
            (vec![], header("a"), "headers.X-Team"),
            (vec![header("a")], header("b"), "headers.X-Team"),
            (vec![header("a")], extra, "extra.service_tier"),
        ] {
            let (kind, text) = told(&grants, request).await;
            assert_eq!(kind, ModelErrorKind::InvalidRequest);
            assert!(
                text.starts_with(&format!("`llm.options.{key}` of the request is not sent")),
                "{text}"
            );
        }
    }
}
