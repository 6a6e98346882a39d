//! Requests to the ingress of Restate, which accepts invocations.

use std::time::Duration;

use loopwright_sessions::{JobRecord, SessionId};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Response, StatusCode};

use crate::{
    error::RestateError,
    service::RestateService,
    turns::{HANDLER, Turn},
};

const CONNECT: Duration = Duration::from_secs(5);
const TOTAL: Duration = Duration::from_secs(30);

/// The most characters of a response that an error repeats.
const MAX_REASON: usize = 300;

/// What a path needs to escape.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one address of Restate.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    url: String,
    client: Client,
}

impl Address {
    pub(crate) fn new(url: &str) -> Result<Self, RestateError> {
        let url = url.trim_end_matches('/').to_owned();
        let is_http = url.starts_with("http://") || url.starts_with("https://");
        if !is_http || url.contains(['?', '#']) || reqwest::Url::parse(&url).is_err() {
            return Err(RestateError::Url(url));
        }
        // The first one that is installed counts.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().connect_timeout(CONNECT).timeout(TOTAL).build();
        match client {
            Ok(client) => Ok(Self { url, client }),
            Err(source) => Err(RestateError::Unreachable { url, source: source.into() }),
        }
    }

    /// Sends a JSON body, and returns the response if it is not an error.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: String,
        idempotency_key: Option<&str>,
    ) -> Result<Response, RestateError> {
        let mut request = self.client.post(format!("{}{path}", self.url));
        request = request.header("content-type", "application/json");
        request = request.header("accept", "application/json").body(body);
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let unreachable = |source: reqwest::Error| RestateError::Unreachable {
            url: self.url.clone(),
            // Its address is part of this error.
            source: source.without_url().into(),
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        let reason = text.chars().take(MAX_REASON).collect();
        Err(RestateError::Refused { url: self.url.clone(), status: status.as_u16(), reason })
    }
}

/// The ingress, for one service.
#[derive(Clone, Debug)]
pub(crate) struct Ingress {
    address: Address,
    service: RestateService,
}

impl Ingress {
    pub(crate) fn new(url: &str, service: RestateService) -> Result<Self, RestateError> {
        Ok(Self { address: Address::new(url)?, service })
    }

    pub(crate) fn service(&self) -> &RestateService {
        &self.service
    }

    /// Has Restate deliver a recorded job after a delay. The same record is delivered once, however often this is called.
    pub(crate) async fn send(
        &self,
        record: &JobRecord,
        delay: Duration,
    ) -> Result<(), RestateError> {
        let session: &SessionId = &record.job.session;
        let key = utf8_percent_encode(session.as_str(), SEGMENT);
        let path = format!("/{}/{key}/{HANDLER}/send", self.service);
        let path = match delay.as_millis() {
            0 => path,
            millis => format!("{path}?delay={millis}ms"),
        };
        let turn = Turn { job: record.job.id.clone() };
        let sent = self.address.post(&path, turn.to_json(), Some(&idempotency_key(record))).await;
        match sent {
            Ok(_) => Ok(()),
            Err(RestateError::Refused { url, status, .. })
                if status == StatusCode::NOT_FOUND.as_u16() =>
            {
                Err(RestateError::UnknownService { url, service: self.service.to_string() })
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the key of the next delivery of a job. The ID of a deleted job can be used again, and a job whose session waited is
/// delivered again.
pub(crate) fn idempotency_key(record: &JobRecord) -> String {
    let JobRecord { job, created_at, claims, .. } = record;
    format!("{}@{}#{claims}", job.id, created_at.millis())
}
