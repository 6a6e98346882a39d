//! The row of a session.

use std::collections::{BTreeMap, BTreeSet};

use loopwright_core::{Seq, Timestamp};
use loopwright_sessions::{
    ForkPoint, Lease, SessionHeader, SessionId, SessionStatus, StoreError, stored::check_format,
};

use crate::{
    database::Transaction,
    error::Failure,
    row::{Cell, Row, Value, values},
    seal::{self, SEALED, Sealed, WIDTH},
};

/// The columns of the header of a session, which [`header`] reads.
pub(crate) const HEADER: &str = "
    SELECT s.id, s.status, s.version, s.length, s.branch, f.id, l.from_branch, l.at, s.parent, s.call,
        s.workdir, s.agent_name, s.agent_label, s.title, s.created_at, s.updated_at, s.key,
        s.format, s.last, s.missing, s.sum
    FROM sessions s
    LEFT JOIN branches l ON l.session = s.key AND l.branch = s.branch
    LEFT JOIN sessions f ON f.key = l.from_session";

/// The position of the row's key in [`HEADER`].
const KEY: usize = 16;

/// The positions in [`HEADER`] of the columns that a checksum covers, in the order of the checksum.
const COVERED: [usize; WIDTH] = [0, 17, 1, 2, 4, 3, 8, 9, 10, 11, 12, 13, 14, 15, 18, 19];
/// The position of the checksum in [`HEADER`].
const SUM: usize = 20;

/// Reads a row of [`HEADER`].
pub(crate) fn header(row: &mut Row) -> Result<SessionHeader, Failure> {
    let sum = row.maybe_int(SUM)?;
    seal::check(COVERED.iter().filter_map(|place| row.0.get(*place)), sum)?;
    let from = match row.maybe_text(5)? {
        Some(session) => Some(ForkPoint {
            session: session_id(session)?,
            branch: row.number(6)?,
            at: row.number(7)?,
        }),
        None => None,
    };
    Ok(SessionHeader {
        id: session_id(row.text(0)?)?,
        status: status(&row.text(1)?)?,
        version: row.number(2)?,
        length: row.number(3)?,
        branch: row.number(4)?,
        from,
        parent: row.maybe_text(8)?.map(session_id).transpose()?,
        call: row.maybe_text(9)?.map(Into::into),
        workdir: row.maybe_text(10)?.map(Into::into),
        agent_name: row.text(11)?.into(),
        agent_label: row.text(12)?.into(),
        title: row.maybe_text(13)?.map(Into::into),
        created_at: row.moment(14)?,
        updated_at: row.moment(15)?,
    })
}

/// The columns of a [`SessionRow`] before those that its checksum covers.
const BESIDE: &str = "key, leases, lease_owner, lease_until, sum";

/// The number of these columns.
const BESIDE_WIDTH: usize = 5;

/// The largest number of sessions that one statement finds.
const MAX_FOUND: usize = 256;

/// The data of a session that a writer needs.
#[derive(Debug)]
pub(crate) struct SessionRow {
    pub(crate) key: i64,
    pub(crate) version: u64,
    pub(crate) branch: u32,
    pub(crate) length: Seq,
    pub(crate) updated_at: Timestamp,
    /// The identifier of the last write.
    pub(crate) last: Option<Vec<u8>>,
    /// The number of leases so far, which is also the number of the last one.
    pub(crate) leases: u64,
    pub(crate) lease: Option<Lease>,
    /// The columns that the checksum of the row covers.
    pub(crate) sealed: Sealed,
}

impl SessionRow {
    /// Finds a session that was not deleted, and blocks other writers of the session until the end of the
    /// transaction.
    pub(crate) async fn locked(
        transaction: &mut dyn Transaction,
        id: &SessionId,
    ) -> Result<Self, Failure> {
        let lock = transaction.for_update();
        Self::find(transaction, id, lock).await
    }

