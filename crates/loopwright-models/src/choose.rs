//! Selection of a default model.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use loopwright_core::{LlmConfig, ModelError, ModelErrorKind, Timestamp};
use serde::Deserialize;

use crate::{
    preset::ProviderConfig,
    provider::{Providers, no_model},
    secret::{SecretRef, lookup},
};

/// How long a server on this machine may take to say that it is there.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long a provider that was named may take to list its models.
const LONG_PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes of a list of models.
const MAX: usize = 4 << 20;

/// A list of models, as one provider or another writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum ModelList {
    Data { data: Vec<ListedModel> },
    Models { models: Vec<ListedModel> },
    Bare(Vec<ListedModel>),
}

#[derive(Deserialize)]
struct ListedModel {
    #[serde(alias = "name")]
    id: String,
}

impl ModelList {
    fn names(self) -> Vec<String> {
        let (Self::Data { data: models } | Self::Models { models } | Self::Bare(models)) = self;
        let name = |model: ListedModel| match model.id.strip_prefix("models/") {
            Some(name) => name.to_owned(),
            None => model.id,
        };
        models.into_iter().map(name).collect()
    }
}

impl Providers {
    /// Completes a selection with the first usable provider and its first model.
    ///
    /// Without a provider, this is the first one whose key is set, or else the first server on this
    /// machine that responds at once. Without a model, this is the provider's default, or else the
    /// first one that the provider lists. Selected parts do not change.
    ///
    /// # Errors
    ///
    /// Returns an error with remedies if nothing was found.
    pub async fn choose(&self, llm: Option<&LlmConfig>) -> Result<LlmConfig, ModelError> {
        let options =
            llm.or(self.default.as_ref()).map(|it| it.options.clone()).unwrap_or_default();
        let (provider, model) = self.selected(llm);
        let (provider, model) = match provider {
            Some(name) => {
                let model = self.model_of(&name, model).await?;
                (name, model)
            }
            None => match self.first_with_key() {
                Some(name) => {
                    let model = self.model_of(&name, model).await?;
                    (name, model)
                }
                None => self.first_local(model).await?,
            },
        };
        Ok(LlmConfig { provider: Some(provider), model: Some(model), options })
    }

    /// Requests the names of a provider's models.
    ///
    /// # Errors
    ///
    /// Returns an error if the provider does not respond, or the response is invalid.
    pub async fn models(&self, name: &str) -> Result<Vec<String>, ModelError> {
        let provider = self.provider(name)?;
        let remote = self.build_model(&name.into(), &"".into())?;
        let path = provider.probe.as_deref().unwrap_or("models");
        let (url, headers, context) = remote.beneath(path);
        let answer = self.http.get(url, headers).await;
        let answer = answer.map_err(|error| error.into_model_error(context))?;
        let is_success = answer.is_success();
        let head = |name: &str| answer.header(name);
        let context = context.clone().with_head(answer.status(), head, Timestamp::default());
        let body = answer.body(MAX).await;
        if !is_success {
            return Err(context.of_body(&body));
        }
        let list: ModelList = serde_json::from_slice(&body).map_err(|error| {
            let message = "the response is not a list of models";
            context.error(ModelErrorKind::Protocol, message).with_source(error)
        })?;
        Ok(list.names())
    }

    async fn model_of(&self, name: &str, model: Option<Arc<str>>) -> Result<Arc<str>, ModelError> {
        let default = || self.provider(name).map(|provider| provider.model.clone());
        if let Some(model) = model.map_or_else(default, |model| Ok(Some(model)))? {
            return Ok(model);
        }
        let listed = tokio::time::timeout(LONG_PATIENCE, self.models(name)).await;
        let listed = listed.unwrap_or_else(|_| {
            let message = format!("{name}: the server does not list its models");
            Err(ModelError::new(ModelErrorKind::Timeout, message))
        })?;
        first_chat_model(&listed).ok_or_else(|| {
            no_model(format!(
                "`{name}` has no model loaded; load one, or select one as \
                `{name}/model`"
            ))
        })
    }

    fn first_with_key(&self) -> Option<Arc<str>> {
        let is_set = |variable: &str| lookup(&*self.keys, variable).is_some();
        let can_be_used = |provider: &ProviderConfig| {
            let has_key = provider.key.as_ref().is_some_and(|key| is_set(key.variable()));
            let is_placed = provider.base_url_vars.iter().any(|it| is_set(&it.variable));
            match provider.base_url {
                _ if provider.local => false,
                Some(_) => has_key,
                // Whoever sets the address of a provider that has none wants it, key or not.
                None => is_placed && (has_key || !provider.key_required),
            }
        };
        let mut entries = self.entries.iter();
        entries.find(|(_, provider)| can_be_used(provider)).map(|(name, _)| Arc::clone(name))
    }

    async fn first_local(
        &self,
        model: Option<Arc<str>>,
    ) -> Result<(Arc<str>, Arc<str>), ModelError> {
        let local: Vec<_> = self.entries.iter().filter(|(_, provider)| provider.local).collect();
        let asked = local.iter().map(|(name, _)| tokio::time::timeout(PATIENCE, self.models(name)));
        let answers = join_all(asked).await;
        let mut is_empty_handed = None;
        for ((name, provider), answer) in local.iter().zip(answers) {
            let Ok(Ok(listed)) = answer else { continue };
            let known = model.clone().or_else(|| provider.model.clone());
            match known.or_else(|| first_chat_model(&listed)) {
                Some(model) => return Ok((Arc::clone(name), model)),
                None => is_empty_handed = is_empty_handed.or(Some(Arc::clone(name))),
            }
        }
        Err(no_model(self.advice(is_empty_handed.as_deref())))
    }

    fn advice(&self, is_empty_handed: Option<&str>) -> String {
        let mut keys: Vec<&str> = self
            .entries
            .iter()
            .filter(|(_, provider)| provider.key_required && !provider.local)
            .filter_map(|(_, provider)| provider.key.as_ref().map(SecretRef::variable))
            .collect();
        keys.dedup();
        let local: Vec<&str> = self
            .entries
            .iter()
            .filter(|(_, provider)| provider.local)
            .map(|(name, _)| &**name)
            .collect();
        let mut ways = Vec::new();
        if let Some(name) = is_empty_handed {
            ways.push(format!("load a model into {name}, which is running without one"));
        }
        match &keys[..] {
            [] => {}
            [first, second, third, _, ..] => {
                ways.push(format!("set {first}, {second}, {third} or the key of another provider"));
            }
            keys => ways.push(format!("set {}", keys.join(" or "))),
        }
        if !local.is_empty() {
            ways.push(format!("start a server on this machine ({})", local.join(", ")));
        }
        ways.push("select a model as `provider/model`".to_owned());
        format!("no model is available: {}", ways.join("; or "))
    }
}

/// Returns the first model that is not made for something else than talking.
fn first_chat_model(listed: &[String]) -> Option<Arc<str>> {
    let talks = |id: &&String| {
        let id = id.to_ascii_lowercase();
        !["embed", "rerank", "whisper", "tts"].iter().any(|other| id.contains(other))
    };
    listed.iter().find(talks).map(|id| id.as_str().into())
}
