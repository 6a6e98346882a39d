//! The result of a compaction, as text.

use std::fmt::Write as _;

use loopwright_capabilities::compaction::{ConversationCompacted, SPILL_DIR};

use super::words::{count, number, sanitize_terminal};

pub(crate) const NOT_COMPACTED: &str = "the conversation was not compacted";

/// Describes what a compaction saved, and what it could not do.
pub(crate) fn compacted(told: &ConversationCompacted) -> String {
    let (before, after) = (told.before, told.after);
    let mut text = if before == after {
        let is_done = told.problems.is_empty();
        let nothing = if is_done { "nothing to compact" } else { NOT_COMPACTED };
        nothing.to_owned()
    } else {
        let (turns, left) = (count(before.turns as u64, "message"), number(after.turns as u64));
        let (tokens, saved) = (number(before.tokens), number(after.tokens));
        format!("compacted: {turns} to {left}, about {tokens} tokens to {saved}")
    };
    if !told.files.is_empty() {
        let outputs = count(told.files.len() as u64, "tool output");
        // Writing to a string does not fail.
        let _written = write!(text, "; {outputs} moved to {SPILL_DIR}");
    }
    for problem in &told.problems {
        let _written = write!(text, "\n  {}", sanitize_terminal(problem));
    }
    text
}

#[cfg(test)]
mod tests {
    use loopwright_capabilities::summarization::TranscriptSize;

    use super::*;

    #[test]
    fn compaction_is_reported_in_a_line_and_its_failures_below_it() {
        let volume = |turns, tokens| TranscriptSize { turns, tokens };
        let mut told = ConversationCompacted::new(volume(34, 12_400), volume(5, 1830));
        told.files.push("a".to_owned());
        let saved = "compacted: 34 messages to 5, about 12,400 tokens to 1,830";
        assert_eq!(compacted(&told), format!("{saved}; 1 tool output moved to .tool-outputs"));
        let mut told = ConversationCompacted::new(volume(4, 10), volume(4, 10));
        assert_eq!(compacted(&told), "nothing to compact");
        told.problems.push("the model is\x1b[31m down".to_owned());
        assert_eq!(
            compacted(&told),
            "the conversation was not compacted\n  the model is\u{fffd}[31m down"
        );
    }
}
