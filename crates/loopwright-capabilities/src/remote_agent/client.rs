//! A client of A2A 1.0, over JSON-RPC or HTTP.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use loopwright_models::{
    Dial, Secret, Timeouts, WebClient, WebError, WebResponse,
    sse::{Decoder, Event},
};
use loopwright_sandbox::is_public_address;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, sleep, timeout_at},
};
use url::Url;

use super::{
    agent::{RemoteAgent, RemoteAgentPolicy},
    wire::{Card, Sent, Task, TaskEvent, TaskState},
};

const VERSION: &str = "1.0";
pub(super) const USER_AGENT: &str = concat!("loopwright/", env!("CARGO_PKG_VERSION"));
/// How long a card is valid.
const CARD_TTL: Duration = Duration::from_mins(5);
/// Failed requests in a row after which a task is not followed any more.
const MAX_FAILURES: u32 = 8;
/// The most characters of an error of the remote agent that are shown.
const MAX_REASON: usize = 500;

/// Why a remote agent did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoteError {
    #[error(transparent)]
    Connection(#[from] WebError),
    #[error("the agent took longer than {} seconds", .0.as_secs_f64())]
    Late(Duration),
    #[error("the agent responded with status {0}{hint}", hint = hint(*.0))]
    Status(u16),
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    #[error("the response cannot be read: {0}")]
    Unreadable(String),
    #[error("the agent card cannot be used: {0}")]
    Card(String),
    #[error("the agent card cannot be read: {0}")]
    NoCard(#[source] Box<Self>),
    #[error("the agent rejected the request: {0}")]
    Refused(String),
    #[error("{0}")]
    Address(String),
}

fn hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "; the user may have to check the agent's token",
        _ => "",
    }
}

impl RemoteError {
    /// Returns `true` if a later attempt may succeed.
    fn is_transient(&self) -> bool {
        match self {
            Self::Connection(_) | Self::Late(_) => true,
            Self::Status(status) => matches!(status, 429 | 500..=599),
            Self::NoCard(error) => error.is_transient(),
            _ => false,
        }
    }

    /// Returns `true` if the remote agent may have received the request and acted on it. A request was not received if
    /// no connection was made, or the card was not read before. It was received but refused if the agent said so.
    pub(super) fn may_have_arrived(&self) -> bool {
        match self {
            Self::Connection(error) => !error.is_unsent(),
            Self::Late(_) | Self::TooLong(_) | Self::Unreadable(_) => true,
            Self::Status(status) => (500..=599).contains(status),
            Self::Card(_) | Self::NoCard(_) | Self::Refused(_) | Self::Address(_) => false,
        }
    }

    /// Turns an error of the request for the card into one of the card.
    fn of_card(self) -> Self {
        match self {
            Self::Card(_) | Self::NoCard(_) => self,
            error => Self::NoCard(Box::new(error)),
        }
    }
}

