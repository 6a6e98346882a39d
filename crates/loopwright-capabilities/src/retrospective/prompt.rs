//! What the model is told.

use crate::retrospective::checkpoint::RewindRequest;

/// What the model is told first.
pub(super) const INSTRUCTIONS: &str = "\
At the end of each request stand the checkpoints of your work, such as [CHECKPOINT 2]: each is the point \
before one of your steps. If you see that you are on the wrong way, that a mistake is to be undone at its \
root, or that long output is only in your way, call `execution_retrospective` with the number of the \
checkpoint to go back to and with guidance: what you learned, and what to do instead. Everything that you \
said and did since then leaves this conversation, and only your guidance stays, so put into it all that \
you need. What was done to files and elsewhere is not undone. Go back only where it is worth it: you can do \
so a few times and no more.";

/// How every guidance begins.
const BEGINNING: &str = "[REWOUND to checkpoint ";

/// Words the message that stands in the place of what was left behind.
pub(super) fn guidance(rewind: &RewindRequest) -> String {
    let RewindRequest { checkpoint, guidance } = rewind;
    format!(
        "{BEGINNING}{checkpoint}] You went on from here before, found that it was not the best way, and \
         came back. What you said and did is no longer in this conversation; what it changed, in files \
         or elsewhere, is still as it left it.\n\nYour guidance from then:\n{}",
        guidance.trim()
    )
}

/// Returns `true` if a text is guidance, and not what a user says.
pub(crate) fn is_guidance(text: &str) -> bool {
    text.starts_with(BEGINNING)
}
