//! Prompts for the model.

use crate::retrospective::checkpoint::RewindRequest;

/// The instructions of the model.
pub(super) const INSTRUCTIONS: &str = "Each request ends with the checkpoints of your work, such \
    as [CHECKPOINT 2]: each is the point before one of your steps. If your approach turns out to \
    be wrong, if a mistake must be undone at its root, or if long output only distracts you, \
    call `execution_retrospective` with the number of the checkpoint to return to and with \
    guidance: what you learned, and what to do instead. Everything you said and did since then \
    is removed from this conversation, and only your guidance stays, so include everything you \
    need. Changes to files and other effects are not undone. Go back only if it is worth it: the \
    number of returns is limited.";

/// How every guidance begins.
const BEGINNING: &str = "[REWOUND to checkpoint ";

/// Words the message that stands in the place of what was left behind.
pub(super) fn guidance(rewind: &RewindRequest) -> String {
    let RewindRequest { checkpoint, guidance } = rewind;
    format!(
        "{BEGINNING}{checkpoint}] You continued from here before, found a better approach, and \
            came back. What you said and did is no longer in this conversation; its effects on \
            files and elsewhere remain.\n\nYour guidance:\n{}",
        guidance.trim()
    )
}

/// Returns `true` if a text is guidance, and not what a user says.
pub(crate) fn is_guidance(text: &str) -> bool {
    text.starts_with(BEGINNING)
}
