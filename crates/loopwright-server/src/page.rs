//! The web page: sessions, conversations and decisions for people. The server renders it, and it can be read without
//! scripts.

mod actions;
mod agent;
mod assets;
mod compare;
mod conversation;
mod files;
mod layout;
mod live;
mod markdown;
mod pending;
mod sessions;
mod sign_in;
mod step;
mod timeline;
mod turns;
mod visitor;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, Method, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};

use self::visitor::Visitor;
use crate::{
    principal::{Principal, Role},
    problem::Problem,
    routes::files::download,
    server::Server,
};

/// The content security policy: files of this server only, and no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Returns the routes of the page.
pub(crate) fn routes(server: &Server) -> Router<Server> {
    let open = Router::new()
        .route("/sign-in", get(sign_in::form).post(sign_in::submit))
        .route(assets::STYLE.path, get(async || assets::STYLE.response()))
        .route(assets::SCRIPT.path, get(async || assets::SCRIPT.response()));
    let read = Router::new()
        .route("/", get(sessions::list))
        .route("/sign-out", post(sign_in::out))
        .route("/waiting", get(pending::inbox))
        .route("/agents", get(agent::list))
        .route("/sessions/{session}", get(conversation::show))
        .route("/sessions/{session}/live", get(live::stream))
        .route("/sessions/{session}/timeline", get(timeline::show))
        .route("/sessions/{session}/steps/{step}", get(step::show))
        .route("/sessions/{session}/agent", get(agent::show))
        .route("/sessions/{session}/changes", get(files::changes))
        .route("/sessions/{session}/files", get(files::list))
        .route("/sessions/{session}/file", get(download))
        .route("/sessions/{session}/compare/{other}", get(compare::show));
    let run = Router::new()
        .route("/sessions", post(actions::create))
        .route("/sessions/{session}/messages", post(actions::send))
        .route("/sessions/{session}/stop", post(actions::stop))
        .route("/sessions/{session}/cancel", post(actions::cancel))
        .route("/sessions/{session}/resume", post(actions::resume))
        .route("/sessions/{session}/fork", post(actions::fork))
        .route("/sessions/{session}/rewind", post(actions::rewind))
        .route("/sessions/{session}/delete", post(actions::delete));
    let approve = Router::new().route("/sessions/{session}/pending/{call}", post(actions::decide));
    let guarded = [(read, Role::Read), (run, Role::Run), (approve, Role::Approve)];
    let guarded = guarded.into_iter().fold(open, |routes, (guarded, role)| {
        routes.merge(guarded.route_layer(from_fn_with_state((server.clone(), role), signed_in)))
    });
    guarded.layer(from_fn(as_page))
}

/// Admits visitors who are signed in with a role, and redirects others to the sign-in page.
async fn signed_in(
    State((server, role)): State<(Server, Role)>,
    mut request: Request,
    next: Next,
) -> Response {
    let visitor = match Visitor::of(&server, request.headers()) {
        Ok(visitor) => visitor,
        Err(problem) => return problem.into_response(),
    };
    let Some(visitor) = visitor else {
        if request.method() == Method::GET {
            return Redirect::to(&sign_in::address(request.uri())).into_response();
        }
        return Problem::unauthorized("sign in first").into_response();
    };
    let principal = visitor.principal.clone();
    request.extensions_mut().insert(principal.clone());
    request.extensions_mut().insert(visitor);
    let mut response = match server.count(&principal).await {
        Err(problem) => problem.into_response(),
        Ok(()) if principal.role() < role => {
            Problem::forbidden(format!("this page requires role `{role}`")).into_response()
        }
        Ok(()) => next.run(request).await,
    };
    response.extensions_mut().insert(principal);
    response
}

/// Renders problems as pages, and sets the content security policy.
async fn as_page(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let principal = response.extensions_mut().remove::<Principal>();
        response = layout::problem(&problem);
        if let Some(principal) = principal {
            response.extensions_mut().insert(principal);
        }
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Without a referrer, browsers would send forms with the origin `null`, like other sites.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}
