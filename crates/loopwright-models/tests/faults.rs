//! Streams that go wrong, or go right in an unusual way, one test for each.
//!
//! A file of `faults/` is the body of an answer with status 200, after which the connection closes.
//! Its first letter names the wire: Anthropic messages, chat completions, Responses, Gemini.

use std::{fs, path::Path, time::Duration};

use loopwright_core::{
    ChatModel as _, Delta, InferCx, ModelCache, ModelError, ModelErrorKind,
    messages::{
        Content, FinishReason, InferenceRequest, InferenceResponse, Message, Part, ToolExchange,
        ToolResult, Turn, TurnBody, Usage,
    },
};
use loopwright_models::{RemoteModel, WireApi};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    server::{Reply, Server},
    transport::Stepping,
};

/// A conversation with a server that answers in the same way every time.
struct Conversation {
    server: Server,
    model: RemoteModel,
    request: InferenceRequest,
    clock: Stepping,
    /// How often the end of an answer was announced.
    ends: usize,
}

impl Conversation {
    async fn begin(wire: WireApi, reply: Reply) -> Self {
        let server = Server::start([reply]).await;
        let model = RemoteModel::new(wire, "test", &server.address, "m").unwrap();
        let mut request = InferenceRequest::default();
        request.prompt.turns.push_message(Message::user("What is it like in Paris?")).unwrap();
        Self { server, model, request, clock: Stepping::default(), ends: 0 }
    }

    async fn with(fault: &str) -> Self {
        let wire = match &fault[..1] {
            "a" => "anthropic-messages",
            "c" => "openai-chat",
            "r" => "openai-responses",
            "g" => "gemini-generate",
            other => panic!("{other}"),
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults");
        let body = fs::read_to_string(folder.join(fault).with_extension("sse")).unwrap();
        Self::begin(WireApi::named(wire).unwrap(), Reply::Stream(vec![body])).await
    }

    async fn ask(&mut self) -> Result<InferenceResponse, ModelError> {
        let mut deltas = |delta: Delta<'_>| self.ends += usize::from(matches!(delta, Delta::End));
        let cx = InferCx {
            deltas: &mut deltas,
            cancel: &CancellationToken::new(),
            deadline: None,
            clock: &self.clock,
            memory: &mut ModelCache::default(),
        };
        self.model.infer(&self.request, cx).await
    }

    /// Answers the calls of a message and asks again; returns the request that was sent.
    async fn go_on(&mut self, message: Message) -> Value {
        let results: Vec<_> = message.tool_calls().map(|_| ToolResult::text("fine")).collect();
        let body = if results.is_empty() {
            TurnBody::Reply(message)
        } else {
            TurnBody::ToolExchange(ToolExchange::new(message, results).unwrap())
        };
        self.request.prompt.turns.push(Turn::new(body).unwrap());
        self.request.prompt.turns.push_message(Message::user("Go on.")).unwrap();
        self.ask().await.unwrap();
        self.server.received().last().unwrap().json()
    }
}

async fn answer(fault: &str) -> InferenceResponse {
    let mut conversation = Conversation::with(fault).await;
    let answer = conversation.ask().await.unwrap();
    assert_eq!(conversation.ends, 1);
    answer
}

/// Asks once and expects an error, after which nothing is sent again: the answer had begun.
async fn error(fault: &str) -> ModelError {
    let mut conversation = Conversation::with(fault).await;
    let error = conversation.ask().await.unwrap_err();
    assert_eq!((conversation.ends, conversation.server.received().len()), (0, 1));
    error
}

/// Asks, goes on and returns the request that was sent then.
async fn next_request(fault: &str) -> Value {
    let mut conversation = Conversation::with(fault).await;
    let message = conversation.ask().await.unwrap().message;
    conversation.go_on(message).await
}

/// Says what a message holds, in order.
fn content(message: &Message) -> Value {
    let content = |part: &Part| match part.content() {
        Content::Text(text) => json!({ "text": **text }),
        Content::Reasoning(text) => json!({ "reasoning": **text }),
        Content::Refusal(text) => json!({ "refusal": **text }),
        Content::ToolCall(call) => {
            json!({ "call": call.id, "name": call.name, "arguments": call.parse_arguments().unwrap() })
        }
        Content::Provider { kind } => json!({ "provider": **kind }),
        other => panic!("{other:?}"),
    };
    message.parts().iter().map(content).collect()
}

fn weather(id: &str) -> Value {
    json!({ "call": id, "name": "get_weather", "arguments": { "city": "Paris" } })
}

fn time(id: &str) -> Value {
    json!({ "call": id, "name": "get_time", "arguments": {} })
}

/// What an error says of itself.
fn essence(error: &ModelError) -> (ModelErrorKind, Option<u16>, Option<&str>, Usage) {
    (error.kind, error.status, error.code.as_deref(), error.usage)
}

/// Checks that an answer is known to have broken off.
fn broke_off(error: &ModelError) {
    assert_eq!((error.kind, error.status), (ModelErrorKind::Protocol, Some(200)), "{error}");
}

/// What the answers of the Anthropic wire have consumed.
const READ: Usage =
    Usage { input: 420, output: 88, cache_read: 300, cache_write: 20, reasoning: 0 };

/// What those of `OpenAI`'s wires have.
const USAGE: Usage =
    Usage { input: 1000, output: 50, cache_read: 900, cache_write: 0, reasoning: 7 };

#[tokio::test]
async fn a1_thinking_text_and_two_calls_are_all_there() {
    let answer = answer("a1").await;
    let expected = json!([
        { "reasoning": "let me think" },
        { "text": "I will check." },
        weather("toolu_1"),
        time("toolu_2"),
    ]);
    assert_eq!(content(&answer.message), expected);
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::ToolCalls, READ));

    let request = next_request("a1").await;
    let signed = json!({ "type": "thinking", "thinking": "let me think", "signature": "SIG-A==" });
    assert_eq!(request["messages"][1]["content"][0], signed);
}

