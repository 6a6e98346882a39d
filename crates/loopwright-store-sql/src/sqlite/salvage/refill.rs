//! Writing of recovered records into a new file.

use std::collections::BTreeMap;

use loopwright_agent::AgentDefinition;
use loopwright_core::{ChangeRecord, Timestamp};
use loopwright_sessions::{
    Finding, Owner, SessionId, SessionStatus,
    stored::{FORMAT_VERSION, checksum, decode, encode},
};

use super::cells::Record;
use crate::{
    database::Transaction,
    error::{Failure, SqlError},
    row::{Cell, Row, Value, values},
};

/// Fills the tables of a new file with records that were found in another file.
pub(super) struct Rebuild<'a> {
    transaction: &'a mut dyn Transaction,
    /// The IDs of sessions, from indexes and tables.
    names: BTreeMap<i64, String>,
    /// Stands for an unknown session ID.
    unnamed: SessionId,
}

/// The table of a record, which only its form shows.
#[derive(Debug, PartialEq, Eq)]
enum Table {
    Sessions,
    Names,
    Definitions,
    Branches,
    Batches,
    Notes,
    Jobs,
}

const SESSION: &str = "
    INSERT OR IGNORE INTO sessions VALUES
        ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
            $21)
    ON CONFLICT (key) DO UPDATE SET
        status = excluded.status, version = excluded.version, branch = excluded.branch,
        length = excluded.length, parent = excluded.parent, workdir = excluded.workdir, title = excluded.title,
        updated_at = excluded.updated_at, missing = excluded.missing, last = excluded.last,
        leases = excluded.leases, lease_owner = excluded.lease_owner, lease_until = excluded.lease_until,
        sum = excluded.sum
    WHERE (excluded.version, excluded.leases, excluded.lease_until)
        > (sessions.version, sessions.leases, sessions.lease_until)";
const JOB: &str = "
    INSERT OR IGNORE INTO jobs VALUES
        ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
    ON CONFLICT (number) DO UPDATE SET
        status = excluded.status, claims = excluded.claims, attempts = excluded.attempts,
        crashes = excluded.crashes, ready_at = excluded.ready_at, owner = excluded.owner,
        until = excluded.until, reason = excluded.reason, updated_at = excluded.updated_at
    WHERE excluded.updated_at > jobs.updated_at";

impl<'a> Rebuild<'a> {
    /// Fills the tables that a transaction writes. Until it has ended, rows may refer to missing rows.
    pub(super) async fn new(transaction: &'a mut dyn Transaction) -> Result<Self, Failure> {
        transaction.script("PRAGMA defer_foreign_keys = ON").await?;
        Ok(Self { transaction, names: BTreeMap::new(), unnamed: SessionId::generate() })
    }

