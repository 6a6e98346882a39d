//! Requests as continuations of the previous request.
//!
//! A request begins with the bytes of the previous one, so only new parts are encoded: the last
//! body is kept in the model cache of the run, truncated after its turns, and continued. A small body is not kept.

use std::{cell::Cell, fmt, sync::Arc};

use bytes::Bytes;
use loopwright_core::messages::{Mark, Prompt};

use crate::json::List;

/// The body of a request, and what it takes to go on from it.
pub(crate) struct EncodedRequest {
    progress: EncodedTurns,
    body: Arc<Vec<u8>>,
}

/// The size of encoded turns, in bytes, up to which they are cheaper to encode again than to keep while a model responds.
const SMALL: usize = 64 << 10;

impl EncodedRequest {
    /// Returns `true` if the turns are so long that the next request should continue these bytes.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.progress.end - self.progress.begin > SMALL
    }
}

/// How far a body came with the turns of a conversation.
#[derive(Clone, Copy, Debug)]
struct EncodedTurns {
    /// The form in which turns were encoded.
    key: u64,
    head: Mark,
    turns: Mark,
    /// Where the turns begin.
    begin: usize,
    /// Where they end.
    end: usize,
}

/// What is known of the last request while the next one is written.
#[derive(Default)]
pub(crate) struct PrefixReuse {
    before: Cell<Option<EncodedRequest>>,
    now: Cell<Option<EncodedTurns>>,
}

impl PrefixReuse {
    /// Goes on from this request, if it is one to go on from.
    pub(crate) fn of(before: Option<EncodedRequest>) -> Self {
        Self { before: Cell::new(before), now: Cell::default() }
    }

    /// Puts the turns that were sent before into a list that has none yet. Returns how many that are;
    /// nothing if the request does not begin as the last one did.
    pub(crate) fn go_on(&self, key: u64, prompt: &Prompt, list: &mut List<'_>) -> Option<usize> {
        let EncodedRequest { progress, body } = self.before.take()?;
        let begin = list.written().len();
        let is_continued = progress.key == key
            && progress.head == prompt.head.mark()
            && prompt.turns.extends(progress.turns)
            && progress.begin == begin
            && body[..begin] == *list.written();
        if !is_continued {
            return None;
        }
        // Whoever still sends the last request keeps it.
        let mut body = Arc::try_unwrap(body).ok()?;
        body.truncate(progress.end);
        list.continue_with(body, begin);
        Some(progress.turns.turns())
    }

    /// Notes where the turns of a list begin and end.
    pub(crate) fn note(&self, key: u64, prompt: &Prompt, begin: usize, list: &List<'_>) {
        let (head, turns, end) = (prompt.head.mark(), prompt.turns.mark(), list.written().len());
        self.now.set(Some(EncodedTurns { key, head, turns, begin, end }));
    }

    /// Returns the body to be sent, and what to keep of it.
    pub(crate) fn finish(self, body: Vec<u8>) -> (Bytes, Option<EncodedRequest>) {
        let Some(progress) = self.now.into_inner() else { return (body.into(), None) };
        let body = Arc::new(body);
        let sent = Bytes::from_owner(Sent(Arc::clone(&body)));
        (sent, Some(EncodedRequest { progress, body }))
    }
}

/// A body while it is sent.
struct Sent(Arc<Vec<u8>>);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrefixReuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixReuse").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
