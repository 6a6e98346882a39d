//! Reading a session with all its changes.

use loopwright_agent::AgentDefinition;
use loopwright_sessions::{
    Loaded, SessionHeader, SessionId, StoreError,
    stored::{StoredBatch, decode, decode_batches},
};

use crate::{
    batches::batches,
    database::Transaction,
    decoding::Decoding,
    error::Failure,
    head::{HEADER, Head, header},
    row::values,
};

/// A session as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) header: SessionHeader,
    definition: Vec<u8>,
    pub(crate) batches: Vec<StoredBatch>,
}

/// Returns what is known of a session, deleted or not.
pub(crate) async fn find(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<SessionHeader>, Failure> {
    let sql = format!("{HEADER} WHERE s.id = $1");
    let row = transaction.row(&sql, values![id.as_str()]).await?;
    row.map(|mut row| header(&mut row)).transpose()
}

/// Returns a session's agent; nothing if there is no such session or it was deleted.
pub(crate) async fn definition(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<AgentDefinition>, Failure> {
    let Some(head) = live(transaction, id).await? else { return Ok(None) };
    let body = definition_of(transaction, &head).await?;
    Ok(Some(decode(id, &body)?))
}

/// Finds a session; nothing if there is none or it was deleted.
async fn live(transaction: &mut dyn Transaction, id: &SessionId) -> Result<Option<Head>, Failure> {
    match Head::seen(transaction, id).await {
        Err(Failure::Store(StoreError::NotFound(_))) => Ok(None),
        head => head.map(Some),
    }
}

async fn definition_of(transaction: &mut dyn Transaction, head: &Head) -> Result<Vec<u8>, Failure> {
    let sql = "SELECT body FROM definitions WHERE session = $1";
    let row = transaction.row(sql, values![head.key]).await?;
    let missing = || Failure::Form("it has no definition of an agent".to_owned());
    row.ok_or_else(missing)?.bytes(0)
}

/// Returns a session as it is stored; nothing if there is none or it was deleted.
pub(crate) async fn read(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<Option<Stored>, Failure> {
    let Some(head) = live(transaction, id).await? else { return Ok(None) };
    let Some(header) = find(transaction, id).await? else { return Ok(None) };
    let definition = definition_of(transaction, &head).await?;
    let mut all = Vec::new();
    batches(transaction, &head, |it| all.extend(it)).await?;
    // Each line begins where the one that it leaves ends.
    all.sort_by_key(|batch| batch.first);
    Ok(Some(Stored { header, definition, batches: all }))
}

/// A session whose changes are being read.
pub(crate) struct Loading {
    header: SessionHeader,
    definition: Vec<u8>,
    changes: Decoding,
}

/// Begins to load a session; nothing if there is none or it was deleted. Its changes are read while others
/// are on their way.
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
    /// Returns the session once it is read.
    pub(crate) async fn end(self) -> Result<Loaded, StoreError> {
        let Self { header, definition, changes } = self;
        let definition = decode(&header.id, &definition)?;
        let changes = changes.end(header.length).await?;
        Ok(Loaded { header, definition, changes })
    }
}

impl Stored {
    /// Makes sense of it.
    pub(crate) fn decode(self) -> Result<Loaded, StoreError> {
        let Self { header, definition, batches } = self;
        let id = &header.id;
        let definition: AgentDefinition = decode(id, &definition)?;
        let changes = decode_batches(id, header.length, &batches)?;
        Ok(Loaded { definition, changes, header })
    }

    /// Returns how many changes can be read, counted from the first.
    pub(crate) fn readable(&self) -> u64 {
        let mut next = 0;
        for StoredBatch { first, count, body } in &self.batches {
            let changes = decode::<Vec<loopwright_core::Stamped>>(&self.header.id, body);
            if *first != next || !changes.is_ok_and(|changes| changes.len() >= *count) {
                break;
            }
            next += *count as u64;
        }
        next
    }
}
