//! Token counters.

use std::fmt;
use std::sync::{Arc, OnceLock};

use loopwright_core::messages::{Content, Media, MediaSource, Message, Part, Turn, TurnBody};

/// Counts tokens.
///
/// Each turn of a conversation is counted once. A counter does not need to match the provider
/// exactly; all limits refer to the counter.
pub trait TokenCounter: Send + Sync {
    /// Returns the number of tokens of a text.
    fn count(&self, text: &str) -> u64;

    /// Returns the number of tokens of an attachment. The default is 1,600, and for inline text a
    /// quarter of its bytes.
    fn count_media(&self, media: &Media) -> u64 {
        match &media.source {
            MediaSource::Base64(bytes) if media.mime.starts_with("text/") => {
                (bytes.len() as u64 / 4 * 3).div_ceil(4)
            }
            _ => 1600,
        }
    }
}

/// Counts four bytes of ASCII text as one token, and every other character as one. The real number
/// is usually lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApproximateCounter;

impl TokenCounter for ApproximateCounter {
    fn count(&self, text: &str) -> u64 {
        let characters = text.chars().count() as u64;
        // Each byte that continues a character shows that it is not ASCII.
        let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
        ascii.div_ceil(4) + (characters - ascii)
    }
}

/// Counts with a counter that is created on first use, such as a tokenizer whose tables take time
/// to load.
pub struct LazyCounter<F> {
    made: OnceLock<Arc<dyn TokenCounter>>,
    make: F,
}

impl<F: Fn() -> Arc<dyn TokenCounter>> LazyCounter<F> {
    /// Creates the counter with a constructor function.
    pub fn new(make: F) -> Self {
        Self { made: OnceLock::new(), make }
    }

    fn counter(&self) -> &dyn TokenCounter {
        &**self.made.get_or_init(&self.make)
    }
}

impl<F: Fn() -> Arc<dyn TokenCounter> + Send + Sync> TokenCounter for LazyCounter<F> {
    fn count(&self, text: &str) -> u64 {
        self.counter().count(text)
    }

    fn count_media(&self, media: &Media) -> u64 {
        self.counter().count_media(media)
    }
}

impl<F> fmt::Debug for LazyCounter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyCounter")
            .field("made", &self.made.get().is_some())
            .finish_non_exhaustive()
    }
}

/// Counts a turn: its texts, the names and arguments of its calls, their results, and attachments.
pub fn turn_tokens(counter: &dyn TokenCounter, turn: &Turn) -> u64 {
    let message = |message: &Message| parts(counter, message.parts());
    match turn.body() {
        TurnBody::Input(it) | TurnBody::Reply(it) => message(it),
        TurnBody::ToolExchange(exchange) => {
            let results = exchange.results().iter();
            message(exchange.reply()) + results.map(|it| parts(counter, &it.content)).sum::<u64>()
        }
    }
}

fn parts(counter: &dyn TokenCounter, parts: &[Part]) -> u64 {
    parts.iter().map(|part| part_tokens(counter, part)).sum()
}

/// Counts a part of a message, as [`turn_tokens`] does.
pub fn part_tokens(counter: &dyn TokenCounter, part: &Part) -> u64 {
    match part.content() {
        Content::Text(text) | Content::Refusal(text) | Content::Reasoning(text) => {
            counter.count(text)
        }
        Content::Image(media) | Content::Document(media) => counter.count_media(media),
        Content::ToolCall(call) => counter.count(&call.name) + counter.count(&call.arguments),
        // What only a provider understands is sent back to it as it was.
        _ => part.opaque().map_or(0, |it| counter.count(it.as_str())),
    }
}
