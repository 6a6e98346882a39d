//! Creating, rewinding and deleting sessions, and appending to them.

use loopwright_core::{Seq, Timestamp};
use loopwright_sessions::{
    AppendRequest, ForkPoint, Lease, NewSession, SessionHeader, SessionId, SessionStatus,
    StoreError, rules,
    stored::{FORMAT_VERSION, checksum, encode, fingerprint, written_at},
};

use crate::{
    database::Transaction,
    error::Failure,
    head::{SessionRow, session_id},
    leasing, notes,
    row::{Value, values},
    seal::{Column, Sealed, seal},
};

/// Implements [`SessionStore::create`](loopwright_sessions::SessionStore::create).
pub(crate) async fn create(
    transaction: &mut dyn Transaction,
    new: NewSession<'_>,
) -> Result<(i64, SessionHeader), Failure> {
    let mut header = new.header.clone();
    let base = header.from.as_ref().map_or(0, |from| from.at);
    (header.version, header.branch) = (1, 0);
    header.length = base + new.changes.len() as u64;
    let (body, definition) =
        (encode(&header.id, new.changes)?, encode(&header.id, new.definition)?);
    let key = insert(transaction, &header).await?;
    let source = match &header.from {
        Some(from) => Some(source(transaction, from).await?),
        None => None,
    };
    let insert = "INSERT INTO definitions (session, body, sum) VALUES ($1, $2, $3)";
    transaction.run_later(insert, values![key, &*definition, checksum(&definition)]).await?;
    begin_branch(transaction, key, 0, source.zip(header.from.as_ref())).await?;
    if !new.changes.is_empty() {
        insert_batch(transaction, key, 0, base, new.changes.len(), &body).await?;
    }
    Ok((key, header))
}

/// Writes the row of a new session, and returns its key.
async fn insert(transaction: &mut dyn Transaction, header: &SessionHeader) -> Result<i64, Failure> {
    let sql = "
        INSERT INTO sessions (id, format, status, version, branch, length, parent, call, workdir,
            agent_name, agent_label, title, created_at, updated_at, sum)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        ON CONFLICT (id) DO NOTHING RETURNING key";
    let mut values = values![
        header.id.as_str(),
        FORMAT_VERSION,
        header.status.as_str(),
        header.version,
        header.branch,
        header.length,
        header.parent.as_ref().map(SessionId::as_str),
        header.call.as_deref(),
        header.workdir.as_deref(),
        &*header.agent_name,
        &*header.agent_label,
        header.title.as_deref(),
        header.created_at,
        header.updated_at,
    ]
    .to_vec();
    values.push(Sealed::of(&values).sum().into());
    let row = transaction.row(sql, &values).await?;
    row.ok_or_else(|| StoreError::Exists(header.id.clone()))?.int(0)
}

/// Returns the key of the session that a fork copies.
async fn source(transaction: &mut dyn Transaction, from: &ForkPoint) -> Result<i64, Failure> {
    let head = SessionRow::locked(transaction, &from.session).await?;
    rules::check_fork(from, head.branch, head.length)?;
    Ok(head.key)
}

async fn begin_branch(
    transaction: &mut dyn Transaction,
    key: i64,
    branch: u32,
    from: Option<(i64, &ForkPoint)>,
) -> Result<(), Failure> {
    let place =
        from.map(|(key, from)| [Value::from(key), Value::from(from.branch), Value::from(from.at)]);
    let [session, from_branch, at] = place.unwrap_or([Value::Int(None); 3]);
    let sql = "INSERT INTO branches (session, branch, from_session, from_branch, at)
        VALUES ($1, $2, $3, $4, $5)";
    transaction.run_later(sql, values![key, branch, session, from_branch, at]).await?;
    Ok(())
}

async fn insert_batch(
    transaction: &mut dyn Transaction,
    key: i64,
    branch: u32,
    first: Seq,
    count: usize,
    body: &[u8],
) -> Result<(), Failure> {
    let sql = "INSERT INTO batches (session, branch, first, count, body, sum)
        VALUES ($1, $2, $3, $4, $5, $6)";
    transaction.run_later(sql, values![key, branch, first, count, body, checksum(body)]).await?;
    Ok(())
}

