//! The visitor of a page.

use std::sync::OnceLock;

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};

use crate::{
    access::{one, unreadable},
    extract::bytes,
    principal::{Principal, Role},
    problem::Problem,
    server::Server,
    tokens::{hash, is_same, random_token},
};

/// The principal who views the page.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) principal: Principal,
    /// The secret in this visitor's forms, so that pages of other sites cannot submit them.
    pub(crate) csrf: String,
    /// The cookie, if the visitor signed in here.
    pub(crate) cookie: Option<String>,
}

/// The fields of a form that the visitor submitted.
pub(crate) struct Fields(Vec<(String, String)>);

impl Visitor {
    /// Returns the visitor who sent a request, or `None` if not signed in.
    pub(crate) fn of(server: &Server, headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let access = server.access();
        if let Some(principal) = access.of_proxy(headers)? {
            let csrf = hash(&format!("csrf\n{}\n{}", process_secret()?, principal.name()));
            return Ok(Some(Self { principal, csrf, cookie: None }));
        }
        let (Some(cookie), Some(tokens)) = (cookie(headers)?, access.tokens()) else {
            return Ok(None);
        };
        let principal =
            tokens.browser(&cookie, server.clock().now()).map_err(|error| unreadable(&error))?;
        let csrf = hash(&format!("csrf\n{cookie}"));
        Ok(principal.map(|principal| Self { principal, csrf, cookie: Some(cookie) }))
    }

    pub(crate) fn may(&self, role: Role) -> bool {
        self.principal.role() >= role
    }
}

/// A secret of this process, for visitors that have no cookie.
fn process_secret() -> Result<&'static str, Problem> {
    static SECRET: OnceLock<String> = OnceLock::new();
    if let Some(secret) = SECRET.get() {
        return Ok(secret);
    }
    let random = random_token().map_err(|error| Problem::internal(error.to_string()))?;
    Ok(SECRET.get_or_init(|| random))
}

/// Returns the name of the cookie. It contains the port, because cookies ignore ports: servers on one machine must not
/// sign
/// visitors of each other out.
pub(crate) fn cookie_name(headers: &HeaderMap) -> Result<String, Problem> {
    let host = one(headers, &header::HOST)?.unwrap_or_default();
    let port = host.rsplit_once(':').map(|it| it.1).filter(|it| it.parse::<u16>().is_ok());
    Ok(port.map_or_else(|| "loopwright".to_owned(), |port| format!("loopwright_{port}")))
}

fn cookie(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let name = cookie_name(headers)?;
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut values = cookies
        .flat_map(|it| it.split(';'))
        .filter_map(|it| it.trim().split_once('='))
        .filter(|it| it.0 == name);
    let first = values.next().map(|it| it.1.to_owned());
    // If there are two cookies of this name, another site may have set one.
    Ok(first.filter(|_| values.next().is_none()))
}

impl FromRequestParts<Server> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Server) -> Result<Self, Problem> {
        let visitor = parts.extensions.get::<Self>();
        visitor.cloned().ok_or_else(|| Problem::unauthorized("sign in first"))
    }
}

impl FromRequest<Server> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Problem> {
        let csrf = request.extensions().get::<Visitor>().map(|it| it.csrf.clone());
        let fields = Self::read(request, server).await?;
        if csrf.is_none_or(|it| !is_same(&it, fields.text("csrf"))) {
            return Err(Problem::forbidden("this form is out of date; reload the page"));
        }
        Ok(fields)
    }
}

impl Fields {
    /// Reads the fields of a form without checking who sent it.
    pub(crate) async fn read(request: Request, server: &Server) -> Result<Self, Problem> {
        let media_type = one(request.headers(), &header::CONTENT_TYPE)?.unwrap_or_default();
        if !media_type.starts_with("application/x-www-form-urlencoded") {
            return Err(Problem::unsupported_media_type(
                "send the body as a form: `Content-Type: application/x-www-form-urlencoded`",
            ));
        }
        let bytes = bytes(request, server).await?;
        Ok(Self(form_urlencoded::parse(&bytes).into_owned().collect()))
    }

    /// Returns a field, trimmed; `None` if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.raw(name).unwrap_or_default().trim()
    }

    /// Returns a field as it was sent.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }

    /// Returns all values of a field that occurs several times.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |it| it.0 == name).map(|it| &*it.1)
    }

    /// Returns a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|_| Problem::bad_request(format!("`{name}` is not a number")))
    }
}
