//! Finding the session that a user means.

use std::path::Path;

use loopwright_sessions::{
    SessionHeader, SessionId, SessionQuery, SessionRelation, SessionStatus, SessionStore,
};

use super::error::SessionsError;
use crate::console;

/// How much of a generated name is shown, and is enough to find it.
const SHORT: usize = 8;

/// How many sessions are asked for at once.
const PAGE: usize = 1000;

/// How many names are shown if more than one is meant.
const SHOWN: usize = 10;

/// Returns as much of a name as people need: the beginning of a generated one, all of any other.
pub fn short(id: &SessionId) -> &str {
    let name = id.as_str();
    let dashes = name.bytes().filter(|it| *it == b'-').count();
    if name.len() == 36 && dashes == 4 { &name[..SHORT] } else { name }
}

/// Finds a session by its name or the beginning of it.
///
/// # Errors
///
/// Returns an error if there is none, or more than one.
pub async fn find(
    store: &dyn SessionStore,
    beginning: &SessionId,
) -> Result<SessionHeader, SessionsError> {
    if let Some(header) = store.header(beginning).await? {
        return match header.status {
            SessionStatus::Deleted => Err(SessionsError::Deleted(header.id)),
            _ => Ok(header),
        };
    }
    let names = store.named(beginning.as_str(), PAGE).await?;
    match &*names {
        [] => Err(SessionsError::Unknown(beginning.clone())),
        // Asked by its whole name, the store says what is wrong with it.
        [id] => {
            let header = store.header(id).await?;
            header.ok_or_else(|| SessionsError::Unknown(beginning.clone()))
        }
        names => {
            let many = names.len();
            let mut found = Vec::new();
            for id in names.iter().take(SHOWN) {
                let title = match store.header(id).await {
                    Ok(header) => header.and_then(|it| it.title),
                    Err(_) => Some("(damaged)".into()),
                };
                found.push(format!("{id} {}", title.unwrap_or_default()).trim().to_owned());
            }
            if many > SHOWN {
                found.push(format!("and {} more", many - SHOWN));
            }
            Err(SessionsError::Ambiguous { beginning: beginning.clone(), found })
        }
    }
}

/// Finds the session of a directory that was written last, sub-agents left out.
///
/// # Errors
///
/// Returns an error if there is none.
pub async fn latest(
    store: &dyn SessionStore,
    workdir: &Path,
) -> Result<SessionHeader, SessionsError> {
    let query = SessionQuery {
        workdir: Some(workdir.to_string_lossy().into()),
        kinship: SessionRelation::TopLevel,
        ..SessionQuery::first(1)
    };
    let list = store.list(&query).await?;
    for id in &list.unreadable {
        let id = short(id);
        console::warn(&format!(
            "session {id} cannot be read and may be the latest one; run `loopwright sessions \
                check`"
        ));
    }
    let none = || SessionsError::NoLatest { workdir: workdir.to_path_buf() };
    list.sessions.into_iter().next().ok_or_else(none)
}

/// Returns all sessions that a query and a condition want, page by page.
///
/// # Errors
///
/// Returns an error if the store fails.
pub(crate) async fn all(
    store: &dyn SessionStore,
    query: SessionQuery,
    wants: impl Fn(&SessionHeader) -> bool,
) -> Result<Vec<SessionHeader>, SessionsError> {
    let mut found = Vec::new();
    let mut query = SessionQuery { limit: PAGE, ..query };
    loop {
        let page = store.list(&query).await?;
        found.extend(page.sessions.into_iter().filter(&wants));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(found),
        }
    }
}