    /// Adds a record if it is plausible and of a required table. Unused pages contain old versions of rows, so the
    /// latest version of a row is used.
    pub(super) async fn take(&mut self, record: Record) -> Result<(), Failure> {
        let Record { number, mut cells } = record;
        let Some(table) = table(&self.unnamed, number, &cells) else { return Ok(()) };
        // The column that is the number of the row.
        if let (Some(number), Some(first @ Cell::Null)) = (number, cells.first_mut()) {
            *first = Cell::Int(number);
        }
        let sql = match table {
            Table::Names => {
                if let [_, Cell::Text(name), Cell::Int(key)] = &cells[..] {
                    self.names.insert(*key, name.clone());
                }
                return Ok(());
            }
            Table::Sessions => {
                if let [Cell::Int(key), Cell::Text(name), ..] = &cells[..] {
                    self.names.insert(*key, name.clone());
                }
                SESSION
            }
            Table::Definitions => "INSERT OR IGNORE INTO definitions VALUES ($1, $2, $3)",
            Table::Branches => "INSERT OR IGNORE INTO branches VALUES ($1, $2, $3, $4, $5)",
            Table::Batches => "INSERT OR IGNORE INTO batches VALUES ($1, $2, $3, $4, $5, $6)",
            Table::Notes => "INSERT OR IGNORE INTO log_entries VALUES ($1, $2, $3, $4)",
            Table::Jobs => JOB,
        };
        // Rows of an earlier version lack the columns that were added later.
        cells.resize(cells.len().max(table.columns()), Cell::Null);
        let values: Vec<_> = cells.iter().map(Value::from).collect();
        match self.transaction.run(sql, &values).await {
            // The tables do not allow this row.
            Ok(_) | Err(SqlError::Refused { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Repairs references to missing rows. Returns the number of sessions, and what differs from the original. A
    /// lost branch is assumed to start with its first changes, and to have left the previous branch there.
    pub(super) async fn finish(mut self, now: Timestamp) -> Result<(i64, Vec<Finding>), Failure> {
        let mut findings = self.nameless(now).await?;
        findings.extend(self.restore_missing_definitions().await?);
        self.transaction
            .script(
                "WITH RECURSIVE known (session, branch) AS (
                    SELECT key, branch FROM sessions UNION SELECT session, branch FROM batches
                    UNION SELECT session, branch - 1 FROM known WHERE branch > 0 AND branch < 10000
                )
                INSERT OR IGNORE INTO branches SELECT session, branch,
                    CASE WHEN branch > 0 THEN session END,
                    CASE WHEN branch > 0 THEN branch - 1 END,
                    CASE WHEN branch > 0 THEN COALESCE(
                        (SELECT MIN(first) FROM batches b
                            WHERE b.session = known.session AND b.branch = known.branch),
                        (SELECT MIN(first) FROM batches b
                            WHERE b.session = known.session AND b.branch > known.branch),
                        (SELECT length FROM sessions WHERE key = known.session)
                    ) END
                FROM known;
                UPDATE branches SET from_session = NULL, from_branch = NULL, at = NULL
                    WHERE from_session NOT IN (SELECT key FROM sessions);
                DELETE FROM branches WHERE session NOT IN (SELECT key FROM sessions);
                DELETE FROM log_entries WHERE session NOT IN (SELECT key FROM sessions);
                DELETE FROM jobs WHERE session NOT IN (SELECT key FROM sessions);
                UPDATE jobs SET turn = NULL, held = NULL;
                UPDATE sessions SET lease_owner = NULL, lease_until = 0;",
            )
            .await?;
        for key in self.keys("SELECT key FROM sessions").await? {
            self.names.remove(&key);
        }
        // The remaining IDs are of sessions of which nothing else is left.
        findings.extend(self.names.values().filter_map(|name| {
            let session = SessionId::new(name.clone()).ok()?;
            let problem = "only the session ID is left".to_owned();
            Some(Finding { session: Some(session), problem, repaired: None })
        }));
        let live = self.keys("SELECT COUNT(*) FROM sessions WHERE status <> 'deleted'").await?;
        Ok((live.into_iter().sum(), findings))
    }

    /// Returns the current owner of a session, according to the file.
    pub(super) async fn user(&mut self, now: Timestamp) -> Result<Option<String>, Failure> {
        let sql =
            "SELECT lease_owner FROM sessions WHERE lease_owner IS NOT NULL AND lease_until > $1";
        for mut row in self.transaction.rows(sql, values![now]).await? {
            let owner = row.text(0)?;
            match Owner::parse(&owner) {
                Some(it) if it.is_gone() => {}
                Some(it) => return Ok(Some(format!("process {}", it.process()))),
                None => return Ok(Some(owner)),
            }
        }
        Ok(None)
    }

    /// Recreates the rows of sessions of which only the changes or the agent are left.
    async fn nameless(&mut self, now: Timestamp) -> Result<Vec<Finding>, Failure> {
        let sql = "
            SELECT session FROM definitions UNION SELECT session FROM batches
            EXCEPT SELECT key FROM sessions";
        let mut findings = Vec::new();
        for key in self.keys(sql).await? {
            let known = self.names.get(&key).and_then(|it| SessionId::new(it.clone()).ok());
            let Ok(id) = known.map_or_else(|| SessionId::new(format!("salvaged-{key}")), Ok) else {
                continue;
            };
            let sql = "SELECT body FROM definitions WHERE session = $1";
            let body = match self.transaction.row(sql, values![key]).await? {
                Some(mut row) => row.bytes(0)?,
                None => Vec::new(),
            };
            let agent = decode::<AgentDefinition>(&id, &body);
            let agent = agent.map_or_else(|_| UNKNOWN.to_owned(), |it| it.name);
            let sql = "
                INSERT INTO sessions (key, id, format, status, version, branch, length, agent_name,
                    agent_label, created_at, updated_at)
                SELECT $1, $2, $3, $4, 1, branch, MAX(first + count), $5, $5, $6, $6 FROM (
                    SELECT branch, first, count FROM batches WHERE session = $1
                    UNION ALL SELECT 0, 0, 0
                ) GROUP BY branch ORDER BY branch DESC LIMIT 1";
            let status = SessionStatus::Suspended.as_str();
            let values = values![key, id.as_str(), FORMAT_VERSION, status, &*agent, now];
            self.transaction.run(sql, values).await?;
            findings.push(Finding {
                problem: "the session's metadata is lost".to_owned(),
                repaired: Some(
                    "the session is suspended and has neither a title nor a directory".to_owned(),
                ),
                session: Some(id),
            });
        }
        Ok(findings)
    }

    /// Gives sessions an agent whose own definition is lost: that of another session with an agent of
    /// this name, or one without instructions.
    async fn restore_missing_definitions(&mut self) -> Result<Vec<Finding>, Failure> {
        let sql = "
            SELECT s.key, s.id, s.agent_name, (
                SELECT d.body FROM definitions d JOIN sessions o ON o.key = d.session
                WHERE o.agent_name = s.agent_name ORDER BY o.updated_at DESC LIMIT 1
            )
            FROM sessions s
            WHERE s.status <> 'deleted' AND s.key NOT IN (SELECT session FROM definitions)";
        let mut findings = Vec::new();
        for mut row in self.transaction.rows(sql, &[]).await? {
            let (key, id, name) = (row.int(0)?, row.text(1)?, row.text(2)?);
            let Ok(id) = SessionId::new(id) else { continue };
            let (body, repaired) = if let Some(body) = row.maybe_bytes(3)? {
                (
                    body,
                    format!(
                        "the session now uses the definition of another session's agent `{name}`"
                    ),
                )
            } else {
                let plain = AgentDefinition::new(&*name, &*name, "");
                (
                    encode(&id, &plain)?,
                    "the session now uses a definition without instructions".to_owned(),
                )
            };
            let sql = "INSERT INTO definitions VALUES ($1, $2, $3)";
            self.transaction.run(sql, values![key, &*body, checksum(&body)]).await?;
            let problem = "the agent definition is lost".to_owned();
            findings.push(Finding { session: Some(id), problem, repaired: Some(repaired) });
        }
        Ok(findings)
    }

    /// Returns the numbers that a statement selects.
    async fn keys(&mut self, sql: &str) -> Result<Vec<i64>, Failure> {
        let rows = self.transaction.rows(sql, &[]).await?;
        rows.into_iter().map(|mut row: Row| row.int(0)).collect()
    }
}

/// The name of an agent of which nothing is known.
const UNKNOWN: &str = "unknown";

impl Table {
    /// Returns the number of columns.
    fn columns(&self) -> usize {
        match self {
            Self::Sessions => 21,
            Self::Names | Self::Definitions => 3,
            Self::Branches => 5,
            Self::Batches => 6,
            Self::Notes => 4,
            Self::Jobs => 20,
        }
    }
}

/// Returns `true` if the last cells of a row are the checksum of its body, or contain none.
fn is_sum(cells: &[Cell], body: &[u8]) -> bool {
    match cells {
        [] | [Cell::Null] => true,
        [Cell::Int(sum)] => *sum == i64::from(checksum(body)),
        _ => false,
    }
}

/// Determines the table of a record, if the record is plausible there.
fn table(unnamed: &SessionId, number: Option<i64>, cells: &[Cell]) -> Option<Table> {
    use Cell::{Bytes, Int, Null, Text};
    let is_name = |it: &String| SessionId::new(it.clone()).is_ok();
    match (number, cells) {
        (Some(_), [Null, Text(id), Int(_), Text(status), ..]) if matches!(cells.len(), 19..=21) => {
            (is_name(id) && SessionStatus::named(status).is_some()).then_some(Table::Sessions)
        }
        (Some(_), [Null, Text(_), Int(_), Bytes(_), Text(_), ..])
            if matches!(cells.len(), 14 | 20) =>
        {
            Some(Table::Jobs)
        }
        (Some(_), [Null, Bytes(body), sum @ ..]) if is_sum(sum, body) => {
            decode::<AgentDefinition>(unnamed, body).is_ok().then_some(Table::Definitions)
        }
        (None, [Int(_), Text(id), Int(_)]) => is_name(id).then_some(Table::Names),
        (None, [Int(_), Int(_), Int(_), Int(count), Bytes(body), sum @ ..])
            if is_sum(sum, body) =>
        {
            let changes = decode::<Vec<ChangeRecord>>(unnamed, body).ok()?;
            (i64::try_from(changes.len()) == Ok(*count)).then_some(Table::Batches)
        }
        (None, [Int(_), Int(_), Int(_) | Null, Int(_) | Null, Int(_) | Null]) => {
            Some(Table::Branches)
        }
        // Rows of an earlier version have no number.
        (_, [Int(_), Text(_), Int(_), Bytes(_)]) => Some(Table::Notes),
        _ => None,
    }
}
