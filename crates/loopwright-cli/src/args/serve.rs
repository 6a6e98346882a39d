//! The options of the server and of its tokens.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use loopwright_core::messages::Cost;
use loopwright_server::{InvalidIssuer, OidcIssuer, PrincipalLimits, Role};
use loopwright_sessions::JobLabel;

use super::agent::AgentArgs;
use super::session::{OnInterruptedArg, SessionArgs};
use super::snapshots::SnapshotArgs;
use super::values::{StoreParser, parsed};
use crate::config::Text;

/// Arguments of `serve`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ServeArgs {
    /// Listen on this address; an address other than loopback requires --behind-proxy
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8787")]
    pub listen: SocketAddr,
    /// Accept requests for this host name; include the port unless it is the default; repeatable
    #[arg(long = "host", value_name = "NAME[:PORT]")]
    pub hosts: Vec<String>,
    /// Assume that a proxy terminates TLS and that clients can reach the server only through the proxy
    #[arg(long, requires = "hosts")]
    pub behind_proxy: bool,
    /// Take the name of the principal from this header, which the proxy must always set or remove
    #[arg(long, value_name = "NAME", requires = "behind_proxy")]
    pub principal_header: Option<String>,
    /// Give this role to principals named by --principal-header
    #[arg(
        long,
        value_name = "ROLE",
        value_enum,
        default_value = "approve",
        requires = "principal_header"
    )]
    pub principal_role: RoleArg,
    /// The issuer of tokens.
    #[command(flatten)]
    pub oidc: OidcArgs,
    /// Open the server's web page in a browser
    #[arg(long, conflicts_with = "behind_proxy")]
    pub open: bool,
    /// Accept the tokens in this file [default: tokens.json in ~/.local/state/loopwright]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tokens: Option<PathBuf>,
    /// Create a directory for each session in this directory, and remove it together with the session
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub session_dirs: Option<PathBuf>,
    /// Where the directories of sessions are stored.
    #[command(flatten)]
    pub snapshots: SnapshotArgs,
    /// The limits of principals that have none of their own.
    #[command(flatten)]
    pub limits: PrincipalLimitArgs,
    /// Append a line of JSON to this file for each request that changes something or is rejected
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub audit: Option<PathBuf>,
    /// Run up to N sessions concurrently; others wait
    #[arg(short = 'j', long, value_name = "N", default_value = "16")]
    pub concurrency: NonZeroUsize,
    /// Leave all runs to workers that share the session store
    #[arg(long, conflicts_with_all = ["concurrency", "labels"])]
    pub no_worker: bool,
    /// Run jobs that need this label, such as `gpu` or `zone=eu`; repeatable
    #[arg(long = "label", value_name = "LABEL")]
    pub labels: Vec<JobLabel>,
    /// Give running steps S seconds to finish after a stop signal
    #[arg(long, value_name = "S", default_value = "30", value_parser = parsed::<Duration>)]
    pub drain_timeout: Duration,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser, help_heading = "Session")]
    pub store: Option<Text>,
    /// The agent, its limits and its output.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "OpenID Connect")]
pub struct OidcArgs {
    /// Accept bearer tokens from this OpenID Connect issuer
    #[arg(long, value_name = "URL", requires = "oidc_audience")]
    pub oidc_issuer: Option<String>,
    /// Accept only tokens from the issuer that have this audience
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    pub oidc_audience: Option<String>,
    /// Take the name of the principal from this claim, whose value users must not be able to choose [default: sub]
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer")]
    pub oidc_principal_claim: Option<String>,
    /// Take roles from this claim, which is a string or a list
    #[arg(long, value_name = "CLAIM", requires = "oidc_map")]
    pub oidc_role_claim: Option<String>,
    /// Give ROLE to tokens whose role claim has VALUE; repeatable
    #[arg(long, value_name = "VALUE=ROLE", value_parser = mapped_role, requires = "oidc_role_claim")]
    pub oidc_map: Vec<(String, RoleArg)>,
    /// Give this role to tokens that match no --oidc-map [default: reject them]
    #[arg(long, value_name = "ROLE", value_enum, requires = "oidc_issuer")]
    pub oidc_role: Option<RoleArg>,
}

