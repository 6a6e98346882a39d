//! Workers and a server of Restate that are killed at random, and what a step costs through Restate.
//!
//! `scripts/restate` installs the server and runs this. By hand, with the server's program first:
//!
//! | arguments | meaning |
//! |---|---|
//! | `SERVER kills SESSIONS KILLS [STORE]` | so many sessions of 20 steps on three workers, so many kills of workers, every tenth of the server |
//! | `SERVER steps STEPS [STORE]` | one conversation of so many steps, ten in each turn |
//!
//! The store is a new SQLite database unless its URL is given.

#![expect(clippy::print_stdout, reason = "it reports")]

mod engine;
mod kills;
mod steps;
mod worker;

use std::{env, path::PathBuf};

use loopwright_agent::AgentDefinition;
use loopwright_core::Timestamp;
use loopwright_sessions::{NewSession, SessionHeader, SessionId, SessionStore};
use loopwright_survival::Failure;

/// The name of the Restate service.
const SERVICE: &str = "Survival";

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &*arguments {
        ["worker", options] => runtime.block_on(worker::run(&serde_json::from_str(options)?)),
        [server, "kills", sessions, kills, store @ ..] => {
            let folder = Folder::new()?;
            let url = folder.url(store);
            let load = kills::Load { sessions: sessions.parse()?, kills: kills.parse()? };
            runtime.block_on(kills::run(server.as_ref(), &folder.0, &url, &load))
        }
        [server, "steps", steps, store @ ..] => {
            let folder = Folder::new()?;
            let url = folder.url(store);
            runtime.block_on(steps::run(server.as_ref(), &folder.0, &url, steps.parse()?))
        }
        _ => Err("usage: restate SERVER kills SESSIONS KILLS | restate SERVER steps STEPS".into()),
    }
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = env::temp_dir().join(format!("restate-{}", SessionId::generate()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Returns the URL that was given, or that of a database in this folder.
    fn url(&self, given: &[&str]) -> String {
        let own = || format!("sqlite:{}/sessions.db", self.0.display());
        given.first().map_or_else(own, |url| (*url).to_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}

async fn create(store: &dyn SessionStore) -> Result<SessionId, Failure> {
    let id = SessionId::generate();
    let header = &SessionHeader::new(id.clone(), "survivor", now());
    let definition = &AgentDefinition::new("survivor", "survives", "You survive.");
    store.create(NewSession { header, definition, changes: &[] }).await?;
    Ok(id)
}
