//! Which provider and model are asked.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_core::{
    ChatModel, Clock as _, InferCx, LlmConfig, ModelCache, ModelError, ModelErrorKind,
    ModelProvider as _,
    messages::{Cost, InferenceRequest, InferenceResponse, Message, Prompt, Turn, Usage},
};
use loopwright_models::{
    ModelCatalog, ModelInfo, Price, Prices, ProviderConfig, Providers, RateLimit, RetryPolicy,
    SecretRef, VarSource,
};
use serde_json::json;

use tokio_util::sync::CancellationToken;

use crate::{
    server::{Reply, Server},
    transport::Stepping,
};

fn no_keys(_: &str) -> Option<String> {
    None
}

fn openai_key(name: &str) -> Option<String> {
    (name == "OPENAI_API_KEY").then(|| "sk-hidden".to_owned())
}

fn presets(keys: impl VarSource + 'static) -> Providers {
    Providers::new().with_keys(keys)
}

fn failure<T>(result: Result<T, ModelError>) -> (ModelErrorKind, String) {
    let error = result.err().expect("it should fail");
    (error.kind, error.message)
}

fn resolve(providers: &Providers, name: &str) -> Result<Option<String>, ModelError> {
    let model = providers.resolve(Some(&LlmConfig::named(name)))?;
    Ok(model.model().map(|it| it.to_string()))
}

fn server_at(server: &Server) -> ProviderConfig {
    ProviderConfig {
        base_url: Some(format!("{}/v1", server.address).into()),
        local: true,
        ..ProviderConfig::default()
    }
}

#[test]
fn a_provider_has_a_default_model() {
    let providers = presets(openai_key);
    assert_eq!(resolve(&providers, "openai/").unwrap().as_deref(), Some("gpt-4.1-mini"));
    assert_eq!(resolve(&providers, "openai/gpt-x").unwrap().as_deref(), Some("gpt-x"));
    assert_eq!(resolve(&providers, "ollama/a/b:7b").unwrap().as_deref(), Some("a/b:7b"));
}

#[test]
fn a_model_is_made_once() {
    let providers = presets(openai_key);
    let model = |name: &str| providers.resolve(Some(&LlmConfig::named(name))).unwrap();
    assert!(std::sync::Arc::ptr_eq(&model("openai/a"), &model("openai/a")));
    assert!(!std::sync::Arc::ptr_eq(&model("openai/a"), &model("openai/b")));
}

#[test]
fn an_unknown_provider_is_an_error_that_lists_the_known_ones() {
    let (kind, message) = failure(resolve(&presets(no_keys), "opnai/x"));
    assert_eq!(kind, ModelErrorKind::NoModel);
    assert!(message.contains("`opnai`") && message.contains("openai, openai-responses, anthropic"));
}

#[test]
fn a_missing_key_is_an_error_that_names_the_variable() {
    let blank = |_: &str| Some("  ".to_owned());
    for providers in [presets(no_keys), presets(blank)] {
        let (kind, message) = failure(resolve(&providers, "openai/x"));
        assert_eq!(kind, ModelErrorKind::Auth);
        assert_eq!(message, "the key of provider `openai` is missing: set OPENAI_API_KEY");
    }
}

#[test]
fn nothing_selected_is_an_error_that_says_how_to_select() {
    let (kind, message) = failure(presets(no_keys).resolve(None));
    assert_eq!(kind, ModelErrorKind::NoModel);
    assert!(message.contains("provider/model"), "{message}");
    let (kind, message) = failure(resolve(&presets(no_keys), "ollama/"));
    assert_eq!(kind, ModelErrorKind::NoModel);
    assert!(message.contains("ollama/model"), "{message}");
    let (_, message) = failure(resolve(&presets(no_keys), "openai-compatible/x"));
    assert!(message.contains("OPENAI_COMPATIBLE_BASE_URL"), "{message}");
}