#[tokio::test]
async fn a2_interleaved_thinking_goes_back_in_its_order() {
    let expected = json!([
        { "type": "thinking", "thinking": "first thought", "signature": "SIG-1==" },
        { "type": "text", "text": "Intermediate text." },
        { "type": "thinking", "thinking": "second thought", "signature": "SIG-2==" },
        { "type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": { "city": "Paris" } },
    ]);
    let request = next_request("a2").await;
    assert_eq!(request["messages"][1], json!({ "role": "assistant", "content": expected }));
}

#[tokio::test]
async fn a3_what_the_provider_did_goes_back_unchanged() {
    let found = json!({
        "type": "web_search_result",
        "title": "Rust",
        "url": "https://rust-lang.org",
        "encrypted_content": "ENC==",
        "page_age": null,
    });
    let citation = json!({
        "type": "web_search_result_location",
        "cited_text": "Rust",
        "url": "https://rust-lang.org",
        "title": "Rust",
        "encrypted_index": "EI==",
    });
    let search = json!({ "query": "rust" });
    let expected = json!([
        { "type": "text", "text": "I'll search." },
        { "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": search },
        { "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found] },
        { "type": "text", "text": "Rust is a language.", "citations": [citation] },
        { "type": "tool_use", "id": "toolu_9", "name": "get_weather", "input": { "city": "Paris" } },
    ]);
    assert_eq!(next_request("a3").await["messages"][1]["content"], expected);

    let calls = answer("a3").await.message;
    assert_eq!(calls.tool_calls().map(|it| &*it.name).collect::<Vec<_>>(), ["get_weather"]);
}

#[tokio::test]
async fn a4_a_provider_that_is_overloaded_in_mid_stream_is_an_error() {
    let error = error("a4").await;
    let usage = Usage { output: 1, ..READ };
    let expected = (ModelErrorKind::Unavailable, Some(200), Some("overloaded_error"), usage);
    assert_eq!(essence(&error), expected);
    assert!(error.kind.is_retryable());
}

#[tokio::test]
async fn a5_a_call_that_is_cut_is_an_error() {
    broke_off(&error("a5").await);
}

#[tokio::test]
async fn c1_two_calls_are_both_there() {
    let answer = answer("c1").await;
    assert_eq!(content(&answer.message), json!([weather("call_a"), time("call_b")]));
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::ToolCalls, USAGE));
}

#[tokio::test]
async fn c2_a_call_without_an_index_is_a_call() {
    let answer = answer("c2").await;
    assert_eq!(content(&answer.message), json!([weather("call_a")]));
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::ToolCalls, USAGE));
}

#[tokio::test]
async fn c3_an_error_that_is_null_is_no_error() {
    let answer = answer("c3").await;
    assert_eq!(content(&answer.message), json!([{ "text": "Hello world" }]));
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::Stop, USAGE));
}

#[tokio::test]
async fn c4_an_answer_ends_with_a_finish_reason_without_a_done_event() {
    let answer = answer("c4").await;
    assert_eq!(content(&answer.message), json!([{ "text": "Hello world" }]));
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::Stop, USAGE));
}

#[tokio::test]
async fn c5_a_call_that_is_cut_is_an_error() {
    broke_off(&error("c5").await);
}

#[tokio::test]
async fn c6_a_refusal_is_a_refusal() {
    let answer = answer("c6").await;
    assert_eq!(content(&answer.message), json!([{ "refusal": "I cannot help." }]));
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::Refusal, USAGE));
}

