//! Signing in and out.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::html;
use serde::Deserialize;

use super::{
    layout,
    visitor::{Fields, Visitor, cookie_name},
};
use crate::{
    access::unreadable, extract::Params, principal::Principal, problem::Problem, server::Server,
    tokens::NewToken,
};

#[derive(Deserialize)]
pub(crate) struct SignInParams {
    /// A one-time sign-in token.
    token: Option<String>,
    /// The path to go to afterwards.
    next: Option<String>,
}

/// Returns the address of the sign-in page, which then continues to the requested page.
pub(crate) fn address(asked: &Uri) -> String {
    let next = asked.path_and_query().map_or("/", |it| it.as_str());
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    format!("/sign-in?next={next}")
}

/// Asks for a token, or uses the one in the address.
pub(crate) async fn form(
    State(server): State<Server>,
    headers: HeaderMap,
    Params(params): Params<SignInParams>,
) -> Result<Response, Problem> {
    let next = own_path(params.next.as_deref());
    // A token in the address works only once, because it stays in the browser's history.
    if let Some(token) = params.token.as_deref().filter(|it| it.starts_with("lwo_")) {
        return match signed_in(&server, token)? {
            Some(browser) => welcome(&server, &headers, &browser, next),
            None => Ok(asking(
                StatusCode::UNAUTHORIZED,
                next,
                Some("This sign-in address was already used or has expired."),
            )),
        };
    }
    Ok(asking(StatusCode::OK, next, None))
}

pub(crate) async fn submit(
    State(server): State<Server>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    // Only pages of this server ask for tokens.
    let site = headers.get("sec-fetch-site").and_then(|it| it.to_str().ok());
    if site.is_some_and(|it| it != "same-origin" && it != "none") {
        return Err(Problem::forbidden("sign in on this server's page"));
    }
    let fields = Fields::read(request, &server).await?;
    let next = own_path(fields.raw("next"));
    match signed_in(&server, fields.text("token"))? {
        Some(browser) => welcome(&server, &headers, &browser, next),
        None => Ok(asking(StatusCode::UNAUTHORIZED, next, Some("This token is not valid."))),
    }
}

fn signed_in(server: &Server, token: &str) -> Result<Option<NewToken>, Problem> {
    let now = server.clock().now();
    let Some(tokens) = server.access().tokens() else {
        return Err(Problem::conflict("this server has no token file; sign in through its proxy"));
    };
    if server.access().is_local(token) {
        return tokens
            .sign_in_as(&Principal::local(), now)
            .map(Some)
            .map_err(|error| unreadable(&error));
    }
    tokens.sign_in(token, now).map_err(|error| unreadable(&error))
}

/// Sets the cookie. This page loads the next one, because after a redirect from another site, the browser would not
/// send the cookie.
fn welcome(
    server: &Server,
    headers: &HeaderMap,
    browser: &NewToken,
    next: &str,
) -> Result<Response, Problem> {
    let main = html! {
        h1 { "Signed in" }
        p { a href=(next) { "Continue" } }
        meta http-equiv="refresh" content=(format!("0;url={next}"));
    };
    let mut response = layout::outside(StatusCode::OK, "Signed in", &main);
    let ends = browser.record.expires_at.unwrap_or_default();
    let seconds = ends.since(browser.record.created_at).as_secs();
    set_cookie(server, headers, &mut response, &browser.secret, seconds)?;
    Ok(response)
}

fn set_cookie(
    server: &Server,
    headers: &HeaderMap,
    response: &mut Response,
    value: &str,
    seconds: u64,
) -> Result<(), Problem> {
    let name = cookie_name(headers)?;
    let secure = if server.access().is_encrypted() { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let cookie = HeaderValue::from_str(&cookie)
        .map_err(|_| Problem::internal("the cookie cannot be written"))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(())
}

/// Returns a path of this server, to go to after signing in.
fn own_path(next: Option<&str>) -> &str {
    let is_own = |it: &&str| {
        let is_plain = it.chars().all(|c| c.is_ascii_graphic() && c != '\\');
        it.starts_with('/') && !it.starts_with("//") && is_plain
    };
    next.filter(is_own).unwrap_or("/")
}

fn asking(status: StatusCode, next: &str, wrong: Option<&str>) -> Response {
    let main = html! {
        h1 { "Sign in" }
        @if let Some(wrong) = wrong { p role="alert" { (wrong) } }
        form.stack method="post" action="/sign-in" {
            input type="hidden" name="next" value=(next);
            label for="token" { "Token" }
            input id="token" name="token" type="password" autocomplete="off" required aria-describedby="hint";
            p id="hint" {
                "The server prints a token when it starts. To create another one, run "
                code { "loopwright tokens create" } "."
            }
            button { "Sign in" }
        }
    };
    layout::outside(status, "Sign in", &main)
}

pub(crate) async fn out(
    State(server): State<Server>,
    visitor: Visitor,
    headers: HeaderMap,
    _: Fields,
) -> Result<Response, Problem> {
    let (tokens, cookie) = (server.access().tokens(), visitor.cookie);
    if let (Some(tokens), Some(cookie)) = (tokens, cookie) {
        tokens.sign_out(&cookie, server.clock().now()).map_err(|error| unreadable(&error))?;
    }
    let mut response = Redirect::to("/sign-in").into_response();
    set_cookie(&server, &headers, &mut response, "", 0)?;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_follow_a_sign_in() {
        let of = |next| own_path(Some(next));
        assert_eq!(of("/sessions/7f3a?q=a%20b"), "/sessions/7f3a?q=a%20b");
        let others =
            ["//evil.example", "https://evil.example", "/\\evil.example", "", "x", "/a\tb"];
        assert_eq!(others.map(of), ["/"; 6]);
        assert_eq!(own_path(None), "/");
    }
}
