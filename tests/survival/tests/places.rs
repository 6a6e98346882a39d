//! Stores to be tried, each in a place of its own.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use loopwright_core::ChangeRecord;
use loopwright_sessions::{SessionId, SessionStore};
use loopwright_survival::{
    open::open,
    postgres::{Postgres, Safety},
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A store in an empty place, which is gone when this is dropped.
pub(crate) struct Place {
    url: String,
    postgres: Option<Postgres>,
    folder: TempDir,
}

impl Place {
    pub(crate) fn files() -> Self {
        Self::in_folder(|folder| format!("files:{}/sessions", folder.display()))
    }

    pub(crate) fn sqlite() -> Self {
        Self::in_folder(|folder| format!("sqlite:{}/sessions.db", folder.display()))
    }

    fn in_folder(url: impl FnOnce(&Path) -> String) -> Self {
        let folder = folder();
        Self { url: url(&folder.path().join(STORE)), postgres: None, folder }
    }

    pub(crate) fn postgres() -> Self {
        let folder = folder();
        let postgres = Postgres::start(&folder.path().join(STORE), Safety::Unsynced).unwrap();
        Self { url: postgres.url(), postgres: Some(postgres), folder }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where everything of the store is.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join(STORE)
    }

    /// Where notes are taken.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server, if it is one's.
    pub(crate) fn server(&mut self) -> &mut Postgres {
        self.postgres.as_mut().unwrap()
    }

    /// Does something with the store in this process, and lets it go again.
    pub(crate) fn with<T>(&self, look: impl AsyncFnOnce(&dyn SessionStore) -> T) -> T {
        runtime().block_on(async {
            let store: Arc<dyn SessionStore> = open(&self.url).await.unwrap();
            look(&*store).await
        })
    }

    /// Returns what is stored of a session.
    pub(crate) fn stored(&self, session: &str) -> Vec<ChangeRecord> {
        let id = SessionId::new(session).unwrap();
        self.with(async |store| store.load(&id).await.unwrap().unwrap().changes)
    }
}

/// The folder of a store within its place.
const STORE: &str = "store";

/// Makes a place in which workers may be another process.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(STORE)).unwrap();
    for path in [folder.path(), &folder.path().join(STORE)] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    folder
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Makes a test of each durable store.
macro_rules! on_every_store {
    ($check:ident: $files:ident, $sqlite:ident, $postgres:ident) => {
        #[test]
        fn $files() {
            $check(&crate::places::Place::files());
        }

        #[test]
        fn $sqlite() {
            $check(&crate::places::Place::sqlite());
        }

        #[test]
        fn $postgres() {
            $check(&crate::places::Place::postgres());
        }
    };
}

pub(crate) use on_every_store;