#[tokio::test]
async fn c7_reasoning_details_go_back_with_their_signature() {
    let answer = answer("c7").await;
    assert_eq!(content(&answer.message), json!([{ "reasoning": "hmm" }, weather("call_a")]));

    let reply = &next_request("c7").await["messages"][1];
    let signed = json!({
        "type": "reasoning.text",
        "text": "hmm",
        "signature": "SIGOR==",
        "format": "anthropic-claude-v1",
        "index": 0,
    });
    assert_eq!(reply["reasoning_details"], json!([signed]));
}

#[tokio::test]
async fn c8_a_rate_limit_in_the_stream_is_an_error() {
    let error = error("c8").await;
    let code = Some("rate_limit_exceeded");
    let expected = (ModelErrorKind::RateLimited, Some(200), code, Usage::default());
    assert_eq!(essence(&error), expected);
    assert!(error.kind.is_retryable());
}

#[tokio::test]
async fn r1_all_items_go_back_in_their_order() {
    let message = json!({
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [{ "type": "output_text", "text": "Checking.", "annotations": [] }],
    });
    let search = json!({ "type": "search", "query": "rust" });
    let call = json!({
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_a",
        "name": "get_weather",
        "arguments": "{\"city\":\"Paris\"}",
        "status": "completed",
    });
    let expected = json!([
        planned(),
        { "type": "web_search_call", "id": "ws_1", "status": "completed", "action": search },
        message,
        { "type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "ENC-RS-2==" },
        call,
        { "type": "function_call_output", "call_id": "call_a", "output": "fine" },
    ]);
    let request = next_request("r1").await;
    assert_eq!(request["input"].as_array().unwrap()[1..7], *expected.as_array().unwrap());

    let answer = answer("r1").await;
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::ToolCalls, USAGE));
}

/// The reasoning with which the answers of this wire begin.
fn planned() -> Value {
    let summary = json!([{ "type": "summary_text", "text": "Plan the call" }]);
    json!({ "type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "ENC-RS-1==" })
}

#[tokio::test]
async fn r2_a_response_that_failed_is_an_error() {
    let error = error("r2").await;
    let expected = (ModelErrorKind::RateLimited, Some(200), Some("rate_limit_exceeded"), USAGE);
    assert_eq!(essence(&error), expected);
    assert!(error.kind.is_retryable());
}

#[tokio::test]
async fn r3_a_response_that_is_cut_is_an_error() {
    broke_off(&error("r3").await);
}

#[tokio::test]
async fn r4_an_incomplete_response_ends_for_its_length_and_keeps_its_handles() {
    let answer = answer("r4").await;
    assert_eq!(
        (answer.message.text(), answer.finish_reason),
        ("Checking.".into(), FinishReason::Length)
    );
    assert_eq!(answer.usage, USAGE);
    assert_eq!(next_request("r4").await["input"][1], planned());
}

#[tokio::test]
async fn g1_thought_signatures_go_back_where_they_were() {
    let answer = answer("g1").await;
    let expected = json!([
        { "reasoning": "thinking..." },
        { "text": "Checking. " },
        weather("fc1"),
        time("fc2"),
    ]);
    assert_eq!(content(&answer.message), expected);
    let usage = Usage { input: 1000, output: 40, cache_read: 900, cache_write: 0, reasoning: 20 };
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::ToolCalls, usage));

    let request = next_request("g1").await;
    let parts = request["contents"][1]["parts"].as_array().unwrap();
    let calls: Vec<_> = parts.iter().filter(|part| part.get("functionCall").is_some()).collect();
    let (weather, time) = (
        json!({ "name": "get_weather", "args": { "city": "Paris" }, "id": "fc1" }),
        json!({ "name": "get_time", "args": {}, "id": "fc2" }),
    );
    let expected = [
        json!({ "functionCall": weather, "thoughtSignature": "U0lHRzE9" }),
        json!({ "functionCall": time }),
    ];
    assert_eq!(calls, expected.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn g2_a_text_that_is_cut_is_an_error() {
    broke_off(&error("g2").await);
}

#[tokio::test]
async fn a_provider_that_names_a_time_to_wait_is_heard_on_every_wire() {
    for wire in WireApi::ALL {
        let reply = Reply::error(429, "retry-after: 7\r\n");
        let mut conversation = Conversation::begin(*wire, reply).await;
        let error = conversation.ask().await.unwrap_err();
        assert_eq!((error.kind, error.status), (ModelErrorKind::RateLimited, Some(429)), "{wire}");
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)), "{wire}");
        assert_eq!(conversation.clock.waits(), [Duration::from_secs(7); 2], "{wire}");
        let received = conversation.server.received();
        assert_eq!(received.len(), 3, "{wire}");
        assert!(received.iter().all(|it| it.body == received[0].body), "{wire}");
    }
}
