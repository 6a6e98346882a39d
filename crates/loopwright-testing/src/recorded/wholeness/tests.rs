use loopwright_core::messages::{Content, Message, Part, Role, Usage};

use super::*;

fn answer(text: &str, arguments: Option<&str>, usage: Usage) -> InferenceResponse {
    let call = |text: &str| Part::new(Content::ToolCall(ToolCall::new("1", "look", text)));
    let parts = [Part::text(text)].into_iter().chain(arguments.map(call));
    InferenceResponse::new(Message::new(Role::Assistant, parts), usage)
}

fn words(text: &str) -> InferenceResponse {
    answer(text, None, Usage::new(1, 1))
}

const CHAT: WireApi = WireApi::OpenAiChat;

#[test]
fn the_whole_is_the_whole_and_may_lack_its_usage() {
    let without = answer("ab", None, Usage::default());
    assert_eq!(judge(CHAT, &words("ab"), &words("ab"), b""), Verdict::Whole);
    assert_eq!(judge(CHAT, &words("ab"), &without, b""), Verdict::WithoutUsage);
}

#[test]
fn a_shorter_answer_is_caught() {
    assert_eq!(judge(CHAT, &words("ab"), &words("a"), b"data: {}\n\n"), Verdict::Shorter);
    let other_end = InferenceResponse { finish_reason: FinishReason::Length, ..words("ab") };
    assert_eq!(judge(CHAT, &words("ab"), &other_end, b""), Verdict::Shorter);
}

#[test]
fn a_call_that_was_cut_is_caught_whatever_the_bytes_say() {
    let whole = answer("", Some("{\"a\":10}"), Usage::default());
    let part = answer("", Some("{\"a\":1}"), Usage::default());
    let call = ToolCall::new("1", "look", "{\"a\":1}");
    let kept = b"data: {\"choices\":[{\"finish_reason\":\"tool_calls\"}]}\n\n";
    assert_eq!(judge(CHAT, &whole, &part, kept), Verdict::Runs(call));
}

#[test]
fn only_bytes_that_tell_their_end_are_ambiguous() {
    let judge = |kept: &[u8]| judge(CHAT, &words("ab"), &words("a"), kept);
    assert_eq!(judge(b"data: {\"finish_reason\": \"stop\"}\n\n"), Verdict::Ambiguous);
    assert_eq!(judge(b"data: {\"finish_reason\": \"stop\"}"), Verdict::Shorter);
    assert_eq!(judge(b"data: {\"finish_reason\":null}\n\n"), Verdict::Shorter);
    assert_eq!(judge(b"data: {\"finish_reason\":\"\"}\n\n"), Verdict::Shorter);
}
