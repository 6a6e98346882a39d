//! Whether anything of an answer was seen.

use loopwright_core::{Delta, DeltaSink};

/// Notes whether content was passed on: from then on nothing is sent again, and nobody else is asked.
pub(crate) struct Watched<'a> {
    deltas: &'a mut dyn DeltaSink,
    pub(crate) has_content: bool,
    /// Whether the request must not be sent again for another reason.
    pub(crate) is_final: bool,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(deltas: &'a mut dyn DeltaSink) -> Self {
        Self { deltas, has_content: false, is_final: false }
    }
}

impl DeltaSink for Watched<'_> {
    fn push(&mut self, delta: Delta<'_>) {
        self.has_content |= !matches!(delta, Delta::Usage(_));
        self.deltas.push(delta);
    }
}
