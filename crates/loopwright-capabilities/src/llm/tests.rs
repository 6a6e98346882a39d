//! Which provider and which model are really asked.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use loopwright_agent::AgentBuilder;
use loopwright_core::{
    AgentLoop, AgentState, LlmConfig,
    messages::{InferenceOptions, ToolChoice},
};
use loopwright_models::{ProviderConfig, Providers, RetryPolicy, SecretRef};
use loopwright_testing::FakeModel;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::*;

/// What a server was asked: the first line and the key, and the body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A server on this machine that says which model it is asked for.
async fn server() -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Asked::default();
    let notes = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let note = answer(stream).await;
            notes.lock().unwrap().push(note);
        }
    });
    (url, asked)
}

async fn answer(stream: TcpStream) -> (String, Value) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut key, mut length) = (String::new(), String::new(), 0);
    loop {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        let lower = line.to_lowercase();
        match lower.trim().split_once(": ") {
            Some(("authorization", value)) => value.clone_into(&mut key),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            _ if lower.trim().is_empty() => break,
            _ => (),
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let message = json!({ "role": "assistant", "content": body["model"] });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    let text = json!({ "id": "1", "model": body["model"], "choices": [choice] }).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    (key, body)
}

/// Two providers on one server, told apart by their keys.
fn providers(url: &str) -> Arc<Providers> {
    let provider = |key: &str| ProviderConfig {
        base_url: Some(url.into()),
        key: Some(SecretRef::env(key)),
        key_required: true,
        ..ProviderConfig::default()
    };
    let one = ProviderConfig { model: Some("own".into()), ..provider("ONE") };
    let keys = |name: &str| (name != "MISSING").then(|| name.to_lowercase());
    let providers = Providers::empty().with_provider("one", one).with_keys(keys);
    let providers = providers.with_provider("two", provider("TWO"));
    Arc::new(providers.with_provider("locked", provider("MISSING")))
}

fn whole() -> InferenceOptions {
    InferenceOptions::default().with_stream(false)
}

fn agent(llm: UseLlm, url: &str) -> AgentLoop {
    let llm = llm.with_providers(providers(url));
    AgentBuilder::base().with_capability(llm).build().unwrap()
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("Who are you?")
}

#[tokio::test]
async fn the_provider_and_the_model_of_the_name_are_asked() {
    let (url, notes) = server().await;
    let named = |name: &str| UseLlm::new(name).with_options(whole());
    let configured =
        LlmConfig { options: whole().with_temperature(0.5), ..LlmConfig::named("two/configured") };
    let mut texts = Vec::new();
    for llm in
        [named("one"), named(" one/other "), named("two/x/y"), UseLlm::from_config(configured)]
    {
        texts.push(agent(llm, &url).execute(asked()).await.text());
    }
    assert_eq!(texts, ["own", "other", "x/y", "configured"]);
    let notes = notes.lock().unwrap().clone();
    let keys: Vec<_> = notes.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["bearer one", "bearer one", "bearer two", "bearer two"]);
    assert_eq!(notes[3].1["temperature"], json!(0.5));
}

#[tokio::test]
async fn a_state_that_selects_another_model_gets_it_and_the_settings_stay() {
    let (url, notes) = server().await;
    let agent = agent(UseLlm::new("one").with_options(whole().with_temperature(0.5)), &url);
    let state = agent.execute(asked().with_llm(LlmConfig::named("two/mine"))).await;
    assert_eq!(state.text(), "mine");
    let (key, body) = notes.lock().unwrap()[0].clone();
    assert_eq!((key.as_str(), &body["temperature"]), ("bearer two", &json!(0.5)));
}

/// A server on this machine that is overloaded for a number of requests. Counts all of them.
async fn overloaded(times: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if counter.fetch_add(1, Ordering::Relaxed) >= times {
                answer(stream).await;
                continue;
            }
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let head = "HTTP/1.1 503 Service Unavailable\r\nretry-after-ms: 0\r\n";
            let refusal = format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(refusal.as_bytes()).await.unwrap();
        }
    });
    (url, requests)
}

#[tokio::test]
async fn a_failed_request_is_sent_as_often_as_the_capability_says() {
    let once = UseLlm::new("one").with_options(whole()).with_retry(RetryPolicy::none());
    let five = RetryPolicy { max_attempts: 5, ..RetryPolicy::default() };
    let often = UseLlm::new("one").with_options(whole()).with_retry(five);
    for (llm, expect) in [(once, ("failed", 1)), (often, ("completed", 5))] {
        let (url, requests) = overloaded(4).await;
        let state = agent(llm, &url).execute(asked()).await;
        assert_eq!((state.status().as_str(), requests.load(Ordering::Relaxed)), expect);
    }
}

#[test]
fn an_unusable_model_is_a_build_error() {
    let check = |llm: UseLlm, expect: &str| {
        let llm = llm.with_providers(providers("http://127.0.0.1:1/v1"));
        let error = AgentBuilder::base().with_capability(llm).build().unwrap_err().to_string();
        let text = format!("capability `use_llm` cannot be used: {expect}");
        assert!(error.starts_with(&text), "{error}");
    };
    check(UseLlm::new("two"), "no model of `two` is selected; select one as `two/model`");
    check(UseLlm::new("nobody/x"), "unknown provider `nobody`; available: one, two, locked");
    check(UseLlm::new("x"), "no model is selected; select one as `provider/model`");
    check(UseLlm::new("locked/x"), "the key of provider `locked` is missing: set MISSING");
    check(UseLlm::from_config(LlmConfig::default()), "no model is selected");
}

#[test]
fn the_agent_says_which_model_it_asks() {
    let agent = agent(UseLlm::new("one").with_options(whole()), "http://127.0.0.1:1/v1");
    let expect = LlmConfig { options: whole(), ..LlmConfig::named("one/own") };
    assert_eq!(agent.driver().llm(), expect);
}

#[tokio::test]
async fn a_given_model_is_called_whatever_the_state_selects() {
    let model = FakeModel::script(["Mine."]);
    let llm = UseLlm::from_model(model.clone()).with_options(whole().with_temperature(0.5));
    let llm = llm.with_tool_choice(ToolChoice::Required).with_parallel_tool_calls(false);
    let agent = AgentBuilder::base().with(llm).build().unwrap();
    let state = AgentState::new().with_llm(LlmConfig::named("two/other"));
    assert_eq!(agent.ask_in(state, "Who are you?").await.unwrap(), "Mine.");
    let request = model.requests().pop().unwrap();
    assert_eq!(request.options.temperature, Some(0.5));
}

#[test]
fn retries_of_a_given_model_are_an_error_when_the_agent_is_built() {
    let llm = UseLlm::from_model(FakeModel::script(["Mine."])).with_retry(RetryPolicy::none());
    let error = AgentBuilder::base().with(llm).build().unwrap_err().to_string();
    assert!(
        error.contains("`with_retry` applies only to models that come from a provider"),
        "{error}"
    );
}
