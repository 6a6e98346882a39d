//! Remote agents, and the limits for their use.

use std::{fmt, time::Duration};

use loopwright_models::Secret;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::child;

/// An agent that another server runs, reached by A2A 1.0 or AG-UI.
///
/// ```
/// use loopwright_capabilities::remote_agent::RemoteAgent;
///
/// let agent = RemoteAgent::new("billing", "Knows all invoices.", "https://agents.example.com/billing")?;
/// assert_eq!(agent.name(), "billing");
/// # Ok::<(), loopwright_capabilities::remote_agent::InvalidRemoteAgent>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct RemoteAgent {
    name: String,
    description: String,
    pub(super) url: Url,
    pub(super) token: Option<Secret>,
    pub(super) private: bool,
    pub(super) protocol: RemoteProtocol,
}

/// The protocol of a remote agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RemoteProtocol {
    /// A2A 1.0: a message starts a task, which is followed, continued after a crash, and cancelled.
    #[default]
    A2a,
    /// AG-UI: one request runs the agent and streams its events. A run whose stream was cut off cannot be followed.
    AgUi,
}

/// A definition of a remote agent that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRemoteAgent {
    /// The name is empty.
    #[error("the name of a remote agent is empty")]
    Name,
    /// The address is not an HTTP address.
    #[error("the address of remote agent `{name}` is invalid: {reason}")]
    Url {
        /// The name.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl RemoteAgent {
    /// Creates a remote agent that speaks A2A. Its card is at `.well-known/agent-card.json` below the address. The
    /// description tells the calling model what the agent is for.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is empty or the address cannot be used.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        url: &str,
    ) -> Result<Self, InvalidRemoteAgent> {
        let (name, description) = (name.into(), description.into());
        if name.trim().is_empty() {
            return Err(InvalidRemoteAgent::Name);
        }
        let invalid = |reason: String| InvalidRemoteAgent::Url { name: name.clone(), reason };
        let mut url = Url::parse(url.trim()).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(invalid("only http and https are allowed".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("the URL contains a user name or a password".to_owned()));
        }
        url.set_query(None);
        url.set_fragment(None);
        Ok(Self {
            name,
            description,
            url,
            token: None,
            private: false,
            protocol: RemoteProtocol::A2a,
        })
    }

    /// Sets the protocol. With [`RemoteProtocol::AgUi`], the address is the one to which runs are posted.
    pub fn with_protocol(mut self, protocol: RemoteProtocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets the bearer token. It is sent to the host of the address only, and without TLS only to private addresses.
    pub fn with_token(mut self, token: Secret) -> Self {
        self.token = Some(token);
        self
    }

    /// Allows addresses of this machine and of private networks, and HTTP without TLS to them.
    pub fn with_private_addresses(mut self) -> Self {
        self.private = true;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the address of the card.
    pub(super) fn card_url(&self) -> Url {
        let mut url = self.url.clone();
        let path = format!("{}/.well-known/agent-card.json", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    /// Returns why messages are not sent to an address, or `None` if they are.
    pub(super) fn refuses(&self, url: &Url) -> Option<&'static str> {
        let host = |url: &Url| url.host().map(|it: Host<&str>| it.to_owned());
        match url.scheme() {
            "https" => {}
            "http" if self.private => {}
            "http" => {
                return Some("the URL does not use TLS, and private addresses are not allowed");
            }
            _ => return Some("only http and https are allowed"),
        }
        let is_weaker = self.url.scheme() == "https" && url.scheme() == "http";
        (host(url) != host(&self.url) || is_weaker)
            .then_some("the URL is not on the host of the configured address")
    }
}

impl fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAgent")
            .field("name", &self.name)
            .field("url", &self.url.as_str())
            .field("private", &self.private)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// The limits of remote agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteAgentPolicy {
    /// The maximum nesting depth of sub-agents, as for local ones; 3 by default.
    pub max_depth: u32,
    /// The number of characters of an answer that the calling agent sees; 8,000 by default; 0 means no limit.
    pub summary_max_chars: usize,
    /// The maximum number of bytes of a response or of an event; 2 MiB by default.
    pub max_bytes: usize,
    /// The timeout of a task or run, after which a task is cancelled; 1 hour by default. Time in which the task waits for an answer
    /// does not count.
    pub timeout: Duration,
    /// The timeout of a request, and of a pause between events; 60 seconds by default.
    pub request_timeout: Duration,
    /// The interval at which a task is read if its agent does not stream, or its stream broke off; 2 seconds by default.
    pub poll_interval: Duration,
}

impl Default for RemoteAgentPolicy {
    fn default() -> Self {
        Self {
            max_depth: child::MAX_DEPTH,
            summary_max_chars: 8_000,
            max_bytes: 2 << 20,
            timeout: Duration::from_hours(1),
            request_timeout: Duration::from_mins(1),
            poll_interval: Duration::from_secs(2),
        }
    }
}
