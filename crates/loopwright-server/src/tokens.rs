//! Bearer tokens; only hashes are stored.

use std::{
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use loopwright_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    limits::PrincipalLimits,
    principal::{Principal, Role},
};

/// How long a browser stays signed in.
const SIGN_IN: Duration = Duration::from_hours(12);

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
    /// Its description.
    #[serde(default, skip_serializing_if = "TokenKind::is_bearer")]
    pub kind: TokenKind,
    /// The ID of the token that a browser signed in with. If that token is revoked or expires, the browser is signed
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The limits of its principal, in place of those of the server.
    #[serde(default, skip_serializing_if = "PrincipalLimits::is_none")]
    pub limits: PrincipalLimits,
}

/// The purpose of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Requests of programs. A browser can sign in with it.
    #[default]
    Bearer,
    /// Signing in once with a browser.
    SignIn,
    /// The cookie of a browser that is signed in.
    Browser,
}

impl TokenKind {
    /// Returns the kind as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "bearer",
            Self::SignIn => "sign_in",
            Self::Browser => "browser",
        }
    }

    /// What tokens of this kind begin with, so that scanners for secrets find them.
    fn prefix(self) -> &'static str {
        match self {
            Self::Bearer => "lwt_",
            Self::SignIn => "lwo_",
            Self::Browser => "lwb_",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    fn is_bearer(&self) -> bool {
        *self == Self::Bearer
    }
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

/// Whom a token is for.
#[derive(Clone, Copy)]
struct NamedPrincipal<'a> {
    name: &'a str,
    role: Role,
    limits: PrincipalLimits,
}

