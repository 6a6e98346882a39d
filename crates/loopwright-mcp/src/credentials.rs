//! The tokens of logins, which processes share.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rmcp::transport::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::catalog::replace;
use crate::config::McpServer;
use crate::names::server_part;

/// Seconds that a token must last to be used as it is.
const FRESH: u64 = 60;

/// The longest challenge of a server that is kept.
const MAX_CHALLENGE: usize = 4 << 10;

/// The error of a refresh that another process has done.
const REFRESHED: &str = "another process has refreshed the token";

/// Stores the tokens of logins in a folder, one file per server and address. Only the user can read the files.
#[derive(Clone, Debug)]
pub struct LoginFolder(PathBuf);

impl LoginFolder {
    /// Creates a store in this folder, which is created on the first write.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    pub(crate) fn credentials(&self, server: &McpServer, url: &str) -> Credentials {
        let name = format!("{}-{}", server_part(&server.name), &hash(url)[..16]);
        let inner = Inner { folder: self.0.clone(), name, ..Inner::default() };
        Credentials(Arc::new(inner))
    }
}

/// The tokens of one server. Clones share what they have seen.
#[derive(Clone, Debug)]
pub(crate) struct Credentials(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    folder: PathBuf,
    name: String,
    /// The hash of the text that was read last.
    seen: Mutex<Option<String>>,
    /// How many look whether a token has to be refreshed.
    ahead: AtomicUsize,
}

/// Is there while a token is looked at before it is needed.
pub(crate) struct Ahead(Arc<Inner>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.ahead.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Credentials {
    fn file(&self) -> PathBuf {
        self.0.folder.join(format!("{}.json", self.0.name))
    }

    fn challenge_file(&self) -> PathBuf {
        self.0.folder.join(format!("{}.challenge", self.0.name))
    }

    /// Removes the tokens. Returns `false` if there are none.
    pub(crate) fn remove(&self) -> io::Result<bool> {
        self.forget_challenge();
        match fs::remove_file(self.file()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Keeps what a server says about the login that it wants, for the next login.
    pub(crate) fn keep_challenge(&self, challenge: &str) {
        // Without it, the next login asks for less, and the server says so again.
        if challenge.len() <= MAX_CHALLENGE && self.make_folder().is_ok() {
            replace(&self.challenge_file(), challenge.as_bytes()).ok();
        }
    }

    pub(crate) fn challenge(&self) -> Option<String> {
        fs::read_to_string(self.challenge_file()).ok()
    }

    pub(crate) fn forget_challenge(&self) {
        fs::remove_file(self.challenge_file()).ok();
    }

    /// Lets a refresh that another process has done meanwhile fail, as long as the value lives.
    pub(crate) fn ahead(&self) -> Ahead {
        self.0.ahead.fetch_add(1, Ordering::AcqRel);
        Ahead(Arc::clone(&self.0))
    }

    /// Waits until no other process changes the tokens, and keeps the others waiting as long as the value lives.
    pub(crate) async fn lock(&self) -> Result<File, AuthError> {
        self.make_folder()?;
        let path = self.0.folder.join(format!(".{}.lock", self.0.name));
        let lock = tokio::task::spawn_blocking(move || -> io::Result<File> {
            let file = File::create(path)?;
            file.lock()?;
            Ok(file)
        });
        lock.await.map_err(failed)?.map_err(failed)
    }

    /// Returns `true` if there is a token that can be used for a while.
    pub(crate) fn are_fresh(&self) -> bool {
        self.read().is_ok_and(|text| text.is_some_and(|text| is_fresh(&text)))
    }

    fn make_folder(&self) -> Result<(), AuthError> {
        fs::create_dir_all(&self.0.folder).map_err(failed)
    }

    fn read(&self) -> Result<Option<String>, AuthError> {
        match fs::read_to_string(self.file()) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Returns `true` if another process has refreshed the token while this one waited to do so.
pub(crate) fn is_refreshed_elsewhere(error: &AuthError) -> bool {
    matches!(error, AuthError::InternalError(reason) if reason == REFRESHED)
}

fn hash(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

/// A file that cannot be read is as good as none: the user logs in again.
fn parsed(text: &str) -> Option<StoredCredentials> {
    serde_json::from_str(text).ok()
}

/// Returns `true` if the token of a file can be used for a while.
fn is_fresh(text: &str) -> bool {
    let stored: Value = serde_json::from_str(text).unwrap_or_default();
    let token = &stored["token_response"];
    let times = (token["expires_in"].as_u64(), stored["token_received_at"].as_u64());
    let (Some(lasts), Some(received)) = times else { return !token.is_null() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let left = received.saturating_add(lasts).saturating_sub(now);
    // A token that lasts a minute is used for half of it.
    left > FRESH.min(lasts / 2)
}

fn failed(error: impl fmt::Display) -> AuthError {
    AuthError::InternalError(error.to_string())
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let text = self.read()?;
        let stored = text.as_deref().and_then(parsed);
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) = text.as_deref().map(hash);
        Ok(stored)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.make_folder()?;
        let text = serde_json::to_vec(&credentials).map_err(failed)?;
        replace(&self.file(), &text).map_err(failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.remove().map(drop).map_err(failed)
    }

    /// Lets one process at a time refresh. One that had to wait finds the token of the other.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let guard = self.lock().await?;
        if self.0.ahead.load(Ordering::Acquire) > 0 {
            let text = self.read()?;
            let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let is_new = seen != text.as_deref().map(hash);
            if is_new && text.as_deref().is_some_and(is_fresh) {
                return Err(failed(REFRESHED));
            }
        }
        Ok(Some(CredentialRefreshGuard::new(guard)))
    }
}
