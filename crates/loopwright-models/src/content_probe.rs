//! Detection of the first content of a response.

use loopwright_core::{Delta, DeltaSink, messages::Usage};

/// A token of English text is four letters or so.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Records whether content was passed on: from then on, no request is repeated, and no other model
/// is called.
pub(crate) struct ContentProbe<'a> {
    deltas: &'a mut dyn DeltaSink,
    pub(crate) has_content: bool,
    /// Whether the request must not be sent again for another reason.
    pub(crate) is_final: bool,
    /// How many bytes of the answer there were.
    written: u64,
    /// What the provider reported so far.
    reported: Option<Usage>,
}

impl<'a> ContentProbe<'a> {
    pub(crate) fn new(deltas: &'a mut dyn DeltaSink) -> Self {
        Self { deltas, has_content: false, is_final: false, written: 0, reported: None }
    }

    /// Returns what an answer that is given up consumed, of a request of so many bytes: what the provider
    /// reported, and an estimate of the rest. An answer of which nothing came consumed nothing that is known.
    pub(crate) fn consumed(&self, request: usize) -> Usage {
        let written = self.written.div_ceil(BYTES_PER_TOKEN);
        match self.reported {
            Some(reported) => Usage { output: reported.output.max(written), ..reported },
            None if self.has_content => Usage::new(request as u64 / BYTES_PER_TOKEN, written),
            None => Usage::default(),
        }
    }
}

impl DeltaSink for ContentProbe<'_> {
    fn push(&mut self, delta: Delta<'_>) {
        self.has_content |= !matches!(delta, Delta::Usage(_));
        match delta {
            Delta::Text(text) | Delta::Reasoning(text) => self.written += text.len() as u64,
            Delta::ToolArguments { fragment, .. } => self.written += fragment.len() as u64,
            Delta::Usage(usage) => self.reported = Some(usage),
            _ => {}
        }
        self.deltas.push(delta);
    }
}