    /// Finds sessions that were not deleted, and blocks other writers of them until the end of the transaction. Returns the
    /// key of each, and the values of these expressions.
    pub(crate) async fn all_locked(
        transaction: &mut dyn Transaction,
        ids: &BTreeSet<&SessionId>,
        expressions: &[String],
    ) -> Result<BTreeMap<SessionId, (i64, Vec<Cell>)>, Failure> {
        let (lock, order) = (transaction.for_update(), transaction.by_bytes());
        let ids: Vec<Value<'_>> = ids.iter().map(|it| it.as_str().into()).collect();
        let columns = std::iter::once("").chain(expressions.iter().map(String::as_str));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let mut found = BTreeMap::new();
        for ids in ids.chunks(MAX_FOUND) {
            // The database prepares a statement for each size once.
            let size = ids.len().next_power_of_two();
            let places = (1..=size).map(|it| format!("${it}")).collect::<Vec<_>>().join(", ");
            let sql = format!(
                "SELECT {BESIDE}, {SEALED}{columns} FROM sessions s WHERE id IN ({places})
                ORDER BY id{order}{lock}"
            );
            let repeated = ids.iter().chain(std::iter::repeat(&ids[0])).take(size);
            let values: Vec<_> = repeated.copied().collect();
            for mut row in transaction.rows(&sql, &values).await? {
                let values = row.0.split_off(BESIDE_WIDTH + WIDTH);
                let id = session_id(Row(vec![row.0[BESIDE_WIDTH].clone()]).text(0)?)?;
                if let Some(row) = Self::read(&id, row)? {
                    found.insert(id, (row.key, values));
                }
            }
        }
        Ok(found)
    }

    /// Finds a session that was not deleted.
    pub(crate) async fn seen(
        transaction: &mut dyn Transaction,
        id: &SessionId,
    ) -> Result<Self, Failure> {
        Self::find(transaction, id, "").await
    }

    async fn find(
        transaction: &mut dyn Transaction,
        id: &SessionId,
        lock: &str,
    ) -> Result<Self, Failure> {
        let sql = format!("SELECT {BESIDE}, {SEALED} FROM sessions WHERE id = $1{lock}");
        let not_found = || StoreError::NotFound(id.clone());
        let row = transaction.row(&sql, values![id.as_str()]).await?.ok_or_else(not_found)?;
        Self::read(id, row)?.ok_or_else(|| not_found().into())
    }

    /// Reads a row. `None` if the session was deleted.
    fn read(id: &SessionId, mut row: Row) -> Result<Option<Self>, Failure> {
        let sealed = Sealed::split_off(&mut row, BESIDE_WIDTH);
        let mut covered = sealed.row();
        if status(&covered.text(2)?)? == SessionStatus::Deleted {
            return Ok(None);
        }
        check_format(id, covered.number(1)?)?;
        sealed.check(row.maybe_int(4)?)?;
        let leases = row.number(1)?;
        let lease = match row.maybe_text(2)? {
            Some(owner) => {
                let (owner, until) = (owner.into(), row.moment(3)?);
                Some(Lease { id: id.clone(), owner, number: leases, until, last_control: 0 })
            }
            None => None,
        };
        Ok(Some(Self {
            key: row.int(0)?,
            version: covered.number(3)?,
            branch: covered.number(4)?,
            length: covered.number(5)?,
            updated_at: covered.moment(13)?,
            last: covered.maybe_bytes(14)?,
            leases,
            lease,
            sealed,
        }))
    }

    /// Returns `true` if this lease is held.
    pub(crate) fn is_held(&self, lease: &Lease) -> bool {
        self.lease.as_ref().is_some_and(|held| held.number == lease.number)
    }
}

/// The prefix of the placeholder of a damaged session ID. The session's key follows.
const DAMAGED: &str = "damaged-";

/// Returns the ID of a row of [`HEADER`] that cannot be read, or its placeholder.
pub(crate) fn name_of_damaged(row: &Row) -> Option<SessionId> {
    let own = match row.0.first() {
        Some(Cell::Text(name)) => SessionId::new(name.clone()).ok(),
        _ => None,
    };
    let standing = || match row.0.get(KEY) {
        Some(Cell::Int(key)) => stands_for(*key),
        _ => None,
    };
    own.or_else(standing)
}

/// Returns the placeholder of a damaged session ID.
pub(crate) fn stands_for(key: i64) -> Option<SessionId> {
    SessionId::new(format!("{DAMAGED}{key}")).ok()
}

/// Returns the key of a session from the placeholder of its damaged ID.
pub(crate) fn key_of_damaged(id: &SessionId) -> Option<i64> {
    id.as_str().strip_prefix(DAMAGED)?.parse().ok()
}

pub(crate) fn session_id(name: String) -> Result<SessionId, Failure> {
    SessionId::new(name).map_err(|error| Failure::Form(error.to_string()))
}

fn status(word: &str) -> Result<SessionStatus, Failure> {
    SessionStatus::named(word).ok_or_else(|| Failure::Form(format!("`{word}` is not a status")))
}