#[test]
fn the_default_fills_what_is_not_named() {
    let providers = presets(openai_key).with_default(LlmConfig::named("ollama/qwen"));
    let model = |llm: Option<&LlmConfig>| providers.resolve(llm).unwrap().model().unwrap();
    assert_eq!(&*model(None), "qwen");
    assert_eq!(&*model(Some(&LlmConfig::named("llama"))), "llama");
    assert_eq!(&*model(Some(&LlmConfig::named("openai/"))), "gpt-4.1-mini");
}

#[test]
fn headers_may_refer_to_secrets() {
    let headers = [("api-key".to_owned(), "env:MINE".to_owned())].into();
    let mine = ProviderConfig {
        base_url: Some("http://x/v1".into()),
        headers,
        ..ProviderConfig::default()
    };
    let providers = presets(no_keys).with_provider("mine", mine);
    let (_, message) = failure(resolve(&providers, "mine/x"));
    assert_eq!(message, "the key of provider `mine` is missing: set MINE");
}

#[test]
fn an_address_that_is_none_is_refused() {
    for address in ["", "localhost:80", "ftp://x", "http://"] {
        let mine = ProviderConfig { base_url: Some(address.into()), ..ProviderConfig::default() };
        let (kind, _) = failure(resolve(&Providers::empty().with_provider("mine", mine), "mine/x"));
        assert_eq!(kind, ModelErrorKind::InvalidRequest, "{address}");
    }
}

#[tokio::test]
async fn the_first_provider_with_a_key_is_chosen() {
    let llm = presets(openai_key).choose(None).await.unwrap();
    assert_eq!(llm, LlmConfig::named("openai/gpt-4.1-mini"));
    let llm = presets(openai_key).choose(Some(&LlmConfig::named("gpt-x"))).await.unwrap();
    assert_eq!(llm, LlmConfig::named("openai/gpt-x"));
}

#[tokio::test]
async fn a_provider_whose_address_was_set_is_chosen() {
    let list = json!({ "data": [{ "id": "m1" }] });
    let server = Server::start([Reply::json(200, &list)]).await;
    let address = format!("{}/v1", server.address);
    let keys = move |name: &str| (name == "OPENAI_COMPATIBLE_BASE_URL").then(|| address.clone());
    let llm = presets(keys).choose(None).await.unwrap();
    assert_eq!(llm, LlmConfig::named("openai-compatible/m1"));
}

#[tokio::test]
async fn without_a_key_the_first_server_that_answers_is_chosen_and_its_first_model() {
    let silent = Server::start([Reply::Silence]).await;
    let wrong = Server::start([Reply::json(200, "<html>")]).await;
    let list = json!({ "data": [{ "id": "nomic-embed-text" }, { "id": "qwen3:4b" }] });
    let right = Server::start([Reply::json(200, &list)]).await;
    let providers = Providers::empty()
        .with_keys(no_keys)
        .with_provider("silent", server_at(&silent))
        .with_provider("wrong", server_at(&wrong))
        .with_provider("right", server_at(&right));
    let llm = providers.choose(None).await.unwrap();
    assert_eq!(llm, LlmConfig::named("right/qwen3:4b"));
    assert!(right.received()[0].head.starts_with("GET /v1/models "));
    let named = providers.choose(Some(&LlmConfig::named("right/"))).await.unwrap();
    assert_eq!(named, llm);
}

#[tokio::test]
async fn nothing_to_choose_is_an_error_that_says_what_to_do() {
    let empty = Server::start([Reply::json(200, &json!({ "data": [] }))]).await;
    let cloud = ProviderConfig {
        base_url: Some("http://x/v1".into()),
        key: Some(SecretRef::env("CLOUD_KEY")),
        key_required: true,
        ..ProviderConfig::default()
    };
    let providers = Providers::empty()
        .with_keys(no_keys)
        .with_provider("cloud", cloud)
        .with_provider("empty", server_at(&empty));
    let (kind, message) = failure(providers.choose(None).await);
    assert_eq!(kind, ModelErrorKind::NoModel);
    assert_eq!(
        message,
        "no model is available: load a model into empty, which is running without one; or set \
         CLOUD_KEY; or start a server on this machine (empty); or select a model as `provider/model`"
    );
}

