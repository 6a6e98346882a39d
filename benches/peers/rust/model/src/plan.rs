//! What a request asks for, read without reading its JSON.

use memchr::memmem;

/// The words stand this near to each other.
const PROMPT: usize = 400;

/// What is to be answered.
pub(crate) struct Plan {
    /// Steps that are done.
    pub(crate) step: u64,
    /// Steps that are to be done.
    pub(crate) steps: u64,
    /// Calls in each.
    pub(crate) par: u64,
    /// Bytes of text beside them.
    pub(crate) pad: usize,
    /// Milliseconds to wait first.
    pub(crate) lat: u64,
    /// Whether the answer is streamed.
    pub(crate) streams: bool,
    /// Whether the stream ends with the usage.
    pub(crate) tells_usage: bool,
}

impl Plan {
    /// Reads it from the body of a request.
    pub(crate) fn read(body: &[u8]) -> Self {
        let prompt = memmem::find(body, b"STEPS=").map_or(&[][..], |at| {
            let rest = &body[at..];
            &rest[..rest.len().min(PROMPT)]
        });
        let par = number(prompt, b"PAR=").unwrap_or(1).max(1);
        let results = memmem::find_iter(body, br#""tool_call_id""#).count() as u64;
        Self {
            step: results / par,
            steps: number(prompt, b"STEPS=").unwrap_or(0),
            par,
            pad: usize::try_from(number(prompt, b"PAD=").unwrap_or(0)).unwrap_or(0),
            lat: number(prompt, b"LAT=").unwrap_or(0),
            streams: is_true(body, br#""stream""#),
            tells_usage: is_true(body, br#""include_usage""#),
        }
    }

    /// Whether nothing is left to be done.
    pub(crate) fn is_done(&self) -> bool {
        self.step >= self.steps
    }
}

fn number(text: &[u8], word: &[u8]) -> Option<u64> {
    let rest = &text[memmem::find(text, word)? + word.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

fn is_true(body: &[u8], key: &[u8]) -> bool {
    memmem::find_iter(body, key).any(|at| {
        let rest = body[at + key.len()..].trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"true"))
    })
}
