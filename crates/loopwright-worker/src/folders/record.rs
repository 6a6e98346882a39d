//! The log of a session's snapshots: a chain that only one process can extend at a time.
//!
//! Each entry names the number of the entry that its writer saw last, and the number of the writer's lease on the session.
//! An entry counts if it directly follows the entry that its writer saw, and no entry before it has a later lease. So of two
//! processes that append at the same time, the second one has lost, and so has one whose lease was replaced while it
//! did not notice. Both learn it from their own entry. This needs no clocks.

use std::sync::Arc;

use loopwright_core::Timestamp;
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
    /// It could not be saved, and exists only on this machine.
    Unsaved {
        /// The ID of the machine.
        machine: Arc<str>,
        /// The host name of the machine, for messages.
        host: Arc<str>,
        /// Why it could not be saved.
        reason: Arc<str>,
    },
}

/// The process that extends the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderWriter {
    /// The number of its lease on the session. It is 0 for a process that has no lease, whose entries count only as long as
    /// no process had one.
    pub(super) lease: u64,
    /// A random ID, by which it recognizes an entry whose acknowledgement was lost.
    pub(super) id: Arc<str>,
}

/// An entry of the log.
#[derive(Debug, Serialize, Deserialize)]
struct FolderRecord {
    /// The number of the last entry that its writer saw.
    after: u64,
    writer: FolderWriter,
    fact: FolderFact,
}

/// What an entry says of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderFact {
    /// The content. `None` means that the directory was never saved.
    pub(super) content: Option<FolderContent>,
    /// When outdated snapshots were last deleted.
    pub(super) cleaned: Option<Timestamp>,
}

