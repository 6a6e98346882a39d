//! Access control: hosts, origins and credentials.

use std::{fmt, sync::Arc};

use axum::http::{HeaderMap, HeaderName, header, request::Parts};
use loopwright_core::Timestamp;

use crate::{
    principal::{Principal, Role},
    problem::Problem,
    tokens::{TokenError, TokenFile, hash, is_same},
};

/// The credentials and host names that a server accepts. Without credentials, no request is
/// allowed.
#[derive(Clone, Default)]
pub struct AccessControl {
    hosts: Vec<Arc<str>>,
    origins: Vec<Arc<str>>,
    /// The hash of the token of the local user.
    local: Option<Arc<str>>,
    tokens: Option<Arc<TokenFile>>,
    /// The header in which a trusted proxy names the principal, and what it may do then.
    proxy: Option<(HeaderName, Role)>,
    #[cfg(feature = "oidc")]
    issuer: Option<Arc<crate::oidc::OidcIssuer>>,
    /// Whether browsers reach the server only through TLS.
    is_encrypted: bool,
}

impl AccessControl {
    /// Allows no request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts requests for this host, written as in the header `Host`: with the port unless it is
    /// the default of the scheme.
    #[must_use]
    pub fn with_host(mut self, host: impl Into<Arc<str>>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Accepts requests from this origin, such as `https://agents.example.org`. The server's own
    /// hosts are always accepted.
    #[must_use]
    pub fn with_origin(mut self, origin: impl Into<Arc<str>>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Accepts requests with this bearer token as those of the [local user](Principal::local).
    #[must_use]
    pub fn with_local_token(self, token: &str) -> Self {
        Self { local: Some(hash(token).into()), ..self }
    }

    /// Accepts requests with a bearer token of this file as those of its principal.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<TokenFile>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Accepts requests with a bearer token of this issuer as those of the principal that it names.
    #[cfg(feature = "oidc")]
    #[must_use]
    pub fn with_issuer(self, issuer: crate::oidc::OidcIssuer) -> Self {
        Self { issuer: Some(Arc::new(issuer)), ..self }
    }

    /// Accepts requests as those of the principal in this header, with this role. Use it only if
    /// the server is reachable only through a trusted proxy, which sets or removes the header.
    #[must_use]
    pub fn with_proxy_header(self, header: HeaderName, role: Role) -> Self {
        Self { proxy: Some((header, role)), ..self }
    }

    /// Has browsers send the cookie of the page through TLS only. For a server behind a proxy with TLS.
    #[must_use]
    pub fn with_encryption(self) -> Self {
        Self { is_encrypted: true, ..self }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    pub(crate) fn tokens(&self) -> Option<&TokenFile> {
        self.tokens.as_deref()
    }

    /// Refuses requests for other hosts, and those of pages of other origins.
    pub(crate) fn check_origin(&self, parts: &Parts) -> Result<(), Problem> {
        let host = host(parts)?;
        if !self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host)) {
            return Err(Problem::misdirected("the server does not serve this host"));
        }
        let Some(origin) = one(&parts.headers, &header::ORIGIN)? else { return Ok(()) };
        let of_host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let is_own = of_host.is_some_and(|it| it.eq_ignore_ascii_case(host));
        if is_own || self.origins.iter().any(|it| it.eq_ignore_ascii_case(origin)) {
            return Ok(());
        }
        Err(Problem::forbidden("requests from this origin are not allowed"))
    }

    /// Returns who sends a request.
    pub(crate) async fn principal(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Principal, Problem> {
        let invalid = || Problem::unauthorized("send a valid token: `Authorization: Bearer TOKEN`");
        if let Some(principal) = self.of_proxy(headers)? {
            return Ok(principal);
        }
        let credentials = one(headers, &header::AUTHORIZATION)?.ok_or_else(invalid)?;
        let (scheme, token) = credentials.split_once(' ').ok_or_else(invalid)?;
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
            return Err(invalid());
        }
        if self.is_local(token) {
            return Ok(Principal::local());
        }
        let known = self.tokens.as_ref().map(|tokens| tokens.principal(token, now)).transpose();
        if let Some(principal) = known.map_err(|error| unreadable(&error))?.flatten() {
            return Ok(principal);
        }
        #[cfg(feature = "oidc")]
        if let Some(principal) = self.of_issuer(token, now).await? {
            return Ok(principal);
        }
        Err(invalid())
    }

    /// Returns the principal of a token of the issuer.
    #[cfg(feature = "oidc")]
    async fn of_issuer(&self, token: &str, now: Timestamp) -> Result<Option<Principal>, Problem> {
        use crate::oidc::Refused;
        let Some(issuer) = &self.issuer else { return Ok(None) };
        match issuer.principal(token, now).await {
            Ok(principal) => Ok(Some(principal)),
            Err(Refused::Invalid(reason)) => {
                // The reason is for the operator: a client learns only that the token is invalid.
                tracing::debug!(%reason, "a token was refused");
                Ok(None)
            }
            Err(Refused::Unavailable(error)) => {
                tracing::error!(%error, "issuer keys cannot be read");
                Err(Problem::unavailable("tokens cannot be checked now; try again"))
            }
        }
    }

    /// Returns the principal that a trusted proxy names.
    pub(crate) fn of_proxy(&self, headers: &HeaderMap) -> Result<Option<Principal>, Problem> {
        let Some((name, role)) = &self.proxy else { return Ok(None) };
        let Some(principal) = one(headers, name)? else { return Ok(None) };
        // The local user does not come through a proxy.
        if principal.is_empty() || principal.len() > 128 || principal == "local" {
            return Err(Problem::unauthorized("the proxy did not send a valid principal"));
        }
        Ok(Some(Principal::new(principal, *role)))
    }

    /// Returns `true` if a token is that of the local user.
    pub(crate) fn is_local(&self, token: &str) -> bool {
        self.local.as_deref().is_some_and(|it| is_same(it, &hash(token)))
    }
}

/// Tokens that cannot be read are no reason to let anybody in, nor to say that a token is invalid.
pub(crate) fn unreadable(error: &TokenError) -> Problem {
    tracing::error!(%error, "tokens cannot be read");
    Problem::unavailable("tokens cannot be checked now; try again")
}

/// Returns the host that a request is for.
pub(crate) fn host(parts: &Parts) -> Result<&str, Problem> {
    let named = one(&parts.headers, &header::HOST)?;
    // A request whose target names a host is for that one.
    let of_target = parts.uri.authority().map(axum::http::uri::Authority::as_str);
    match (of_target, named) {
        (Some(target), Some(named)) if !target.eq_ignore_ascii_case(named) => {
            Err(Problem::bad_request("the request names two hosts"))
        }
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(Problem::bad_request("the request names no host")),
    }
}

/// Returns the value of a header that may stand in a request once.
pub(crate) fn one<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("header `{name}` is repeated")));
    }
    let text = value.to_str().map_err(|_| {
        Problem::bad_request(format!(
            "header `{name}` contains characters other than visible \
            ASCII"
        ))
    })?;
    Ok(Some(text))
}

impl fmt::Debug for AccessControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessControl").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
