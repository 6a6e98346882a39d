//! Pages of sessions.

use loopwright_sessions::{
    SessionCursor, SessionId, SessionList, SessionQuery, SessionRelation, SessionScope,
    SessionStatus,
};

use crate::{
    database::Transaction,
    error::Failure,
    head::{HEADER, header, name_of_damaged, session_id},
    row::{Value, values},
};

/// Implements [`SessionStore::list`](loopwright_sessions::SessionStore::list).
pub(crate) async fn list(
    transaction: &mut dyn Transaction,
    query: &SessionQuery,
) -> Result<SessionList, Failure> {
    let (mut headers, mut damaged) = (Vec::new(), Vec::new());
    // One more row shows whether there is another page.
    let wanted = query.limit.saturating_add(1);
    let mut seen = 0;
    while headers.len() < wanted {
        let (sql, values) = statement(query, wanted, seen);
        let rows = transaction.rows(&sql, &values).await?;
        seen += rows.len();
        let is_last = rows.len() < wanted;
        for mut row in rows {
            let name = name_of_damaged(&row);
            match header(&mut row) {
                Ok(header) => headers.push(header),
                // One damaged row must not hide the others.
                Err(Failure::Form(_)) => damaged.extend(name.map(|name| (headers.len(), name))),
                Err(failure) => return Err(failure),
            }
        }
        if is_last {
            break;
        }
    }
    let is_more = headers.len() > query.limit;
    // Rows after the last session of this page are on the next page.
    damaged.retain(|(before, _)| !is_more || *before < query.limit);
    let unreadable = damaged.into_iter().map(|(_, name)| name).collect();
    Ok(SessionList { unreadable, ..SessionList::from_headers(query, headers) })
}

/// Implements [`SessionStore::named`](loopwright_sessions::SessionStore::named).
pub(crate) async fn named(
    transaction: &mut dyn Transaction,
    beginning: &str,
    most: usize,
) -> Result<Vec<SessionId>, Failure> {
    // All IDs with this prefix sort before this.
    let end = format!("{beginning}\u{7f}");
    let order = transaction.by_bytes();
    let sql = format!(
        "SELECT id FROM sessions
        WHERE id{order} >= $1 AND id{order} < $2 AND status <> 'deleted' ORDER BY id{order} LIMIT {most}"
    );
    let rows = transaction.rows(&sql, values![beginning, &*end]).await?;
    let names = rows.into_iter().filter_map(|mut row| row.text(0).and_then(session_id).ok());
    Ok(names.collect())
}

/// Returns the statement for a number of sessions of a page, after those that were already read.
///
/// The indexes exclude deleted or active sessions. A database uses them only if the statement repeats their
/// conditions.
fn statement(query: &SessionQuery, wanted: usize, seen: usize) -> (String, Vec<Value<'_>>) {
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    let mut bind = |value| {
        values.push(value);
        format!("${}", values.len())
    };
    if let Some(status) = query.status {
        conditions.push(format!("s.status = '{status}'"));
    }
    if query.status != Some(SessionStatus::Deleted) {
        conditions.push("s.status <> 'deleted'".to_owned());
    }
    if query.status.is_some_and(|status| status != SessionStatus::Active) {
        conditions.push("s.status <> 'active'".to_owned());
    }
    if let Some(name) = &query.agent_name {
        conditions.push(format!("s.agent_name = {}", bind((&**name).into())));
    }
    if let Some(workdir) = &query.workdir {
        conditions.push(format!("s.workdir = {}", bind((&**workdir).into())));
    }
    match &query.kinship {
        SessionRelation::Any => {}
        SessionRelation::TopLevel => conditions.push("s.call IS NULL".to_owned()),
        SessionRelation::ChildOf(parent) => {
            conditions.push(format!("s.parent = {}", bind(parent.as_str().into())));
        }
    }
    // The tag is the end of the ID.
    match &query.scope {
        SessionScope::Any => {}
        SessionScope::Untagged => {
            conditions.push("substr(s.id, length(s.id) - 21, 2) <> '_p'".to_owned());
        }
        SessionScope::Tagged(tag) => {
            let tag = bind(tag.as_str().into());
            conditions.push(format!(
                "substr(s.id, length(s.id) - 21, 2) = '_p' AND substr(s.id, length(s.id) - 19) = {tag}"
            ));
        }
    }
    if let Some(SessionCursor { updated_at, id }) = &query.after {
        let (updated_at, id) = (bind((*updated_at).into()), bind(id.as_str().into()));
        conditions.push(format!("(s.updated_at, s.id) < ({updated_at}, {id})"));
    }
    // SQLite prepares a statement again each time if its limit is a parameter.
    let offset = bind(seen.into());
    let conditions = conditions.join(" AND ");
    let sql = format!(
        "{HEADER} WHERE {conditions} ORDER BY s.updated_at DESC, s.id DESC LIMIT {wanted} OFFSET {offset}"
    );
    (sql, values)
}
