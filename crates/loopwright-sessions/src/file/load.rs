//! Reading sessions, and pages of them.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use loopwright_agent::AgentDefinition;
use loopwright_core::Seq;

use super::{
    disk,
    failure::At as _,
    frame,
    frame_file::corrupt,
    record::Record,
    root::{LOG, ReadMode, Root},
    session_log::{SessionLogFile, not_whole},
    slot::{Entry, IndexQuery, SLOT},
};
use crate::{
    header::{SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    status::SessionStatus,
    store::{LoadedSession, StoreError},
    stored::{StoredBatch, decode, decode_batches},
};

/// The branches that lead to a state: its own one, the one which that leaves, and so on.
pub(super) struct Chain {
    ledgers: BTreeMap<SessionId, SessionLogFile>,
    /// Whose branches they are, their numbers, and how many changes have come by their ends.
    branches: Vec<(SessionId, u32, Seq)>,
}

impl Chain {
    /// Returns the batches that lead to the state, in their order.
    pub(super) fn batches(&self) -> Vec<StoredBatch<&[u8]>> {
        let branches = self.branches.iter().rev();
        let batches = branches.filter_map(|(id, number, until)| {
            let ledger = self.ledgers.get(id)?;
            Some(ledger.batches(ledger.branches.get(*number as usize)?, *until))
        });
        batches.flatten().collect()
    }
}

impl Root {
    /// Returns a session with all changes that lead to its state.
    pub(super) fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        let found = self.ledger(id, ReadMode::WaitForWriter)?;
        let Some(ledger) = found.filter(|it| !it.last.is_deleted()) else { return Ok(None) };
        let header = ledger.header();
        let definition = decode(id, &ledger.bytes[ledger.definition.clone()])?;
        let chain = self.chain(ledger)?;
        let changes = decode_batches(id, header.length, &chain.batches())?;
        Ok(Some(LoadedSession { header, definition, changes }))
    }

    /// Returns a session's agent. Of the log, the first record is read.
    pub(super) fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        let header = self.header(id, ReadMode::WaitForWriter)?;
        if header.is_none_or(|it| it.status == SessionStatus::Deleted) {
            return Ok(None);
        }
        let path = self.sessions().join(id.as_str()).join(LOG);
        let file = disk::open(&path).at(&path)?;
        let first = match file {
            Some(mut file) => frame::beginning_at(&mut file, 0).at(&path)?,
            None => None,
        };
        let record = first.as_ref().and_then(|it| Record::read(&it.head));
        let length = record.and_then(|it| Some(it.session?.definition));
        let body = first.as_ref().zip(length).and_then(|(it, length)| it.body.get(..length));
        body.map_or_else(|| Err(not_whole(id, &path)), |it| decode(id, it)).map(Some)
    }

    /// Reads the logs of the branches that lead to a state.
    pub(super) fn chain(&self, ledger: SessionLogFile) -> Result<Chain, StoreError> {
        let own = ledger.birth.id.clone();
        let mut place = Some((own.clone(), ledger.last.branch, ledger.last.length));
        let mut ledgers = BTreeMap::from([(own.clone(), ledger)]);
        let (mut branches, mut seen) = (Vec::new(), BTreeSet::new());
        while let Some((id, number, until)) = place {
            if !seen.insert((id.clone(), number)) {
                return Err(corrupt(
                    &own,
                    format!("the session's branch starts from itself, in `{id}`"),
                ));
            }
            if !ledgers.contains_key(&id) {
                let found = self.ledger(&id, ReadMode::WaitForWriter)?;
                let found = found.ok_or_else(|| {
                    corrupt(
                        &own,
                        format!(
                            "the session starts with changes of `{id}`, which no longer \
                        exists"
                        ),
                    )
                })?;
                ledgers.insert(id.clone(), found);
            }
            let branch = ledgers.get(&id).and_then(|it| it.branches.get(number as usize));
            let branch =
                branch.ok_or_else(|| corrupt(&own, format!("`{id}` has no branch {number}")))?;
            let from = branch.from.as_ref();
            place = from.map(|it| (it.session.clone(), it.branch, it.at.min(until)));
            branches.push((id, number, until));
        }
        Ok(Chain { ledgers, branches })
    }

    /// Returns how much is needed of each branch, for the sessions that can be loaded.
    pub(super) fn needed(&self) -> Result<BTreeMap<(SessionId, u32), Seq>, StoreError> {
        let (mut needed, mut branches) = (BTreeMap::new(), BTreeMap::new());
        for id in self.names()?.into_iter().flatten() {
            // What a session needs that cannot be read is not known, so nothing is reclaimed then.
            let Some(header) = self.header(&id, ReadMode::WaitForWriter)? else { continue };
            if header.status == SessionStatus::Deleted {
                continue;
            }
            needed.insert((id, header.branch), header.length);
            let mut from = header.from.map(|it| (it, header.length));
            while let Some((place, until)) = from {
                let until = place.at.min(until);
                let most = needed.entry((place.session.clone(), place.branch)).or_insert(0);
                *most = until.max(*most);
                if !branches.contains_key(&place.session) {
                    let ledger = self.ledger(&place.session, ReadMode::WaitForWriter)?;
                    let all = ledger.map(|it| it.branches.into_iter().map(|it| it.from).collect());
                    let all: Vec<_> = all.unwrap_or_default();
                    branches.insert(place.session.clone(), all);
                }
                let branch =
                    branches.get(&place.session).and_then(|it| it.get(place.branch as usize));
                from = branch.cloned().flatten().map(|it| (it, until));
            }
        }
        Ok(needed)
    }

    /// Returns the IDs with this prefix, up to a limit, without those of deleted sessions.
    pub(super) fn named(&self, beginning: &str, most: usize) -> Result<Vec<SessionId>, StoreError> {
        let names = self.names()?.into_iter().flatten();
        let matching = names.filter(|it| it.as_str().starts_with(beginning));
        let is_there = |id: &SessionId| match self.header(id, ReadMode::WaitForWriter) {
            Ok(header) => header.is_some_and(|it| it.status != SessionStatus::Deleted),
            Err(_) => true,
        };
        Ok(matching.filter(is_there).take(most).collect())
    }

    /// Returns a page of sessions. Of those that cannot be read it has the names.
    ///
    /// The index tells which may be on it; only of these the logs are looked at.
    pub(super) fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        let (entries, wanted) = (self.entries()?, IndexQuery::of(query));
        let entries = entries.chunks_exact(SLOT).filter_map(Entry::read);
        let candidates = entries.filter(|it| wanted.may_be(*it));
        let places = candidates.filter_map(|it| Some((it.updated_at(), it.name()?)));
        let mut candidates: BinaryHeap<_> = places.collect();
        let (mut seen, mut found) = (BTreeSet::new(), Vec::<SessionHeader>::new());
        let mut unreadable = Vec::new();
        while let Some((updated_at, name)) = candidates.pop() {
            // One more shows that there is another page.
            if let Some(last) = found.get(query.limit)
                && (last.updated_at, last.id.as_str()) > (updated_at, name)
            {
                break;
            }
            let Some(id) = SessionId::new(name).ok().filter(|_| seen.insert(name)) else {
                continue;
            };
            match self.header(&id, ReadMode::WaitForWriter) {
                Ok(Some(header)) if query.matches(&header) => {
                    let key = |it: &SessionHeader| (it.updated_at, it.id.clone());
                    let place = found.partition_point(|it| key(it) > key(&header));
                    found.insert(place, header);
                }
                Err(_) if query.is_after(updated_at, name) => unreadable.push(id),
                _ => {}
            }
        }
        Ok(SessionList { unreadable, ..SessionList::from_headers(query, found) })
    }
}