#[test]
fn addresses_are_read_from_the_variables_that_others_know() {
    let at = |variable: &'static str, value: &'static str, provider: &str| {
        let keys = move |name: &str| match name {
            _ if name == variable => Some(value.to_owned()),
            _ if name.ends_with("_KEY") => Some("sk-hidden".to_owned()),
            _ => None,
        };
        resolve(&presets(keys), provider)
    };
    assert!(at("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com/", "azure/mine").is_ok());
    assert!(at("ANTHROPIC_BASE_URL", "http://127.0.0.1:9", "anthropic/").is_ok());
    assert!(at("OLLAMA_HOST", "0.0.0.0", "ollama/m").is_ok());
    let (kind, message) = failure(at("OTHER", "x", "azure/mine"));
    assert_eq!(kind, ModelErrorKind::NoModel);
    assert!(
        message.contains("set AZURE_OPENAI_BASE_URL or the provider's `base_url`"),
        "{message}"
    );
}

/// A provider that is served here, and listed by its own interface.
fn remote_at(server: &Server) -> ProviderConfig {
    ProviderConfig {
        base_url: Some(format!("{}/v1", server.address).into()),
        ..ProviderConfig::default()
    }
}

async fn ask(
    providers: &Providers,
    name: &str,
    clock: &Stepping,
) -> Result<InferenceResponse, ModelError> {
    let llm = LlmConfig::named(name);
    let turns = [Turn::from_message(Message::user("hi")).unwrap()];
    let prompt = Prompt::of(turns.into_iter().collect());
    let request =
        InferenceRequest { prompt, model: llm.model.clone(), ..InferenceRequest::default() };
    let cx = InferCx {
        deltas: &mut loopwright_core::DiscardDeltas,
        cancel: &CancellationToken::new(),
        deadline: None,
        clock,
        memory: &mut ModelCache::default(),
    };
    providers.resolve(Some(&llm)).unwrap().infer(&request, cx).await
}

/// Knows that a model of this provider costs a dollar per million tokens read, and two per million
/// written.
fn priced(provider: &'static str) -> ModelCatalog {
    let (input, output) = (Price::from_dollars(1.0), Price::from_dollars(2.0));
    let prices = Some(Prices { input, output, ..Prices::free() });
    ModelCatalog::default().with_model(provider, "m", ModelInfo { prices, ..ModelInfo::default() })
}

#[tokio::test]
async fn an_answer_says_what_it_cost_where_prices_are_known() {
    let server = Server::start([Reply::words(&["a"])]).await;
    let providers = Providers::empty()
        .with_catalog(priced("paid"))
        .with_provider("paid", remote_at(&server))
        .with_provider("unknown", remote_at(&server))
        .with_provider("free", server_at(&server));
    let clock = Stepping::default();
    let cost = async |name| ask(&providers, name, &clock).await.unwrap().cost;
    assert_eq!(cost("paid/m").await, Some(Cost::from_picodollars(9_000_000)));
    assert_eq!(cost("paid/m-2026-01-01").await, Some(Cost::from_picodollars(9_000_000)));
    assert_eq!(cost("paid/other").await, None);
    assert_eq!(cost("unknown/m").await, None);
    assert_eq!(cost("free/m").await, Some(Cost::ZERO));
}