/// A remote agent, as its card describes it.
struct Endpoint {
    url: Url,
    binding: Binding,
    tenant: String,
    streams: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Binding {
    JsonRpc,
    Http,
}

/// A request of the protocol.
pub(super) enum Request<'a> {
    Send(Value),
    Get(&'a str),
    Cancel(&'a str),
    Subscribe(&'a str),
}

/// A client of one remote agent.
pub(super) struct Client {
    pub(super) agent: RemoteAgent,
    pub(super) policy: RemoteAgentPolicy,
    http: WebClient,
    /// For addresses without TLS.
    plain: WebClient,
    card: Mutex<Option<(Instant, Arc<Endpoint>)>>,
}

/// The addresses that are connected with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reachable {
    Public,
    Any,
    /// Those that are not of the internet, without TLS.
    Private,
}

impl Reachable {
    /// Returns why an address is not connected with, or `None` if it is.
    fn refuses(self, address: IpAddr) -> Option<&'static str> {
        match self {
            Self::Public if !is_public_address(address) => Some("is not a public address"),
            Self::Private if is_public_address(address) => {
                Some("is public and therefore requires TLS")
            }
            _ => None,
        }
    }
}

#[async_trait]
impl Dial for Reachable {
    async fn dial(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => lookup_host((host, port)).await?.collect(),
        };
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in found {
            if let Some(reason) = self.refuses(address.ip()) {
                let reason = format!("the host resolves to {}, which {reason}", address.ip());
                failed = io::Error::new(io::ErrorKind::PermissionDenied, reason);
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl Client {
    pub(super) fn new(agent: RemoteAgent, policy: RemoteAgentPolicy) -> Self {
        let timeouts = Timeouts {
            first_byte: policy.request_timeout,
            idle: policy.request_timeout,
            ..Timeouts::default()
        };
        let reachable = if agent.private { Reachable::Any } else { Reachable::Public };
        let http = WebClient::new(Arc::new(reachable), timeouts);
        let plain = WebClient::new(Arc::new(Reachable::Private), timeouts);
        Self { agent, policy, http, plain, card: Mutex::default() }
    }

    pub(super) fn http(&self, url: &Url) -> &WebClient {
        if url.scheme() == "https" { &self.http } else { &self.plain }
    }

    /// Sends a message, and returns as soon as the remote agent has a task for it.
    pub(super) async fn send(&self, message: Value) -> Result<Sent, RemoteError> {
        let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
        self.call(&Request::Send(params)).await
    }

    pub(super) async fn cancel(&self, task: &str) -> Result<Task, RemoteError> {
        self.call(&Request::Cancel(task)).await
    }

    /// Waits until a task has ended or needs input.
    pub(super) async fn wait(&self, id: &str) -> Result<Task, RemoteError> {
        let mut failures = 0;
        loop {
            match self.call::<Task>(&Request::Get(id)).await {
                Ok(task) if task.status.state != TaskState::Working => return Ok(task),
                Ok(_) => failures = 0,
                Err(error) if error.is_transient() && failures < MAX_FAILURES => failures += 1,
                Err(error) => return Err(error),
            }
            // A stream only says when the task is to be read again.
            let is_over = failures == 0 && self.follow(id).await.unwrap_or_default();
            if !is_over {
                sleep(self.policy.poll_interval).await;
            }
        }
    }

    /// Follows the events of a task, and returns `true` once one reports that it has ended or needs input.
    async fn follow(&self, id: &str) -> Result<bool, RemoteError> {
        let endpoint = self.endpoint().await?;
        if !endpoint.streams {
            return Ok(false);
        }
        let mut response = self.request(&endpoint, &Request::Subscribe(id)).await?;
        let kind = response.header("content-type").unwrap_or_default();
        if response.status() != 200 || !kind.starts_with("text/event-stream") {
            return Ok(false);
        }
        let (mut events, mut is_over) = (Decoder::new(), false);
        while let Some(bytes) = response.chunk().await? {
            let read = events.push(&bytes, |event: Event<'_>| {
                is_over |= is_pause_or_end(event.data, endpoint.binding)?;
                Ok::<(), serde_json::Error>(())
            });
            read.map_err(|error| RemoteError::Unreadable(error.to_string()))?;
            if is_over {
                return Ok(true);
            }
            if events.buffered() > self.policy.max_bytes {
                return Err(RemoteError::TooLong(self.policy.max_bytes));
            }
        }
        Ok(false)
    }

    async fn call<T: DeserializeOwned>(&self, request: &Request<'_>) -> Result<T, RemoteError> {
        let time = self.policy.request_timeout;
        let until = Instant::now() + time;
        let endpoint = timeout_at(until, self.endpoint()).await;
        let endpoint = endpoint.map_err(|_| RemoteError::Late(time)).and_then(|it| it);
        let endpoint = endpoint.map_err(RemoteError::of_card)?;
        let calling = async {
            let response = self.request(&endpoint, request).await?;
            let status = response.status();
            let body = self.body(response).await?;
            match endpoint.binding {
                _ if matches!(status, 401 | 403 | 429 | 500..=599) => {
                    Err(RemoteError::Status(status))
                }
                Binding::JsonRpc if status == 200 => unwrap(body),
                Binding::Http if status == 200 => Ok(body),
                _ => Err(refusal(&body).unwrap_or(RemoteError::Status(status))),
            }
        };
        let value = timeout_at(until, calling).await.map_err(|_| RemoteError::Late(time))??;
        serde_json::from_value(value).map_err(|error| RemoteError::Unreadable(error.to_string()))
    }

    pub(super) async fn body(&self, response: WebResponse) -> Result<Value, RemoteError> {
        let status = response.status();
        let body = response.body(self.policy.max_bytes).await?;
        if body.is_cut {
            return Err(RemoteError::TooLong(self.policy.max_bytes));
        }
        match serde_json::from_slice(&body.bytes) {
            Ok(value) => Ok(value),
            Err(_) if status != 200 => Err(RemoteError::Status(status)),
            Err(error) => Err(RemoteError::Unreadable(error.to_string())),
        }
    }

    async fn request(
        &self,
        endpoint: &Endpoint,
        request: &Request<'_>,
    ) -> Result<WebResponse, RemoteError> {
        let (method, path) = match request {
            Request::Send(_) => ("SendMessage", "/message:send".to_owned()),
            Request::Get(id) => ("GetTask", format!("/tasks/{}", segment(id))),
            Request::Cancel(id) => ("CancelTask", format!("/tasks/{}:cancel", segment(id))),
            Request::Subscribe(id) => {
                ("SubscribeToTask", format!("/tasks/{}:subscribe", segment(id)))
            }
        };
        let mut params = match request {
            Request::Send(params) => params.clone(),
            Request::Get(id) | Request::Cancel(id) | Request::Subscribe(id) => {
                json!({ "id": id })
            }
        };
        let mut url = endpoint.url.clone();
        if endpoint.binding == Binding::JsonRpc {
            if !endpoint.tenant.is_empty() {
                params["tenant"] = endpoint.tenant.as_str().into();
            }
            params = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        } else {
            url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        }
        let token = self.bearer();
        let mut headers = headers(token.as_deref());
        if endpoint.binding == Binding::Http && matches!(request, Request::Get(_)) {
            return Ok(self.http(&url).get(&url, &headers).await?);
        }
        headers.push(("content-type", "application/json"));
        Ok(self.http(&url).post(&url, &headers, params.to_string()).await?)
    }

    /// Returns what the card of the agent says, from memory if it was read lately.
    async fn endpoint(&self) -> Result<Arc<Endpoint>, RemoteError> {
        let known = self.card.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, endpoint)) = known.filter(|(since, _)| since.elapsed() < CARD_TTL) {
            return Ok(endpoint);
        }
        let url = self.agent.card_url();
        if let Some(reason) = self.agent.refuses(&url) {
            return Err(RemoteError::Card(format!("{url} is not requested: {reason}")));
        }
        let token = self.bearer();
        let response = self.http(&url).get(&url, &headers(token.as_deref())).await?;
        if response.status() != 200 {
            return Err(RemoteError::Status(response.status()));
        }
        let card: Card = serde_json::from_value(self.body(response).await?)
            .map_err(|error| RemoteError::Card(error.to_string()))?;
        let endpoint = Arc::new(self.chosen(&card)?);
        let mut known = self.card.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((Instant::now(), Arc::clone(&endpoint)));
        Ok(endpoint)
    }

