//! Agents on other servers.

use std::fmt;

use loopwright_capabilities::remote_agent::{RemoteAgent, RemoteProtocol};
use serde::Deserialize;
use toml::Value;

use super::SecretRef;
use super::value::{Mismatch, SettingValue};

/// One table `[remote_agents.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAgentTable {
    /// The address, below which the card is, or to which runs are posted.
    pub url: String,
    /// What the agent is for.
    pub description: String,
    /// Where the bearer token is.
    pub token: Option<SecretRef>,
    /// Whether the address may be private.
    pub private: bool,
    /// The protocol.
    pub protocol: RemoteProtocol,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    url: String,
    description: String,
    #[serde(default)]
    token: Option<Value>,
    #[serde(default)]
    private: bool,
    #[serde(default)]
    protocol: RemoteProtocol,
}

impl SettingValue for RemoteAgentTable {
    const EXPECTED: &'static str =
        "a table with `url` and `description`, and optionally `token`, `private` and `protocol`";
    const EXAMPLE: &'static str = "{ url = \"https://agents.example.com/a2a\", description = \"Knows invoices.\", token = \"env:MY_KEY\" }";

    fn from_text(_: &str) -> Option<Self> {
        None
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        if !value.is_table() {
            return Err(Mismatch::Type);
        }
        let written: Written = value.clone().try_into().map_err(|_| Mismatch::Value)?;
        drop(RemoteAgent::new("name", "", &written.url).map_err(|_| Mismatch::Value)?);
        let token = written.token.as_ref().map(SecretRef::from_toml).transpose()?;
        let Written { url, description, private, protocol, .. } = written;
        Ok(Self { url, description, token, private, protocol })
    }
}

/// Shows the address, another protocol than A2A, and the name of the variable, and never its value.
impl fmt::Display for RemoteAgentTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)?;
        if self.protocol == RemoteProtocol::AgUi {
            f.write_str("; by AG-UI")?;
        }
        let token = self.token.as_ref();
        token.map_or(Ok(()), |token| write!(f, "; token in {}", token.variable()))
    }
}