#[test]
fn a_request_costs_at_least_what_reading_it_costs_where_prices_are_known() {
    let cached = Some(Price::from_dollars(0.25));
    let prices =
        Some(Prices { input: Price::from_dollars(1.0), cache_read: cached, ..Prices::free() });
    let info = ModelInfo { prices, ..ModelInfo::default() };
    let at_nowhere = || {
        let base_url = Some("http://127.0.0.1:9/v1".into());
        ProviderConfig { base_url, ..ProviderConfig::default() }
    };
    let providers = Providers::empty()
        .with_catalog(ModelCatalog::default().with_model("paid", "m", info))
        .with_provider("paid", at_nowhere());
    let cost = |model: &str, turns: Vec<Turn>| {
        let prompt = Prompt::of(turns.into_iter().collect());
        let model = providers.resolve(Some(&LlmConfig::named(model))).unwrap();
        model.least_cost(&InferenceRequest { prompt, ..InferenceRequest::default() })
    };
    let asked = || Turn::from_message(Message::user("x".repeat(4000))).unwrap();
    assert_eq!(cost("paid/m", vec![asked()]), Some(Cost::from_dollars(0.001)));
    assert_eq!(cost("paid/other", vec![asked()]), None);
    // What was said before may be in the provider's cache.
    let answered = || Turn::from_message(Message::assistant("y".repeat(4000))).unwrap();
    let turns = vec![asked(), answered(), asked(), answered()];
    assert_eq!(cost("paid/m", turns), Some(Cost::from_dollars(0.001)));
}

#[tokio::test]
async fn a_rate_is_shared_by_the_models_of_a_provider() {
    let server = Server::start([Reply::words(&["a"])]).await;
    let rate = RateLimit { requests_per_minute: NonZeroU32::new(2), ..RateLimit::default() };
    let providers = Providers::empty()
        .with_provider("limited", ProviderConfig { rate, ..remote_at(&server) })
        .with_provider("other", remote_at(&server));
    let clock = Stepping::default();
    for name in ["limited/a", "limited/b", "other/a", "other/b"] {
        ask(&providers, name, &clock).await.unwrap();
    }
    assert!(clock.waits().is_empty());
    ask(&providers, "limited/c", &clock).await.unwrap();
    assert_eq!(clock.waits(), [Duration::from_mins(1)]);
}

#[tokio::test]
async fn a_provider_that_asks_to_wait_is_not_asked_by_others() {
    let busy = Reply::error(429, "retry-after: 7\r\n");
    let server = Server::start([busy, Reply::words(&["a"])]).await;
    let providers = Providers::empty()
        .with_retry(RetryPolicy::none())
        .with_provider("busy", remote_at(&server));
    let clock = Stepping::default();
    ask(&providers, "busy/a", &clock).await.unwrap_err();
    assert!(clock.waits().is_empty());
    ask(&providers, "busy/b", &clock).await.unwrap();
    assert_eq!((clock.waits(), clock.now().millis()), (vec![Duration::from_secs(7)], 7000));
}

#[tokio::test]
async fn another_model_answers_when_the_first_cannot() {
    let broken = Server::start([Reply::error(503, "")]).await;
    let working = Server::start([Reply::words(&["a"])]).await;
    let providers = Providers::empty()
        .with_keys(no_keys)
        .with_retry(RetryPolicy::none())
        .with_provider("broken", remote_at(&broken))
        .with_provider("working", remote_at(&working))
        .with_provider(
            "locked",
            ProviderConfig {
                key: Some(SecretRef::env("K")),
                key_required: true,
                ..remote_at(&working)
            },
        )
        .with_catalog(priced("working"))
        .with_fallback(["locked/x", "working/m"].map(LlmConfig::named));
    let clock = Stepping::default();
    let response = ask(&providers, "broken/first", &clock).await.unwrap();
    let origin = response.message.origin().unwrap();
    assert_eq!((&*origin.provider, &*origin.model), ("working", "m"));
    assert_eq!(working.received()[0].json()["model"], "m");
    assert_eq!((response.usage, response.cost.is_some()), (Usage::new(5, 2), true));

    let alone = providers.with_fallback([LlmConfig::named("locked/x")]);
    let error = ask(&alone, "broken/first", &clock).await.unwrap_err();
    assert_eq!(
        error.message,
        "no model answered: broken/first: broken: no; locked/x: the key of provider `locked` is \
         missing: set K"
    );
}