impl<'a> From<&'a Principal> for NamedPrincipal<'a> {
    fn from(principal: &'a Principal) -> Self {
        Self { name: principal.name(), role: principal.role(), limits: principal.limits() }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Document {
    tokens: Vec<TokenRecord>,
}

/// The tokens of a file, with what changes if it is replaced.
type ReadTokens = (FileVersion, Arc<[TokenRecord]>);

/// When a file was changed, its length and, where there is one, its number.
type FileVersion = (SystemTime, u64, u64);

fn version(meta: &fs::Metadata) -> io::Result<FileVersion> {
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(meta);
    #[cfg(not(unix))]
    let number = 0;
    Ok((meta.modified()?, meta.len(), number))
}

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
        let state = version(&meta).map_err(unreadable)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, tokens)) = &*read
            && *version == state
        {
            return Ok(Arc::clone(tokens));
        }
        let bytes = fs::read(&self.path).map_err(unreadable)?;
        let Document { tokens } = serde_json::from_slice(&bytes)
            .map_err(|source| TokenError::Format { path: self.path.clone(), source })?;
        let tokens: Arc<[TokenRecord]> = tokens.into();
        *read = Some((state, Arc::clone(&tokens)));
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
        self.create_limited(principal, role, PrincipalLimits::default(), expires_at, now)
    }

    /// Creates a token for a principal with limits of its own.
    ///
    /// # Errors
    ///
    /// As for [`create`](TokenFile::create).
    pub fn create_limited(
        &self,
        principal: &str,
        role: Role,
        limits: PrincipalLimits,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<NewToken, TokenError> {
        let principal = NamedPrincipal { name: principal, role, limits };
        self.create_as(TokenKind::Bearer, principal, expires_at, now)
    }

    /// Creates a token with which a browser can sign in once.
    ///
    /// # Errors
    ///
    /// As for [`create`](TokenFile::create).
    pub fn create_sign_in(
        &self,
        principal: &Principal,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<NewToken, TokenError> {
        self.create_as(TokenKind::SignIn, principal.into(), Some(expires_at), now)
    }

    fn create_as(
        &self,
        kind: TokenKind,
        principal: NamedPrincipal<'_>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<NewToken, TokenError> {
        let (name, is_name) = (principal.name, |c: char| !c.is_whitespace() && !c.is_control());
        if name.is_empty() || name.len() > 128 || !name.chars().all(is_name) {
            return Err(TokenError::Principal(name.to_owned()));
        }
        let token = NewToken::new(kind, principal, expires_at, now)?;
        self.change(now, |tokens| tokens.push(token.record.clone()))?;
        Ok(token)
    }

    /// Signs a browser in with a bearer token or a token for that, which is used up. Returns `None` if the token is
    /// unknown, revoked or expired.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or written.
    pub(crate) fn sign_in(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<NewToken>, TokenError> {
        let hash = hash(token);
        self.change(now, |tokens| {
            let is_it =
                |it: &TokenRecord| it.kind != TokenKind::Browser && is_same(&it.hash, &hash);
            let Some(at) = tokens.iter().position(is_it) else { return Ok(None) };
            let record = tokens[at].clone();
            let ends = record.expires_at.filter(|_| record.kind == TokenKind::Bearer);
            let ends = now.plus(SIGN_IN).min(ends.unwrap_or(Timestamp::from_millis(u64::MAX)));
            let principal = NamedPrincipal {
                name: &record.principal,
                role: record.role,
                limits: record.limits,
            };
            let mut browser = NewToken::new(TokenKind::Browser, principal, Some(ends), now)?;
            if record.kind == TokenKind::SignIn {
                tokens.remove(at);
            } else {
                browser.record.source = Some(record.id);
            }
            tokens.push(browser.record.clone());
            Ok(Some(browser))
        })?
    }

    /// Signs a browser in as a principal that showed another credential.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or written.
    pub(crate) fn sign_in_as(
        &self,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<NewToken, TokenError> {
        let ends = Some(now.plus(SIGN_IN));
        self.create_as(TokenKind::Browser, principal.into(), ends, now)
    }

    /// Returns the principal whose browser has a cookie.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub(crate) fn browser(
        &self,
        cookie: &str,
        now: Timestamp,
    ) -> Result<Option<Principal>, TokenError> {
        let tokens = self.list()?;
        let Some(found) = valid(&tokens, TokenKind::Browser, cookie, now) else { return Ok(None) };
        let is_valid = |id: &String| {
            let source = tokens.iter().find(|it| it.id == *id && it.kind == TokenKind::Bearer);
            source.is_some_and(|it| it.is_valid(now))
        };
        let is_valid = found.source.as_ref().is_none_or(is_valid);
        Ok(is_valid.then(|| found.principal()))
    }

    /// Signs a browser out.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub(crate) fn sign_out(&self, cookie: &str, now: Timestamp) -> Result<(), TokenError> {
        let hash = hash(cookie);
        self.change(now, |tokens| {
            tokens.retain(|it| it.kind != TokenKind::Browser || !is_same(&it.hash, &hash));
        })
    }

    /// Revokes a token.
    ///
    /// # Errors
    ///
    /// Returns an error if no token has this ID, or the file cannot be written.
    pub fn revoke(&self, id: &str) -> Result<TokenRecord, TokenError> {
        // What has expired stays: the time is not known here.
        self.change(Timestamp::from_millis(0), |tokens| {
            let at = tokens.iter().position(|it| it.id == id);
            at.map(|at| tokens.remove(at)).ok_or_else(|| TokenError::Unknown(id.to_owned()))
        })?
    }

    /// Returns the principal that a token stands for, or `None` if it is unknown, revoked or
    /// expired.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn principal(&self, token: &str, now: Timestamp) -> Result<Option<Principal>, TokenError> {
        let tokens = self.list()?;
        Ok(valid(&tokens, TokenKind::Bearer, token, now).map(TokenRecord::principal))
    }

    /// Changes the tokens, while no other process does. Those of browsers that have expired are dropped.
    fn change<T>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Vec<TokenRecord>) -> T,
    ) -> Result<T, TokenError> {
        let locked = || {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let lock = options.open(beside(&self.path, ".lock"))?;
            lock.lock()?;
            Ok(lock)
        };
        let lock =
            locked().map_err(|source| TokenError::File { path: self.path.clone(), source })?;
        let before = self.list()?;
        let mut tokens = before.to_vec();
        tokens.retain(|it| it.kind == TokenKind::Bearer || it.is_valid(now));
        let changed = change(&mut tokens);
        if tokens != *before {
            self.write(tokens)?;
        }
        drop(lock);
        Ok(changed)
    }

    fn write(&self, tokens: Vec<TokenRecord>) -> Result<(), TokenError> {
        let written = || {
            let partial = beside(&self.path, ".partial");
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

impl TokenRecord {
    fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|ends| now < ends)
    }

    fn principal(&self) -> Principal {
        Principal::new(Arc::clone(&self.principal), self.role).with_limits(self.limits)
    }
}

impl NewToken {
    fn new(
        kind: TokenKind,
        principal: NamedPrincipal<'_>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Self, TokenError> {
        let secret = random(kind)?;
        let hash = hash(&secret);
        let record = TokenRecord {
            id: hash[..12].to_owned(),
            principal: principal.name.into(),
            role: principal.role,
            hash,
            created_at: now,
            expires_at,
            kind,
            source: None,
            limits: principal.limits,
        };
        Ok(Self { secret, record })
    }
}

/// Returns the valid token of a kind among others.
fn valid<'a>(
    tokens: &'a [TokenRecord],
    kind: TokenKind,
    token: &str,
    now: Timestamp,
) -> Option<&'a TokenRecord> {
    let hash = hash(token);
    tokens.iter().find(|it| it.kind == kind && is_same(&it.hash, &hash) && it.is_valid(now))
}

/// Returns the path of a file beside another one.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Creates a random bearer token.
///
/// # Errors
///
/// Returns an error if the system provides no random bytes.
pub fn random_token() -> Result<String, TokenError> {
    random(TokenKind::Bearer)
}

fn random(kind: TokenKind) -> Result<String, TokenError> {
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes).map_err(|_| TokenError::Random)?;
    Ok(format!("{}{}", kind.prefix(), hex(&bytes)))
}

/// Returns the hash of a token.
pub(crate) fn hash(token: &str) -> String {
    hash_bytes(token.as_bytes())
}

pub(crate) fn hash_bytes(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
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
mod tests;
