//! The keys of an issuer, and when they are read.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::lock::Mutex as AsyncMutex;
use loopwright_core::Timestamp;
use loopwright_models::{Timeouts, WebClient, WebError};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use super::{is_safe, jwt::Jwk};

/// How long keys are used without reading them again.
const TTL: Duration = Duration::from_hours(1);
/// How long keys are used if the issuer cannot be reached.
const MAX_AGE: Duration = Duration::from_hours(24);
/// The shortest time between two requests for keys, whatever tokens say.
const PAUSE: Duration = Duration::from_secs(30);
/// The most bytes of a document from the issuer.
const MAX_BYTES: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The keys of an issuer.
pub(super) struct KeyStore {
    issuer: String,
    url: Url,
    client: WebClient,
    known: Mutex<Option<Known>>,
    /// One request reads the keys, and others wait for it.
    reading: AsyncMutex<Option<Timestamp>>,
}

#[derive(Clone)]
struct Known {
    at: Timestamp,
    keys: Arc<[Jwk]>,
}

/// The keys of an issuer cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysUnavailable {
    #[error("the issuer cannot be reached")]
    Connection(#[from] WebError),
    #[error("the issuer responded with status {0}")]
    Status(u16),
    #[error("a document from the issuer cannot be read")]
    Unreadable(#[from] serde_json::Error),
    #[error("the discovery document names another issuer, `{0}`")]
    OtherIssuer(String),
    #[error("the address of the issuer's keys is invalid: {0}")]
    Address(String),
    #[error("the last attempt to read the keys failed a moment ago")]
    Paused,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl KeyStore {
    pub(super) fn new(issuer: String, url: Url) -> Self {
        let timeouts =
            Timeouts { connect: TIMEOUT, first_byte: TIMEOUT, idle: TIMEOUT, total: Some(TIMEOUT) };
        let client = WebClient::with_proxies(timeouts);
        Self { issuer, url, client, known: Mutex::default(), reading: AsyncMutex::default() }
    }

    /// Returns the keys, which include the named one if the issuer has it. A token that names an unknown key has them read
    /// again, at most twice a minute.
    pub(super) async fn of(
        &self,
        key_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Arc<[Jwk]>, KeysUnavailable> {
        if let Some(keys) = self.fresh(key_id, now) {
            return Ok(keys);
        }
        let mut last = self.reading.lock().await;
        if let Some(keys) = self.fresh(key_id, now) {
            return Ok(keys);
        }
        let known = || self.known().filter(|it| now.since(it.at) < MAX_AGE);
        if last.is_some_and(|it| now.since(it) < PAUSE) {
            return known().map(|it| it.keys).ok_or(KeysUnavailable::Paused);
        }
        *last = Some(now);
        let read = self.read().await;
        match (read, known()) {
            (Ok(keys), _) => {
                let known = Known { at: now, keys: Arc::clone(&keys) };
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
                Ok(keys)
            }
            // Known keys stay valid while the issuer is away, for a day.
            (Err(error), Some(known)) => {
                tracing::warn!(%error, "issuer keys cannot be read");
                Ok(known.keys)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fresh(&self, key_id: Option<&str>, now: Timestamp) -> Option<Arc<[Jwk]>> {
        let known = self.known().filter(|it| now.since(it.at) < TTL)?;
        let has = |id: &str| known.keys.iter().any(|it| it.kid.as_deref() == Some(id));
        key_id.is_none_or(has).then_some(known.keys.clone())
    }

    async fn read(&self) -> Result<Arc<[Jwk]>, KeysUnavailable> {
        let mut url = self.url.clone();
        let path = url.path().trim_end_matches('/');
        let path = format!("{path}/.well-known/openid-configuration");
        url.set_path(&path);
        let discovery: Discovery = self.get(&url).await?;
        if discovery.issuer != self.issuer {
            return Err(KeysUnavailable::OtherIssuer(discovery.issuer));
        }
        let address = Url::parse(&discovery.jwks_uri).ok().filter(is_safe);
        let address = address.ok_or(KeysUnavailable::Address(discovery.jwks_uri))?;
        let set: KeySet = self.get(&address).await?;
        // Keys of other kinds are for other programs.
        Ok(set.keys.into_iter().filter_map(|it| serde_json::from_value(it).ok()).collect())
    }

    async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<T, KeysUnavailable> {
        let response = self.client.get(url, &[("accept", "application/json")]).await?;
        if response.status() != 200 {
            return Err(KeysUnavailable::Status(response.status()));
        }
        let body = response.body(MAX_BYTES).await?;
        Ok(serde_json::from_slice(&body.bytes)?)
    }
}
