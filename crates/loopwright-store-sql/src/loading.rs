//! Reading a session with all its changes.

use loopwright_agent::AgentDefinition;
use loopwright_core::Seq;
use loopwright_sessions::{
    LoadedSession, Salvaged, SessionHeader, SessionId, StoreError,
    stored::{StoredBatch, checksum, decode, decode_batches, decode_intact},
};

use crate::{
    batches::batches,
    database::Transaction,
    decoding::Decoding,
    error::Failure,
    head::{HEADER, SessionRow, header, key_of_damaged, session_id},
    row::values,
};

/// A session as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) header: SessionHeader,
    definition: Vec<u8>,
    pub(crate) batches: Vec<StoredBatch>,
}

/// Returns the header of a session, deleted or not.
pub(crate) async fn find(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<SessionHeader>, Failure> {
    let sql = format!("{HEADER} WHERE s.id = $1");
    let row = transaction.row(&sql, values![id.as_str()]).await?;
    let Some(mut row) = row else { return damaged_name(transaction, id).await };
    header(&mut row).map(Some)
}

/// Finds a session by the placeholder of its damaged ID.
async fn damaged_name(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<SessionHeader>, Failure> {
    let Some(key) = key_of_damaged(id) else { return Ok(None) };
    let row = transaction.row("SELECT id FROM sessions WHERE key = $1", values![key]).await?;
    match row.map(|mut row| row.text(0).and_then(session_id)) {
        Some(Err(_)) => Err(Failure::Form("the session ID is damaged".to_owned())),
        _ => Ok(None),
    }
}

/// Returns a session's agent, or `None` if the session does not exist or was deleted.
pub(crate) async fn definition(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<AgentDefinition>, Failure> {
    let Some(head) = live(transaction, id).await? else { return Ok(None) };
    let body = definition_of(transaction, &head).await?;
    Ok(Some(decode(id, &body)?))
}

/// Finds a session. Returns `None` if it does not exist or was deleted.
async fn live(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<SessionRow>, Failure> {
    match SessionRow::seen(transaction, id).await {
        Err(Failure::Store(StoreError::NotFound(_))) => Ok(None),
        head => head.map(Some),
    }
}

async fn definition_of(
    transaction: &mut dyn Transaction,
    head: &SessionRow,
) -> Result<Vec<u8>, Failure> {
    let sql = "SELECT body, sum FROM definitions WHERE session = $1";
    let row = transaction.row(sql, values![head.key]).await?;
    let missing = || Failure::Form("the agent definition is missing".to_owned());
    let mut row = row.ok_or_else(missing)?;
    let (body, sum) = (row.bytes(0)?, row.maybe_int(1)?);
    if sum.is_some_and(|sum| sum != i64::from(checksum(&body))) {
        return Err(Failure::Form("the agent definition is damaged".to_owned()));
    }
    Ok(body)
}

/// Returns the intact data of a session, or `None` if it does not exist or was deleted. The definition of its agent
/// can be damaged.
pub(crate) async fn salvage(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<Salvaged>, Failure> {
    let Some(head) = live(transaction, id).await? else { return Ok(None) };
    let Some(header) = find(transaction, id).await? else { return Ok(None) };
    let mut all = Vec::new();
    batches(transaction, &head, |it| all.extend(it)).await?;
    all.sort_by_key(|batch| batch.first);
    Ok(Some(Stored { header, definition: Vec::new(), batches: all }.intact()))
}

/// Returns a description of what a session lost.
pub(crate) async fn missing(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<String>, Failure> {
    let sql = "SELECT missing FROM sessions WHERE id = $1 AND status <> 'deleted'";
    let row = transaction.row(sql, values![id.as_str()]).await?;
    row.map_or(Ok(None), |mut row| row.maybe_text(0))
}

/// Returns a session as it is stored, or `None` if it does not exist or was deleted.
pub(crate) async fn read(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<Stored>, Failure> {
    let Some(head) = live(transaction, id).await? else { return Ok(None) };
    let Some(header) = find(transaction, id).await? else { return Ok(None) };
    let definition = definition_of(transaction, &head).await?;
    let mut all = Vec::new();
    batches(transaction, &head, |it| all.extend(it)).await?;
    // Each branch starts at the end of the part that it shares with the previous one.
    all.sort_by_key(|batch| batch.first);
    Ok(Some(Stored { header, definition, batches: all }))
}

/// Returns the header of a session, and the batches of its changes from a number on. Returns `None` if another branch is the
/// current one, or has fewer changes.
pub(crate) async fn read_from(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    branch: u32,
    first: Seq,
) -> Result<Option<(SessionHeader, Vec<StoredBatch>)>, Failure> {
    let Some(head) = live(transaction, id).await? else { return Ok(None) };
    if head.branch != branch || head.length < first {
        return Ok(None);
    }
    let Some(header) = find(transaction, id).await? else { return Ok(None) };
    let sql = "
        SELECT first, count, body, sum FROM batches
        WHERE session = $1 AND branch = $2 AND first < $4 AND first >= COALESCE((
            SELECT MAX(first) FROM batches WHERE session = $1 AND branch = $2 AND first <= $3
        ), $3)
        ORDER BY first";
    let mut newer = Vec::new();
    for mut row in transaction.rows(sql, values![head.key, branch, first, head.length]).await? {
        let sum = row.maybe_int(3)?.map(u32::try_from).transpose();
        let sum = sum.map_err(|error| Failure::Form(error.to_string()))?;
        let (first, count, body) = (row.number(0)?, row.number(1)?, row.bytes(2)?);
        newer.push(StoredBatch { first, count, body, sum }.until(head.length));
    }
    Ok(Some((header, newer)))
}

/// A session whose changes are being read.
pub(crate) struct Loading {
    header: SessionHeader,
    definition: Vec<u8>,
    changes: Decoding,
}

/// Starts to load a session. Returns `None` if it does not exist or was deleted. Its changes are decoded while
/// others are still being read.
pub(crate) async fn begin(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<Loading>, Failure> {
    let Some(head) = live(transaction, id).await? else { return Ok(None) };
    let Some(header) = find(transaction, id).await? else { return Ok(None) };
    let definition = definition_of(transaction, &head).await?;
    let mut changes = Decoding::begin(id);
    batches(transaction, &head, |it| changes.take(it)).await?;
    Ok(Some(Loading { header, definition, changes }))
}

impl Loading {
    /// Returns the session after everything was read.
    pub(crate) async fn end(self) -> Result<LoadedSession, StoreError> {
        let Self { header, definition, changes } = self;
        let definition = decode(&header.id, &definition)?;
        let changes = changes.end(header.length).await?;
        Ok(LoadedSession { header, definition, changes })
    }
}

impl Stored {
    /// Decodes the session.
    pub(crate) fn decode(self) -> Result<LoadedSession, StoreError> {
        let Self { header, definition, batches } = self;
        let id = &header.id;
        let definition: AgentDefinition = decode(id, &definition)?;
        let changes = decode_batches(id, header.length, &batches)?;
        Ok(LoadedSession { definition, changes, header })
    }

    /// Returns the intact data of the session.
    pub(crate) fn intact(self) -> Salvaged {
        let Self { header, batches, .. } = self;
        let (changes, gaps) = decode_intact(&header.id, header.length, &batches);
        Salvaged { header, changes, gaps }
    }

    /// Returns the number of readable changes, counted from the first.
    pub(crate) fn readable(&self) -> u64 {
        let mut next = 0;
        for batch in &self.batches {
            if batch.first != next || batch.decode(&self.header.id).is_err() {
                break;
            }
            next += batch.count as u64;
        }
        next
    }
}