/// The end of the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderHead {
    /// The number of the last entry, which may be an attempt that lost.
    last: u64,
    /// The number of the last entry that counts.
    counted: u64,
    /// The process that wrote it.
    writer: FolderWriter,
    pub(super) fact: FolderFact,
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

    /// Returns `true` if no process with a lease has extended the chain.
    pub(super) fn is_untouched(&self) -> bool {
        self.writer.lease == 0
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
        let FolderRecord { after, writer, fact } = serde_json::from_slice(&entry.body)
            .map_err(|source| FolderError::UnknownRecord { session: id.clone(), source })?;
        self.last = entry.number;
        if after.checked_add(1) == Some(entry.number) && writer.lease >= self.writer.lease {
            *self = Self { last: entry.number, counted: entry.number, writer, fact };
        }
        Ok(())
    }

    /// Appends to the chain, and returns its new end. `None` means that another process has extended it since, or has a later
    /// lease.
    ///
    /// An own entry whose acknowledgement was lost is part of the chain, and the new one follows it.
    pub(super) async fn extend(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
        writer: &FolderWriter,
        fact: &FolderFact,
    ) -> Result<Option<Self>, FolderError> {
        let mut head = self.clone();
        for _ in 0..ATTEMPTS {
            if head.writer.lease > writer.lease {
                return Ok(None);
            }
            let record =
                FolderRecord { after: head.last, writer: writer.clone(), fact: fact.clone() };
            let body = serde_json::to_vec(&record)
                .map_err(|source| FolderError::UnknownRecord { session: id.clone(), source })?;
            let number =
                store.append_log(id, SessionLog::Folder, &[body.into()], Some(KEEP)).await?;
            if head.last.checked_add(1) == Some(number) {
                let (writer, fact) = (writer.clone(), fact.clone());
                return Ok(Some(Self { last: number, counted: number, writer, fact }));
            }
            // What was appended before it, and did this process do that?
            head.read_on(store, id).await?;
            if head.counted > self.counted && head.writer != *writer {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use loopwright_agent::AgentDefinition;
    use loopwright_sessions::{MemoryStore, NewSession, SessionHeader};

    use super::*;

    async fn store() -> (MemoryStore, SessionId) {
        let (store, id) = (MemoryStore::new(), SessionId::new("a").unwrap());
        let header = &SessionHeader::new(id.clone(), "agent", Timestamp::from_millis(0));
        let definition = &AgentDefinition::new("agent", "works", "You work.");
        store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
        (store, id)
    }

    fn by(lease: u64, id: &str) -> FolderWriter {
        FolderWriter { lease, id: id.into() }
    }

    fn on(machine: &str) -> FolderFact {
        let [machine, host, reason] = [machine, "host", "away"].map(Arc::from);
        let content = Some(FolderContent::Unsaved { machine, host, reason });
        FolderFact { content, cleaned: None }
    }

    #[tokio::test]
    async fn of_two_that_append_after_the_same_entry_the_second_has_lost() {
        let (store, id) = store().await;
        let (one, two) = (by(1, "one"), by(1, "two"));
        let begin = FolderHead::read(&store, &id).await.unwrap();
        assert_eq!(begin, FolderHead::default());
        let first = begin.extend(&store, &id, &one, &on("one")).await.unwrap().unwrap();
        assert_eq!(begin.extend(&store, &id, &two, &on("two")).await.unwrap(), None);
        let read = FolderHead::read(&store, &id).await.unwrap();
        assert_eq!(read, FolderHead { last: 2, ..first.clone() });
        // The first one continues behind the entry of the other, which does not count.
        let next = first.extend(&store, &id, &one, &on("three")).await.unwrap().unwrap();
        let expected = FolderHead { last: 4, counted: 4, writer: one, fact: on("three") };
        assert_eq!(next, expected);
        assert_eq!(FolderHead::read(&store, &id).await.unwrap(), next);
    }

    #[tokio::test]
    async fn a_process_whose_lease_was_replaced_cannot_extend_the_chain_that_it_reads_later() {
        let (store, id) = store().await;
        let begin = FolderHead::default();
        let later = begin.extend(&store, &id, &by(2, "two"), &on("two")).await.unwrap().unwrap();
        // It was suspended before it read the chain.
        let read = FolderHead::read(&store, &id).await.unwrap();
        assert_eq!(read, later);
        assert_eq!(read.extend(&store, &id, &by(1, "one"), &on("one")).await.unwrap(), None);
        let after = FolderHead::read(&store, &id).await.unwrap();
        assert_eq!(after.fact, on("two"));
        let next = later.extend(&store, &id, &by(2, "two"), &on("three")).await.unwrap();
        assert_eq!(next.unwrap().fact, on("three"));
    }

    #[tokio::test]
    async fn an_own_entry_whose_acknowledgement_was_lost_is_part_of_the_chain() {
        let (store, id) = store().await;
        let (one, begin) = (by(1, "one"), FolderHead::default());
        begin.extend(&store, &id, &one, &on("lost")).await.unwrap().unwrap();
        let next = begin.extend(&store, &id, &one, &on("next")).await.unwrap().unwrap();
        assert_eq!(next.fact, on("next"));
        assert_eq!(FolderHead::read(&store, &id).await.unwrap(), next);
        let other = by(1, "two");
        assert_eq!(begin.extend(&store, &id, &other, &on("other")).await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_entry_with_the_largest_number_does_not_count() {
        let (store, id) = store().await;
        let record = FolderRecord { after: u64::MAX, writer: by(1, "one"), fact: on("one") };
        let body = serde_json::to_vec(&record).unwrap();
        store.append_log(&id, SessionLog::Folder, &[body.into()], None).await.unwrap();
        let read = FolderHead::read(&store, &id).await.unwrap();
        assert_eq!(read, FolderHead { last: 1, ..FolderHead::default() });
    }

    #[tokio::test]
    async fn the_end_of_a_long_chain_is_found_among_the_entries_that_are_kept() {
        let (store, id) = store().await;
        let (one, mut head) = (by(1, "one"), FolderHead::default());
        for number in 0..PAGE * 2 {
            let fact = on(&number.to_string());
            head = head.extend(&store, &id, &one, &fact).await.unwrap().unwrap();
        }
        assert_eq!(FolderHead::read(&store, &id).await.unwrap(), head);
    }
}