    /// Returns the first interface of a card that can be used.
    fn chosen(&self, card: &Card) -> Result<Endpoint, RemoteError> {
        let mut reasons = Vec::new();
        for it in &card.supported_interfaces {
            let binding = match &*it.protocol_binding {
                "JSONRPC" => Binding::JsonRpc,
                "HTTP+JSON" if it.tenant.is_empty() => Binding::Http,
                other => {
                    reasons.push(format!("`{}` is not supported", shortened(other)));
                    continue;
                }
            };
            let version = &it.protocol_version;
            if version != VERSION && !version.starts_with("1.0.") {
                reasons.push(format!("version `{}` is not supported", shortened(version)));
                continue;
            }
            let refused = match Url::parse(&it.url) {
                Ok(url) => match self.agent.refuses(&url) {
                    None => {
                        let tenant = it.tenant.clone();
                        let streams = card.capabilities.streaming;
                        return Ok(Endpoint { url, binding, tenant, streams });
                    }
                    Some(reason) => reason.to_owned(),
                },
                Err(error) => error.to_string(),
            };
            reasons.push(format!("{} is not used: {refused}", shortened(&it.url)));
        }
        if reasons.is_empty() {
            reasons.push("the card lists no interface".to_owned());
        }
        Err(RemoteError::Card(reasons.join("; ")))
    }

    pub(super) fn bearer(&self) -> Option<String> {
        self.agent.token.as_ref().map(Secret::expose).map(|it| format!("Bearer {it}"))
    }
}

fn headers(bearer: Option<&str>) -> Vec<(&'static str, &str)> {
    let mut headers = vec![
        ("accept", "application/json, text/event-stream"),
        ("a2a-version", VERSION),
        ("user-agent", USER_AGENT),
    ];
    headers.extend(bearer.map(|it| ("authorization", it)));
    headers
}

/// Encodes an ID as one segment of a path.
fn segment(id: &str) -> String {
    url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20")
}

fn is_pause_or_end(data: &[u8], binding: Binding) -> Result<bool, serde_json::Error> {
    let mut value: Value = serde_json::from_slice(data)?;
    if binding == Binding::JsonRpc {
        value = value["result"].take();
    }
    let event: TaskEvent = serde_json::from_value(value)?;
    Ok(event.is_pause_or_end())
}

/// Returns the result of a JSON-RPC response.
fn unwrap(mut body: Value) -> Result<Value, RemoteError> {
    match body.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(refusal(&body).unwrap_or_else(|| {
            RemoteError::Unreadable("the response has neither a result nor an error".to_owned())
        })),
    }
}

/// Reads an error, which has the same place in both bindings.
fn refusal(body: &Value) -> Option<RemoteError> {
    let message = body["error"]["message"].as_str()?;
    Some(RemoteError::Refused(shortened(message)))
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MAX_REASON).collect()
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("agent", &self.agent).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_tls_are_private_ones() {
        let (public, private) = ([93, 184, 216, 34].into(), [10, 0, 0, 1].into());
        let reached =
            |it: Reachable| [public, private].map(|address| it.refuses(address).is_none());
        assert_eq!(reached(Reachable::Public), [true, false]);
        assert_eq!(reached(Reachable::Any), [true, true]);
        assert_eq!(reached(Reachable::Private), [false, true]);
    }
}
