//! `/rewind`: returns to an earlier step, and undoes file changes if the user wants it.

use std::collections::BTreeSet;

use loopwright_core::{AgentState, Change, ChangeRecord, Edit};
use loopwright_sessions::{RewindPoint, SessionId, StoreError, has_words};

use crate::console;
use crate::conversation::Conversation;
use crate::input::{Input, InputEvent, is_watched};
use crate::loops::maintenance_runtime;
use crate::render::single_line;
use crate::session::SessionsError;
use crate::sessions::{tell_undone, tell_unknown, tell_unrecorded};
use crate::signals::Signals;

/// The maximum number of paths in a message.
const NAMED: usize = 10;

/// The arguments of `/rewind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rewind {
    /// Where the conversation continues.
    pub(super) to: RewindPoint,
    /// Whether file changes are undone without asking.
    pub(super) files: bool,
}

/// The outcome of a rewind.
pub(super) enum Rewound {
    /// The session was rewound; contains the message for the user.
    To(String),
    /// The conversation stays, and file changes were undone.
    FilesOnly,
    /// Not rewound, because the question about files was not answered.
    Not(&'static str),
    /// The user, or a signal, ends the program.
    Left(InputEvent),
}

/// Rewinds a session, and reports the files that have changed since. A user at a terminal decides about them.
pub(super) async fn rewind(
    conversation: &Conversation,
    id: &SessionId,
    rewind: Rewind,
    input: &mut Input,
    signals: Option<&mut Signals>,
) -> Result<Rewound, SessionsError> {
    let runtime = maintenance_runtime(&conversation.store);
    let to = rewind.to;
    let loaded = conversation.store.load(id).await?;
    let before = loaded.ok_or_else(|| StoreError::NotFound(id.clone()))?.changes;
    let recorded = runtime.recorded_files(id, to).await?;
    let changed: BTreeSet<&str> = recorded.iter().map(String::as_str).collect();
    let unrecorded = runtime.unrecorded_files(id, to).await?;
    let unknown = runtime.unknown_changes(id, to).await?;
    let undone = if changed.is_empty() || rewind.files {
        Undone::of(rewind.files)
    } else {
        match answer(input, signals, &changed).await {
            Ok(undone) => undone,
            Err(InputEvent::Nothing) => return Ok(Rewound::Not("nothing was rewound")),
            Err(other) => return Ok(Rewound::Left(other)),
        }
    };
    let root = conversation.setup.workdir.clone();
    if undone == Undone::FilesOnly {
        tell_undone(&runtime.undo_files(id, to, &root).await?);
        tell_unknown(&unknown);
        return Ok(Rewound::FilesOnly);
    }
    let session = if undone == Undone::Both {
        let (session, undone) = runtime.rewind_files(id, to, &root).await?;
        tell_undone(&undone);
        session
    } else {
        let session = runtime.rewind(id, to).await?;
        if !changed.is_empty() {
            let step = session.state().total_steps();
            let hint = format!("to undo the changes to them, type `/rewind {step} files`");
            console::tell(&format!("files left unchanged: {}; {hint}", names(&changed)));
        }
        session
    };
    if let Some(header) = conversation.store.header(id).await? {
        tell_unrecorded(&header, &unrecorded);
    }
    tell_unknown(&unknown);
    let kept = conversation.store.header(id).await?.map_or(0, |it| it.length);
    let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(before.len());
    let files = if undone == Undone::Both { &changed } else { &BTreeSet::new() };
    Ok(Rewound::To(told(&before[kept..], files, session.state())))
}

/// Describes the position of the session, and what was undone if that is not a turn.
fn told(taken_back: &[ChangeRecord], files: &BTreeSet<&str>, state: &AgentState) -> String {
    let steps = state.total_steps();
    if !has_words(taken_back) {
        let has = |is_one: fn(&Change) -> bool| taken_back.iter().any(|it| is_one(&it.change));
        let what = if has(is_compaction) {
            "compaction undone"
        } else if has(|it| matches!(it, Change::ExecutionStarted { .. })) {
            "the last run changed nothing"
        } else if !files.is_empty() {
            "only file changes were undone"
        } else {
            "nothing to undo"
        };
        return format!("{what}; still at the end of step {steps}");
    }
    match steps {
        0 if state.transcript().is_empty() => "rewound to the start of the session".to_owned(),
        steps => format!("rewound to the end of step {steps}"),
    }
}

/// Returns `true` if a change replaces messages, as a compaction does at its end.
fn is_compaction(change: &Change) -> bool {
    matches!(change, Change::StateEdited { edit: Edit::Replace { .. }, .. })
}

/// Asks at a terminal whether to undo file changes, until the answer is one of those that are offered.
async fn answer(
    input: &mut Input,
    mut signals: Option<&mut Signals>,
    changed: &BTreeSet<&str>,
) -> Result<Undone, InputEvent> {
    if !is_watched() {
        return Ok(Undone::Conversation);
    }
    console::tell(&format!("files changed since then: {}", names(changed)));
    loop {
        console::tell("also undo these changes? [y/N], or f to undo only the file changes");
        match input.answer(signals.as_deref_mut()).await {
            InputEvent::Text(text) => match Undone::answered(&text) {
                Some(undone) => return Ok(undone),
                None => console::tell("answer y, n or f; Enter alone means n"),
            },
            other => return Err(other),
        }
    }
}

/// What is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undone {
    /// The conversation.
    Conversation,
    /// The conversation and the changes of files.
    Both,
    /// The changes of files.
    FilesOnly,
}

impl Undone {
    fn of(with_files: bool) -> Self {
        if with_files { Self::Both } else { Self::Conversation }
    }

    /// Returns the meaning of an answer to the question about files, if it has one.
    fn answered(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Some(Self::Both),
            "n" | "no" | "" => Some(Self::Conversation),
            "f" | "files" => Some(Self::FilesOnly),
            _ => None,
        }
    }
}

fn names(paths: &BTreeSet<&str>) -> String {
    let named: Vec<String> = paths.iter().take(NAMED).map(|it| single_line(it, 200)).collect();
    match paths.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