impl OidcArgs {
    /// Returns the issuer, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if its address or the audience is invalid.
    pub fn issuer(&self) -> Result<Option<OidcIssuer>, InvalidIssuer> {
        let (Some(issuer), Some(audience)) = (&self.oidc_issuer, &self.oidc_audience) else {
            return Ok(None);
        };
        let mut issuer = OidcIssuer::new(issuer, audience)?;
        if let Some(claim) = &self.oidc_principal_claim {
            issuer = issuer.with_principal_claim(claim);
        }
        if let Some(claim) = &self.oidc_role_claim {
            let roles = self.oidc_map.iter().map(|(value, role)| (value.clone(), (*role).into()));
            issuer = issuer.with_role_claim(claim, roles);
        }
        if let Some(role) = self.oidc_role {
            issuer = issuer.with_role(role.into());
        }
        Ok(Some(issuer))
    }
}

/// Parses a claim value and the role that it maps to.
fn mapped_role(text: &str) -> Result<(String, RoleArg), String> {
    let (value, role) = text.rsplit_once('=').ok_or("write it as VALUE=ROLE")?;
    Ok((value.to_owned(), RoleArg::from_str(role, false)?))
}

/// The limits of a principal, set for the whole server or for one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Limits of principals")]
pub struct PrincipalLimitArgs {
    /// Accept at most N requests per minute from each principal
    #[arg(long, value_name = "N")]
    pub rate: Option<NonZeroU32>,
    /// Reject further runs from a principal while N of its runs are queued or running
    #[arg(long, value_name = "N")]
    pub max_runs: Option<NonZeroU32>,
    /// Reject runs from a principal that has used N tokens in the current UTC day
    #[arg(long, value_name = "N")]
    pub tokens_per_day: Option<NonZeroU64>,
    /// Reject runs from a principal that has spent this amount in the current UTC day
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub cost_per_day: Option<Cost>,
}

/// The values of options that take a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Read its own sessions
    Read,
    /// Also create, run and delete its own sessions
    #[default]
    Run,
    /// Also decide on tool calls that need approval
    Approve,
    /// Also read the metrics of the server
    Admin,
}

/// Arguments of `tokens`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct TokensArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: TokensCommand,
    /// Use this file [default: tokens.json in ~/.local/state/loopwright]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tokens: Option<PathBuf>,
}

/// Subcommands of `tokens`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum TokensCommand {
    /// Create a token and print it; the token cannot be shown again
    ///
    /// If you do not set a limit, the server's limit applies.
    Create(TokenCreateArgs),
    /// List the tokens without their secrets
    List(TokenListArgs),
    /// Revoke a token; later requests that use the token are rejected
    Revoke(TokenRevokeArgs),
}

/// Arguments of `tokens create`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct TokenCreateArgs {
    /// The principal that the token represents; `local` is the user of this machine
    #[arg(long, value_name = "NAME")]
    pub principal: String,
    /// What the principal may do
    #[arg(long, value_name = "ROLE", value_enum, default_value = "run")]
    pub role: RoleArg,
    /// Make the token expire after N days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: Option<u32>,
    /// The limits of the principal; for those that are not set, the limits of the server apply.
    #[command(flatten)]
    pub limits: PrincipalLimitArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tokens list`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct TokenListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tokens revoke`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct TokenRevokeArgs {
    /// The ID of the token, as `loopwright tokens list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
}

impl From<RoleArg> for Role {
    fn from(typed: RoleArg) -> Self {
        match typed {
            RoleArg::Read => Self::Read,
            RoleArg::Run => Self::Run,
            RoleArg::Approve => Self::Approve,
            RoleArg::Admin => Self::Admin,
        }
    }
}

/// Parses a positive amount of US dollars.
fn dollars(text: &str) -> Result<Cost, String> {
    match text.parse::<f64>() {
        Ok(dollars) if dollars.is_finite() && dollars > 0.0 => Ok(Cost::from_dollars(dollars)),
        _ => Err("not a positive amount of US dollars".to_owned()),
    }
}

impl PrincipalLimitArgs {
    /// Returns the limits.
    pub fn limits(&self) -> PrincipalLimits {
        PrincipalLimits {
            requests_per_minute: self.rate,
            open_runs: self.max_runs,
            tokens_per_day: self.tokens_per_day,
            cost_per_day: self.cost_per_day,
        }
    }
}

impl ServeArgs {
    /// Returns the session options in the form that a run takes.
    pub fn session_args(&self) -> SessionArgs {
        SessionArgs {
            store: self.store.clone(),
            on_interrupted: Some(OnInterruptedArg::RequireDecision),
            ..SessionArgs::default()
        }
    }
}
