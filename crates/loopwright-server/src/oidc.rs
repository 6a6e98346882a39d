//! Bearer tokens of an OpenID Connect issuer.

mod jwt;
mod keys;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use loopwright_core::Timestamp;
use loopwright_models::is_loopback;
use serde_json::Value;
use url::Url;

use self::{
    jwt::{InvalidToken, Jwt},
    keys::{KeyStore, KeysUnavailable},
};
use crate::principal::{Principal, Role};

/// The default difference between the clocks of issuer and server that is accepted.
const CLOCK_SKEW: Duration = Duration::from_mins(1);
/// The most bytes of a token.
const MAX_TOKEN: usize = 16 << 10;
/// The most bytes of the name of a principal.
const MAX_NAME: usize = 128;

/// An OpenID Connect issuer whose tokens a server accepts.
///
/// The server reads the issuer's keys from its discovery document, and again if a token names an unknown key. It accepts
/// signatures by RS256, PS256, ES256 and EdDSA, and only tokens that the issuer made for the audience and that have not
/// expired.
///
/// ```
/// use loopwright_server::{OidcIssuer, Role};
///
/// let issuer = OidcIssuer::new("https://login.example.com", "loopwright")?
///     .with_role_claim("groups", [("operators".to_owned(), Role::Admin)])
///     .with_role(Role::Run);
/// # Ok::<(), loopwright_server::InvalidIssuer>(())
/// ```
#[must_use]
pub struct OidcIssuer {
    issuer: String,
    audience: String,
    principal_claim: String,
    role_claim: Option<String>,
    roles: Vec<(String, Role)>,
    role: Option<Role>,
    clock_skew: Duration,
    keys: KeyStore,
}

/// An issuer that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIssuer {
    /// The issuer is not an address with TLS.
    #[error(
        "the issuer `{0}` is invalid; set an https address, or an http address on this machine"
    )]
    Url(String),
    /// The audience is empty.
    #[error("the audience is empty; set it to the audience of the tokens for this server")]
    Audience,
}

/// Why a token gives no access.
#[derive(Debug)]
pub(crate) enum Refused {
    Invalid(InvalidToken),
    /// The keys of the issuer cannot be read.
    Unavailable(KeysUnavailable),
}

impl OidcIssuer {
    /// Creates an issuer. Tokens must have this audience. Without further settings, the claim `sub` is the principal, and
    /// no token has a role.
    ///
    /// # Errors
    ///
    /// Returns an error if the issuer is not an https address, or the audience is empty.
    pub fn new(
        issuer: impl Into<String>,
        audience: impl Into<String>,
    ) -> Result<Self, InvalidIssuer> {
        let (issuer, audience) = (issuer.into(), audience.into());
        if audience.is_empty() {
            return Err(InvalidIssuer::Audience);
        }
        let url = Url::parse(&issuer).ok().filter(is_safe);
        let is_plain = |it: &Url| it.query().is_none() && it.fragment().is_none();
        let Some(url) = url.filter(is_plain) else { return Err(InvalidIssuer::Url(issuer)) };
        Ok(Self {
            keys: KeyStore::new(issuer.clone(), url),
            issuer,
            audience,
            principal_claim: "sub".to_owned(),
            role_claim: None,
            roles: Vec::new(),
            role: None,
            clock_skew: CLOCK_SKEW,
        })
    }

    /// Sets the claim that names the principal. Use only claims that users cannot choose themselves.
    pub fn with_principal_claim(mut self, claim: impl Into<String>) -> Self {
        self.principal_claim = claim.into();
        self
    }

    /// Sets the claim, a text or a list of texts, that gives roles, and the role for each of its values. The highest role
    /// applies.
    pub fn with_role_claim(
        mut self,
        claim: impl Into<String>,
        roles: impl IntoIterator<Item = (String, Role)>,
    ) -> Self {
        self.role_claim = Some(claim.into());
        self.roles = roles.into_iter().collect();
        self
    }

    /// Sets the role of tokens to which the claim gives none. Without it, these are refused.
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Sets the accepted difference between the clocks of issuer and server; a minute by default.
    pub fn with_clock_skew(mut self, clock_skew: Duration) -> Self {
        self.clock_skew = clock_skew;
        self
    }

    /// Returns the principal of a token.
    pub(crate) async fn principal(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Principal, Refused> {
        if token.len() > MAX_TOKEN {
            return Err(InvalidToken("the text is too long").into());
        }
        let jwt = Jwt::parse(token)?;
        let keys = self.keys.of(jwt.key_id(), now).await.map_err(Refused::Unavailable)?;
        let claims = jwt.verify(&keys)?;
        self.check(&claims, now)?;
        self.mapped(&claims)
    }

    fn check(&self, claims: &Value, now: Timestamp) -> Result<(), InvalidToken> {
        if claims["iss"] != self.issuer.as_str() {
            return Err(InvalidToken("the issuer does not match"));
        }
        let is_for = |it: &Value| *it == self.audience.as_str();
        let is_audience = match &claims["aud"] {
            Value::Array(all) => all.iter().any(is_for),
            one => is_for(one),
        };
        if !is_audience {
            return Err(InvalidToken("the audience does not match"));
        }
        let now = Duration::from_millis(now.millis()).as_secs_f64();
        let skew = self.clock_skew.as_secs_f64();
        match claims["exp"].as_f64() {
            Some(ends) if now < ends + skew => {}
            Some(_) => return Err(InvalidToken("it has expired")),
            None => return Err(InvalidToken("the expiry time is missing")),
        }
        for name in ["nbf", "iat"] {
            match &claims[name] {
                Value::Null => {}
                begins if begins.as_f64().is_some_and(|it| it <= now + skew) => {}
                _ => return Err(InvalidToken("the validity period has not started")),
            }
        }
        Ok(())
    }

    fn mapped(&self, claims: &Value) -> Result<Principal, Refused> {
        let name = claims[self.principal_claim.as_str()].as_str().unwrap_or_default();
        // The local user does not come from an issuer.
        if name.is_empty() || name.len() > MAX_NAME || name == "local" {
            return Err(InvalidToken("the principal is missing or invalid").into());
        }
        let claim = self.role_claim.as_deref().map_or(&Value::Null, |it| &claims[it]);
        let values = match claim {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<_>>(),
        };
        let given = self.roles.iter().filter(|(value, _)| values.contains(&value.as_str()));
        let role = given.map(|(_, role)| *role).max().or(self.role);
        let role = role.ok_or(InvalidToken("the token grants no role on this server"))?;
        Ok(Principal::new(name, role))
    }
}

impl From<InvalidToken> for Refused {
    fn from(reason: InvalidToken) -> Self {
        Self::Invalid(reason)
    }
}

/// Returns `true` if what is read from an address cannot be changed on the way.
fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

impl fmt::Debug for OidcIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcIssuer")
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}
