//! Workers, a server of Restate and a database that are killed at random, and what a step of a long conversation costs.
//!
//! `scripts/restate` installs the server and runs this. By hand, with the server's program first:
//!
//! | arguments | meaning |
//! |---|---|
//! | `SERVER kills SESSIONS KILLS [STORE] [cluster]` | so many sessions of 20 steps on three workers, so many kills, one in ten of the server and one of PostgreSQL |
//! | `SERVER steps STEPS [STORE]` | one conversation of so many steps, ten in each turn |
//!
//! With `cluster`, Restate has three nodes, which are killed in turn. With `queue` in place of the server's program, workers claim jobs from the queue of the database. The store is a new SQLite
//! database, or a new server of PostgreSQL with `postgres`, or that of a URL.

#![expect(clippy::print_stdout, reason = "it reports")]

mod engine;
mod kills;
mod steps;
mod worker;

use std::{
    env,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use loopwright_agent::AgentDefinition;
use loopwright_core::Timestamp;
use loopwright_sessions::{NewSession, SessionHeader, SessionId, SessionStore};
use loopwright_survival::{
    Failure,
    postgres::{Postgres, Safety},
};

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
            let (is_cluster, store) = match store {
                [store @ .., "cluster"] => (true, store),
                store => (false, store),
            };
            let mut database = Database::new(&folder.0, store.first().copied())?;
            let (sessions, kills) = (sessions.parse()?, kills.parse()?);
            let load = kills::Load { sessions, kills, is_cluster };
            let server = (*server != "queue").then(|| Path::new(server));
            runtime.block_on(kills::run(server, &folder.0, &mut database, &load))
        }
        [server, "steps", steps, store @ ..] => {
            let folder = Folder::new()?;
            let database = Database::new(&folder.0, store.first().copied())?;
            let (url, steps) = (&*database.url, steps.parse()?);
            match *server {
                "queue" => runtime.block_on(steps::run_queued(url, steps)),
                server => runtime.block_on(steps::run(server.as_ref(), &folder.0, url, steps)),
            }
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
}

/// The database of the sessions.
struct Database {
    url: String,
    /// The server, if it is ours.
    server: Option<Postgres>,
}

impl Database {
    /// Finds the database of a word or a URL. Without one, it is a file in the folder.
    fn new(folder: &Path, given: Option<&str>) -> Result<Self, Failure> {
        match given {
            None => {
                let url = format!("sqlite:{}/sessions.db", folder.display());
                Ok(Self { url, server: None })
            }
            Some("postgres") => {
                // The server does not run as root.
                std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
                let data = folder.join("postgres");
                std::fs::create_dir(&data)?;
                let server = Postgres::start(&data, Safety::Synced)?;
                Ok(Self { url: server.url(), server: Some(server) })
            }
            Some(url) => Ok(Self { url: url.to_owned(), server: None }),
        }
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
