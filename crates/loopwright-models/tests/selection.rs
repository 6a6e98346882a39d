//! Which provider and model are asked.

use loopwright_core::{LlmConfig, ModelError, ModelErrorKind, Models as _};
use loopwright_models::{KeyRef, KeySource, Provider, Providers};
use serde_json::json;

use crate::server::{Reply, Server};

fn no_keys(_: &str) -> Option<String> {
    None
}

fn openai_key(name: &str) -> Option<String> {
    (name == "OPENAI_API_KEY").then(|| "sk-hidden".to_owned())
}

fn presets(keys: impl KeySource + 'static) -> Providers {
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

fn server_at(server: &Server) -> Provider {
    Provider {
        base_url: Some(format!("{}/v1", server.address).into()),
        local: true,
        ..Provider::default()
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
    assert!(message.contains("`opnai`") && message.contains("openai, openai-compatible, ollama"));
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
    let mine = Provider { base_url: Some("http://x/v1".into()), headers, ..Provider::default() };
    let providers = presets(no_keys).with_provider("mine", mine);
    let (_, message) = failure(resolve(&providers, "mine/x"));
    assert_eq!(message, "the key of provider `mine` is missing: set MINE");
}

#[test]
fn an_address_that_is_none_is_refused() {
    for address in ["", "localhost:80", "ftp://x", "http://"] {
        let mine = Provider { base_url: Some(address.into()), ..Provider::default() };
        let (kind, _) = failure(resolve(&Providers::bare().with_provider("mine", mine), "mine/x"));
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
    let providers = Providers::bare()
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
    let cloud = Provider {
        base_url: Some("http://x/v1".into()),
        key: Some(KeyRef::env("CLOUD_KEY")),
        key_required: true,
        ..Provider::default()
    };
    let providers = Providers::bare()
        .with_keys(no_keys)
        .with_provider("cloud", cloud)
        .with_provider("empty", server_at(&empty));
    let (kind, message) = failure(providers.choose(None).await);
    assert_eq!(kind, ModelErrorKind::NoModel);
    assert_eq!(
        message,
        "there is no model to ask: load a model into empty, which is running without one; or set \
         CLOUD_KEY; or start a server on this machine (empty); or name one as `provider/model`"
    );
}
