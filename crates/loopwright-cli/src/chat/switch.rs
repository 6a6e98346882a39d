//! `/resume`: another session of the directory.

use std::path::Path;

use loopwright_sessions::{
    SessionHeader, SessionId, SessionQuery, SessionRelation, SessionStatus, SessionStore,
};

use super::choose::{Chosen, chosen};
use crate::console;
use crate::input::{Input, InputEvent};
use crate::render::single_line;
use crate::session::{SessionsError, now, short};
use crate::sessions::{HistoryEntry, RUNNING, SessionHistory, age, last_runs};
use crate::signals::Signals;
use crate::typed_text::typed_text;

/// The number of sessions that are listed at once.
const OFFERED: usize = 20;

/// The maximum number of sessions whose conversations are searched.
const SEARCHED: usize = 500;

/// The maximum number of characters of a title.
const TITLE: usize = 60;

/// The number of messages shown of a resumed session.
const SHOWN: usize = 6;

/// The user's choice.
pub(super) enum Choice {
    Session(SessionId),
    /// No session; the reason was shown.
    None(&'static str),
    /// The user, or a signal, ends the program.
    Left(InputEvent),
}

/// Lets the user choose a session of a directory, among those that contain a text, ignoring case.
pub(super) async fn choose(
    store: &dyn SessionStore,
    workdir: &Path,
    text: &str,
    input: &mut Input,
    mut signals: Option<&mut Signals>,
) -> Result<Choice, SessionsError> {
    let found = matching(store, workdir, &text.to_lowercase()).await?;
    if found.is_empty() {
        return Ok(Choice::None("no such session in this directory"));
    }
    let now = now();
    let mut listed = 0;
    loop {
        let until = found.len().min(listed + OFFERED);
        let offered = &found[listed..until];
        let runs = last_runs(store, offered).await;
        for ((number, header), run) in (listed + 1..).zip(offered).zip(runs) {
            let title = single_line(header.title.as_deref().unwrap_or_default(), TITLE);
            let (age, id) = (age(header.updated_at, now), short(&header.id));
            let state = if run == Some(RUNNING) { "  (running)" } else { "" };
            console::tell(&format!("{number:>3}  {id}  {age:>7}  {title}{state}"));
        }
        listed = until;
        let more = found.len() - listed;
        if more > 0 {
            console::tell(&format!("… and {more} more; type + to list them"));
        }
        console::tell("number of the session, or Enter to stay here:");
        let extra = (more > 0).then_some("+");
        return Ok(match chosen(input, signals.as_deref_mut(), listed, extra).await {
            Chosen::Entry(at) => Choice::Session(found[at].id.clone()),
            Chosen::Extra => continue,
            Chosen::Stay => Choice::None("still in the same session"),
            Chosen::Left(other) => Choice::Left(other),
        });
    }
}

/// Returns the sessions that contain a text, the latest first.
async fn matching(
    store: &dyn SessionStore,
    workdir: &Path,
    text: &str,
) -> Result<Vec<SessionHeader>, SessionsError> {
    let query = SessionQuery {
        status: Some(SessionStatus::Active),
        workdir: Some(workdir.to_string_lossy().into()),
        kinship: SessionRelation::TopLevel,
        ..SessionQuery::first(SEARCHED)
    };
    let mut found = Vec::new();
    for header in store.list(&query).await?.sessions {
        if text.is_empty() || contains(store, &header, text).await? {
            found.push(header);
        }
    }
    Ok(found)
}

async fn contains(
    store: &dyn SessionStore,
    header: &SessionHeader,
    text: &str,
) -> Result<bool, SessionsError> {
    let holds = |it: &str| it.to_lowercase().contains(text);
    if header.title.as_deref().is_some_and(holds) || header.id.as_str().starts_with(text) {
        return Ok(true);
    }
    // A damaged session is skipped, and does not hide the others.
    let Ok(Some(loaded)) = store.load(&header.id).await else { return Ok(false) };
    Ok(SessionHistory::of(&loaded.changes).entries.iter().any(|it| match &it.entry {
        HistoryEntry::Said { text, .. } | HistoryEntry::Answered { text, .. } => holds(text),
        _ => false,
    }))
}

/// Shows the last messages of a session.
pub(super) async fn show_last(
    store: &dyn SessionStore,
    id: &SessionId,
) -> Result<(), SessionsError> {
    const WORDS: usize = 200;
    let Some(loaded) = store.load(id).await? else { return Ok(()) };
    let history = SessionHistory::of(&loaded.changes);
    let lines = history.entries.iter().filter_map(|it| match &it.entry {
        HistoryEntry::Said { role: "user", text } => {
            Some(format!("> {}", single_line(typed_text(text).typed, WORDS)))
        }
        HistoryEntry::Answered { text, .. } if !text.trim().is_empty() => {
            Some(single_line(text, WORDS))
        }
        _ => None,
    });
    let lines: Vec<String> = lines.collect();
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        console::tell(line);
    }
    Ok(())
}
