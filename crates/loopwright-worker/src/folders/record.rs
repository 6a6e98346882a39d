//! The log of a session's snapshots: a chain that only one process can extend at a time.
//!
//! Each entry names the number of the entry that its writer saw last. An entry counts if that is the one directly before it.
//! So of two processes that append at the same time, the second one has lost, and both learn it from the number that
//! their entry got. This needs neither clocks nor leases.

use std::sync::Arc;

use loopwright_sessions::{LogEntry, SessionId, SessionLog, SessionStore};
use loopwright_workspaces::SnapshotId;
use serde::{Deserialize, Serialize};

use super::FolderError;

/// The number of entries that stay. Only the last one that counts matters; those behind it are attempts that lost.
const KEEP: u64 = 64;

/// How often a process appends again behind attempts of others that lost.
const ATTEMPTS: usize = 4;

/// The number of entries that are read at once.
const PAGE: usize = 256;

/// The content of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FolderContent {
    /// A snapshot.
    Saved(SnapshotId),
    /// It could not be saved, and is on this machine.
    Unsaved { machine: Arc<str> },
}

/// An entry of the log.
#[derive(Debug, Serialize, Deserialize)]
struct FolderRecord {
    /// The number of the last entry that its writer saw.
    after: u64,
    content: FolderContent,
}

/// The end of the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderHead {
    /// The number of the last entry.
    last: u64,
    /// The content that counts. `None` means that the directory was never saved.
    pub(super) content: Option<FolderContent>,
}

impl FolderHead {
    /// Reads the end of the chain.
    pub(super) async fn read(
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<Self, FolderError> {
        let mut head = Self::default();
        head.read_on(store, id).await?;
        Ok(head)
    }

    /// Reads the entries behind the last one.
    async fn read_on(
        &mut self,
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<(), FolderError> {
        loop {
            let entries = store.read_log(id, SessionLog::Folder, self.last, PAGE).await?;
            for entry in &entries {
                self.apply(id, entry)?;
            }
            if entries.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn apply(&mut self, id: &SessionId, entry: &LogEntry) -> Result<(), FolderError> {
        let record: FolderRecord = serde_json::from_slice(&entry.body)
            .map_err(|source| FolderError::UnknownRecord { session: id.clone(), source })?;
        self.last = entry.number;
        if record.after + 1 == entry.number {
            self.content = Some(record.content);
        }
        Ok(())
    }

    /// Appends to the chain, and returns its new end. `None` means that another process has extended it since.
    pub(super) async fn extend(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
        content: FolderContent,
    ) -> Result<Option<Self>, FolderError> {
        let mut last = self.last;
        for _ in 0..ATTEMPTS {
            let record = FolderRecord { after: last, content: content.clone() };
            let body = serde_json::to_vec(&record)
                .map_err(|source| FolderError::UnknownRecord { session: id.clone(), source })?;
            let number =
                store.append_log(id, SessionLog::Folder, &[body.into()], Some(KEEP)).await?;
            if number == last + 1 {
                return Ok(Some(Self { last: number, content: Some(content) }));
            }
            // Attempts of others that lost do not matter.
            let mut behind = Self { last, content: None };
            behind.read_on(store, id).await?;
            if behind.content.is_some() {
                return Ok(None);
            }
            last = behind.last;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use loopwright_agent::AgentDefinition;
    use loopwright_core::Timestamp;
    use loopwright_sessions::{MemoryStore, NewSession, SessionHeader};

    use super::*;

    async fn store() -> (MemoryStore, SessionId) {
        let (store, id) = (MemoryStore::new(), SessionId::new("a").unwrap());
        let header = &SessionHeader::new(id.clone(), "agent", Timestamp::from_millis(0));
        let definition = &AgentDefinition::new("agent", "works", "You work.");
        store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
        (store, id)
    }

    fn on(machine: &str) -> FolderContent {
        FolderContent::Unsaved { machine: machine.into() }
    }

    #[tokio::test]
    async fn of_two_that_append_after_the_same_entry_the_second_has_lost() {
        let (store, id) = store().await;
        let begin = FolderHead::read(&store, &id).await.unwrap();
        assert_eq!(begin, FolderHead::default());
        let first = begin.extend(&store, &id, on("one")).await.unwrap().unwrap();
        assert_eq!(begin.extend(&store, &id, on("two")).await.unwrap(), None);
        assert_eq!(
            FolderHead::read(&store, &id).await.unwrap(),
            FolderHead { last: 2, ..first.clone() }
        );
        // The first one continues behind the entry of the other, which does not count.
        let next = first.extend(&store, &id, on("three")).await.unwrap().unwrap();
        assert_eq!(next, FolderHead { last: 4, content: Some(on("three")) });
        assert_eq!(FolderHead::read(&store, &id).await.unwrap(), next);
    }

    #[tokio::test]
    async fn the_end_of_a_long_chain_is_found_among_the_entries_that_are_kept() {
        let (store, id) = store().await;
        let mut head = FolderHead::default();
        for number in 0..PAGE * 2 {
            head = head.extend(&store, &id, on(&number.to_string())).await.unwrap().unwrap();
        }
        assert_eq!(FolderHead::read(&store, &id).await.unwrap(), head);
    }
}
