//! Connections through the proxy: reached and refused hosts.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The outcome of a command's connections to one host by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkAccess {
    /// The host, as the command named it.
    pub host: String,
    /// The port; 0 if it is unknown.
    pub port: u16,
    /// Number of connections.
    pub connections: u64,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: NetworkOutcome,
}

/// The outcome of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum NetworkOutcome {
    /// The host was reached.
    Reached {
        /// Bytes sent to it.
        sent: u64,
        /// Bytes received from it.
        received: u64,
    },
    /// The connection was denied.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The host was granted but did not respond.
    Failed {
        /// The reason.
        reason: String,
    },
}

impl NetworkAccess {
    /// Returns `true` if the host was reached.
    pub fn is_reached(&self) -> bool {
        matches!(self.outcome, NetworkOutcome::Reached { .. })
    }

    /// Returns `true` if the connection was denied.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, NetworkOutcome::Refused { .. })
    }
}

/// Rows that are kept; a command chooses how many hosts it asks for.
const MAX_ROWS: usize = 200;

/// Characters of a host that are kept.
const MAX_HOST: usize = 253;

/// What has become of connections so far. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Row>>>);

#[derive(Debug)]
struct Row {
    access: NetworkAccess,
    traffic: Traffic,
}

/// The bytes of connections to one host. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<(AtomicU64, AtomicU64)>);

impl Traffic {
    pub(crate) fn sent(&self, count: usize) {
        self.0.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, count: usize) {
        self.0.1.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Log {
    pub(crate) fn reach(&self, host: &str, port: u16) -> Traffic {
        self.add(host, port, NetworkOutcome::Reached { sent: 0, received: 0 })
    }

    pub(crate) fn refuse(&self, host: &str, port: u16, reason: &str) {
        self.add(host, port, NetworkOutcome::Refused { reason: reason.to_owned() });
    }

    pub(crate) fn fail_to_reach(&self, host: &str, port: u16, reason: &str) {
        self.add(host, port, NetworkOutcome::Failed { reason: reason.to_owned() });
    }

    /// Records that there is no proxy.
    pub(crate) fn fail(&self, error: &io::Error) {
        self.fail_to_reach("?", 0, &format!("the proxy did not start: {error}"));
    }

    fn add(&self, host: &str, port: u16, outcome: NetworkOutcome) -> Traffic {
        let host: String = host.chars().take(MAX_HOST).collect();
        let mut rows = self.rows();
        let same = |row: &&mut Row| {
            row.access.host == host && row.access.port == port && row.access.outcome == outcome
        };
        if let Some(row) = rows.iter_mut().find(same) {
            row.access.connections += 1;
            return row.traffic.clone();
        }
        let traffic = Traffic::default();
        if rows.len() < MAX_ROWS {
            let access = NetworkAccess { host, port, connections: 1, outcome };
            rows.push(Row { access, traffic: traffic.clone() });
        } else if let Some(last) = rows.last_mut() {
            // The rest is one row, so that it is seen that there is more.
            if last.access.host != "…" {
                let reason = format!("more than {MAX_ROWS} hosts");
                let outcome = NetworkOutcome::Refused { reason };
                let access =
                    NetworkAccess { host: "…".to_owned(), port: 0, connections: 1, outcome };
                *last = Row { access, traffic: Traffic::default() };
            }
            last.access.connections += 1;
        }
        traffic
    }

    pub(crate) fn accesses(&self) -> Vec<NetworkAccess> {
        let counted = |row: &Row| {
            let mut access = row.access.clone();
            if let NetworkOutcome::Reached { sent, received } = &mut access.outcome {
                *sent = row.traffic.0.0.load(Ordering::Relaxed);
                *received = row.traffic.0.1.load(Ordering::Relaxed);
            }
            access
        };
        self.rows().iter().map(counted).collect()
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
