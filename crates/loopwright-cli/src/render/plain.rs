//! Plain output, for screen readers and simple terminals.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the user wants plain text.
static PLAIN: AtomicBool = AtomicBool::new(false);

/// Makes the output of this process plain: nothing that was written is taken back, and the cursor is not moved.
pub(crate) fn set_plain() {
    PLAIN.store(true, Relaxed);
}

/// Returns `true` if nothing that was written may be taken back: the user wants that, or the terminal cannot do otherwise.
pub(crate) fn is_plain() -> bool {
    PLAIN.load(Relaxed) || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
