//! Bearer tokens; only hashes are stored.

use std::{
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use loopwright_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::principal::{Principal, Role};

/// What tokens begin with, so that scanners for secrets find them.
const PREFIX: &str = "lwt_";

/// The number of random bytes of a token.
const RANDOM: usize = 32;

/// The stored form of a token, without the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// The ID, for revoking it.
    pub id: String,
    /// The principal that it stands for.
    pub principal: Arc<str>,
    /// The role of the principal.
    pub role: Role,
    /// The SHA-256 of the token, in hexadecimal digits.
    pub hash: String,
    /// The creation time.
    pub created_at: Timestamp,
    /// When it expires; `None` means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A token that was just created. It cannot be read again.
#[derive(Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The token.
    pub secret: String,
    /// The stored form.
    pub record: TokenRecord,
}

/// An error of the token file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("cannot use the token file {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a token file.
    #[error("{} is not a token file", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The name of a principal is invalid.
    #[error(
        "invalid principal `{0}`; use 1 to 128 characters without spaces or control characters"
    )]
    Principal(String),
    /// No token has this ID.
    #[error("unknown token `{0}`; list tokens with `loopwright tokens list`")]
    Unknown(String),
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    Random,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Document {
    tokens: Vec<TokenRecord>,
}

/// The tokens of a file, with the time at which it was changed and its length.
type ReadTokens = (SystemTime, u64, Arc<[TokenRecord]>);

/// The tokens in a file. A change of the file takes effect at the next request.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<ReadTokens>>,
}

impl TokenFile {
    /// Creates the value for a file, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), read: Mutex::default() }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tokens, in the order in which they were created.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn list(&self) -> Result<Arc<[TokenRecord]>, TokenError> {
        let unreadable = |source| TokenError::File { path: self.path.clone(), source };
        let meta = match fs::metadata(&self.path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Arc::new([])),
            Err(error) => return Err(unreadable(error)),
        };
        let state = (meta.modified().map_err(unreadable)?, meta.len());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((modified, length, tokens)) = &*read
            && (*modified, *length) == state
        {
            return Ok(Arc::clone(tokens));
        }
        let bytes = fs::read(&self.path).map_err(unreadable)?;
        let Document { tokens } = serde_json::from_slice(&bytes)
            .map_err(|source| TokenError::Format { path: self.path.clone(), source })?;
        let tokens: Arc<[TokenRecord]> = tokens.into();
        *read = Some((state.0, state.1, Arc::clone(&tokens)));
        Ok(tokens)
    }

    /// Creates a token for a principal.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is invalid or the file cannot be written.
    pub fn create(
        &self,
        principal: &str,
        role: Role,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<NewToken, TokenError> {
        let is_name = |c: char| !c.is_whitespace() && !c.is_control();
        if principal.is_empty() || principal.len() > 128 || !principal.chars().all(is_name) {
            return Err(TokenError::Principal(principal.to_owned()));
        }
        let secret = random_token()?;
        let hash = hash(&secret);
        let id = hash[..12].to_owned();
        let principal = principal.into();
        let record = TokenRecord { id, principal, role, hash, created_at: now, expires_at };
        let mut tokens = self.list()?.to_vec();
        tokens.push(record.clone());
        self.write(tokens)?;
        Ok(NewToken { secret, record })
    }

    /// Revokes a token.
    ///
    /// # Errors
    ///
    /// Returns an error if no token has this ID, or the file cannot be written.
    pub fn revoke(&self, id: &str) -> Result<TokenRecord, TokenError> {
        let mut tokens = self.list()?.to_vec();
        let at = tokens.iter().position(|it| it.id == id);
        let at = at.ok_or_else(|| TokenError::Unknown(id.to_owned()))?;
        let revoked = tokens.remove(at);
        self.write(tokens)?;
        Ok(revoked)
    }

    /// Returns the principal that a token stands for, or `None` if it is unknown, revoked or
    /// expired.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn principal(&self, token: &str, now: Timestamp) -> Result<Option<Principal>, TokenError> {
        let hash = hash(token);
        let tokens = self.list()?;
        let found = tokens.iter().find(|it| is_same(&it.hash, &hash));
        let valid = found.filter(|it| it.expires_at.is_none_or(|ends| now < ends));
        Ok(valid.map(|it| Principal::new(Arc::clone(&it.principal), it.role)))
    }

    fn write(&self, tokens: Vec<TokenRecord>) -> Result<(), TokenError> {
        let written = || {
            let mut partial = self.path.clone().into_os_string();
            partial.push(".partial");
            let partial = PathBuf::from(partial);
            fs::remove_file(&partial).ok();
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&partial)?;
            file.write_all(&serde_json::to_vec_pretty(&Document { tokens })?)?;
            file.sync_all()?;
            fs::rename(&partial, &self.path)
        };
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
        written().map_err(|source| TokenError::File { path: self.path.clone(), source })
    }
}

/// Creates a random token.
///
/// # Errors
///
/// Returns an error if the system provides no random bytes.
pub fn random_token() -> Result<String, TokenError> {
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes).map_err(|_| TokenError::Random)?;
    Ok(format!("{PREFIX}{}", hex(&bytes)))
}

/// Returns the hash of a token.
pub(crate) fn hash(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// Compares two texts in a time that does not depend on where they differ.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("record", &self.record).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_000)
    }

    #[test]
    fn tokens_are_kept_as_hashes_and_stand_for_a_principal_until_they_are_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        assert_eq!(file.principal("lwt_x", now()).unwrap(), None);
        let token = file.create("ada", Role::Run, None, now()).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(&token.secret), "{text}");
        assert!(!format!("{token:?}").contains(&token.secret));
        let ada = Some(Principal::new("ada", Role::Run));
        assert_eq!(file.principal(&token.secret, now()).unwrap(), ada);
        assert_eq!(file.principal(&token.secret[1..], now()).unwrap(), None);
        // Another process revokes it.
        TokenFile::new(file.path()).revoke(&token.record.id).unwrap();
        assert_eq!(file.principal(&token.secret, now()).unwrap(), None);
        assert!(matches!(file.revoke("x"), Err(TokenError::Unknown(_))));
    }

    #[test]
    fn a_token_expires() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let ends = Timestamp::from_millis(2_000);
        let token = file.create("ada", Role::Run, Some(ends), now()).unwrap();
        assert!(file.principal(&token.secret, now()).unwrap().is_some());
        assert_eq!(file.principal(&token.secret, ends).unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_token_file_is_readable_for_its_user_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        file.create("ada", Role::Run, None, now()).unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn principals_have_names() {
        let file = TokenFile::new("unused");
        for name in ["", "a b", "a\n", &"x".repeat(129)] {
            let refused = file.create(name, Role::Run, None, now());
            assert!(matches!(refused, Err(TokenError::Principal(_))), "{name:?}");
        }
    }
}