#[tokio::test]
async fn a_list_of_models_comes_in_several_forms() {
    for body in [
        json!({ "data": [{ "id": "m1" }] }),
        json!({ "models": [{ "name": "models/m1", "version": 1 }] }),
        json!([{ "id": "m1", "type": "chat" }]),
    ] {
        let server = Server::start([Reply::json(200, &body)]).await;
        let providers = Providers::empty().with_provider("p", remote_at(&server));
        assert_eq!(providers.models("p").await.unwrap(), ["m1"], "{body}");
    }
}

#[tokio::test]
async fn a_key_is_shown_in_the_header_that_the_provider_reads() {
    let server = Server::start([Reply::words(&["a"])]).await;
    let provider = ProviderConfig {
        key: Some(SecretRef::env("OPENAI_API_KEY")),
        key_header: Some("api-key".into()),
        ..remote_at(&server)
    };
    let providers = Providers::empty().with_keys(openai_key).with_provider("p", provider);
    ask(&providers, "p/m", &Stepping::default()).await.unwrap();
    let received = &server.received()[0];
    assert_eq!(received.header("api-key"), Some("sk-hidden"));
    assert_eq!(received.header("authorization"), None);
}

#[tokio::test]
async fn an_error_says_what_can_be_done() {
    let locked = Server::start([Reply::error(401, "")]).await;
    let empty = Server::start([Reply::error(404, "")]).await;
    let keys = |_: &str| Some("sk-hidden".to_owned());
    let key = Some(SecretRef::env("MY_KEY"));
    let providers = Providers::empty()
        .with_keys(keys)
        .with_catalog(priced("empty"))
        .with_provider("locked", ProviderConfig { key, ..remote_at(&locked) })
        .with_provider("empty", remote_at(&empty));
    let clock = Stepping::default();
    let message = async |name| ask(&providers, name, &clock).await.unwrap_err().message;
    assert_eq!(message("locked/m").await, "locked: no; check the key in MY_KEY");
    assert_eq!(message("empty/x").await, "empty: no; known models: m");
}

/// A model of a program, by its name.
struct Mine(&'static str);

#[async_trait]
impl ChatModel for Mine {
    async fn infer(
        &self,
        _: &InferenceRequest,
        _: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        Err(ModelError::new(ModelErrorKind::NoModel, self.0))
    }

    fn model(&self) -> Option<Arc<str>> {
        Some(self.0.into())
    }
}

#[test]
fn a_model_of_the_caller_is_found_by_its_name_before_models_of_providers() {
    let answer = |providers: &Providers, name: &str| {
        let model =
            providers.resolve(Some(&LlmConfig::named(name))).map_err(|it| it.to_string())?;
        Ok::<_, String>(model.model().map(|it| it.to_string()))
    };
    let fake = Mine;
    let providers = Providers::empty()
        .with_model("house/brief", fake("first"))
        .with_model("house/brief", fake("brief"))
        .with_model("own", fake("any"));
    assert_eq!(answer(&providers, "house/brief"), Ok(Some("brief".to_owned())));
    assert_eq!(answer(&providers, "own/whatever"), Ok(Some("any".to_owned())));
    let other = answer(&providers, "house/other").unwrap_err();
    assert!(other.contains("provider `house` has no base URL"), "{other}");
    let again = providers.retrying(RetryPolicy::none());
    assert_eq!(answer(&again, "house/brief"), Ok(Some("brief".to_owned())));
}

#[test]
fn sets_of_providers_share_the_presets_that_they_do_not_replace() {
    let own = ProviderConfig { local: true, ..ProviderConfig::default() };
    let [usual, changed] =
        [Providers::new(), Providers::new().with_provider("ollama", own.clone())];
    let is_shared =
        |name: &str| std::ptr::eq(usual.provider(name).unwrap(), changed.provider(name).unwrap());
    assert_eq!(["openai", "anthropic", "ollama"].map(is_shared), [true, true, false]);
    assert_eq!(changed.provider("ollama").unwrap(), &own);
    assert_ne!(usual.provider("ollama").unwrap(), &own);
}