/// Implements [`SessionStore::append`](loopwright_sessions::SessionStore::append).
pub(crate) async fn append(
    transaction: &mut dyn Transaction,
    write: AppendRequest<'_>,
) -> Result<(i64, u64), Failure> {
    let AppendRequest { id, expected, batch, status, title, workdir, parent, handled, lease, now } =
        write;
    let body = encode(id, batch.changes)?;
    let head = SessionRow::locked(transaction, id).await?;
    leasing::check(transaction, id, &head, lease, now).await?;
    let print = fingerprint(&write, &body);
    if head.last.as_deref() == Some(&print) && head.version == expected + 1 {
        return Ok((head.key, head.version));
    }
    rules::check_version(id, expected, head.version)?;
    let count = batch.changes.len();
    rules::check_follows(id, expected, head.length, batch.first, count)?;
    let (length, updated_at) = (head.length + count as u64, written_at(head.updated_at, now));
    let status = status.map(SessionStatus::as_str);
    let (title, workdir) = (title.map(|it| &**it), workdir.map(|it| &**it));
    let parent = parent.map(SessionId::as_str);
    let mut sealed = head.sealed;
    sealed.set(Column::Version, expected + 1);
    sealed.set(Column::Length, length);
    sealed.set(Column::UpdatedAt, updated_at);
    sealed.set(Column::Last, &print[..]);
    sealed.set(Column::Missing, None::<&str>);
    let others = [
        (Column::Status, status),
        (Column::Title, title),
        (Column::Workdir, workdir),
        (Column::Parent, parent),
    ];
    for (column, text) in others {
        if let Some(text) = text {
            sealed.set(column, text);
        }
    }
    let sql = "
        UPDATE sessions SET version = $1, length = $2, updated_at = $3, last = $4, missing = NULL,
            status = COALESCE($5, status), title = COALESCE($6, title),
            workdir = COALESCE($7, workdir), parent = COALESCE($8, parent), sum = $9
        WHERE key = $10";
    let sum = sealed.sum();
    let (version, last) = (expected + 1, &print[..]);
    let values =
        values![version, length, updated_at, last, status, title, workdir, parent, sum, head.key];
    transaction.run_later(sql, values).await?;
    if count > 0 {
        insert_batch(transaction, head.key, head.branch, batch.first, count, &body).await?;
    }
    if let Some(number) = handled {
        leasing::handled(transaction, head.key, number).await?;
    }
    Ok((head.key, expected + 1))
}

/// Implements [`SessionStore::rewind`](loopwright_sessions::SessionStore::rewind).
pub(crate) async fn rewind(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    expected: u64,
    at: Seq,
    lease: Option<&Lease>,
    now: Timestamp,
) -> Result<(i64, u64), Failure> {
    let head = SessionRow::locked(transaction, id).await?;
    leasing::check(transaction, id, &head, lease, now).await?;
    rules::check_version(id, expected, head.version)?;
    if at > head.length {
        return Err(StoreError::NotFound(id.clone()).into());
    }
    go_back(transaction, id, &head, at, now).await?;
    seal(transaction, &[head.key]).await?;
    Ok((head.key, expected + 1))
}

/// Starts a new branch of a session. The caller must seal its row afterwards.
pub(crate) async fn go_back(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    head: &SessionRow,
    at: Seq,
    now: Timestamp,
) -> Result<(), Failure> {
    let from = ForkPoint { session: id.clone(), branch: head.branch, at };
    begin_branch(transaction, head.key, head.branch + 1, Some((head.key, &from))).await?;
    let sql = "
        UPDATE sessions SET version = $1, branch = $2, length = $3, updated_at = $4, last = NULL
        WHERE key = $5";
    let updated_at = written_at(head.updated_at, now);
    let values = values![head.version + 1, head.branch + 1, at, updated_at, head.key];
    transaction.run_later(sql, values).await?;
    Ok(())
}

/// Implements [`SessionStore::delete_unused`](loopwright_sessions::SessionStore::delete_unused). Returns the keys,
/// IDs and versions of the deleted sessions.
pub(crate) async fn delete_unused(
    transaction: &mut dyn Transaction,
    ids: &[SessionId],
    before: Timestamp,
    now: Timestamp,
) -> Result<Vec<(i64, SessionId, u64)>, Failure> {
    let mut deleted = Vec::new();
    let clock = transaction.clock(now).await?;
    for ids in ids.chunks(AT_ONCE) {
        let mut values = vec![Value::from(before), Value::from(now), Value::from(clock)];
        values.extend(ids.iter().map(|it| Value::from(it.as_str())));
        let places = (4..).take(ids.len()).map(|it| format!("${it}")).collect::<Vec<_>>();
        let sql = format!(
            "UPDATE sessions SET status = 'deleted', version = version + 1, lease_owner = NULL,
                updated_at = CASE WHEN updated_at > $2 THEN updated_at ELSE $2 END
            WHERE id IN ({}) AND status <> 'deleted' AND updated_at < $1
                AND (lease_owner IS NULL OR lease_until <= $3)
            RETURNING key, id, version",
            places.join(", ")
        );
        for mut row in transaction.rows(&sql, &values).await? {
            deleted.push((row.int(0)?, session_id(row.text(1)?)?, row.number(2)?));
        }
    }
    let keys: Vec<_> = deleted.iter().map(|(key, ..)| *key).collect();
    seal(transaction, &keys).await?;
    for key in keys {
        transaction.run("DELETE FROM control_messages WHERE session = $1", values![key]).await?;
    }
    deleted.sort_by_key(|(key, ..)| *key);
    Ok(deleted)
}

/// The maximum number of sessions in a statement.
const AT_ONCE: usize = 500;

/// Implements [`SessionStore::delete`](loopwright_sessions::SessionStore::delete).
pub(crate) async fn delete(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    now: Timestamp,
) -> Result<Option<(i64, u64)>, Failure> {
    let head = match SessionRow::locked(transaction, id).await {
        Err(Failure::Store(StoreError::NotFound(_))) => return Ok(None),
        head => head?,
    };
    let sql = "
        UPDATE sessions SET status = 'deleted', version = $1, updated_at = $2, lease_owner = NULL
        WHERE key = $3";
    let updated_at = written_at(head.updated_at, now);
    transaction.run(sql, values![head.version + 1, updated_at, head.key]).await?;
    seal(transaction, &[head.key]).await?;
    transaction.run("DELETE FROM control_messages WHERE session = $1", values![head.key]).await?;
    notes::tell_deleted(transaction, id).await?;
    Ok(Some((head.key, head.version + 1)))
}
