//! The authorization check before an operation.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::{operation::Security, problem::Problem, server::Server};

/// Finds out who sends a request, and whether it may do this.
pub(crate) async fn authorized(
    State((server, security)): State<(Server, Security)>,
    mut request: Request,
    next: Next,
) -> Response {
    let Security::Role(role) = security else { return next.run(request).await };
    let now = server.clock().now();
    // The request itself cannot be shared while the keys of an issuer are awaited.
    let headers = std::mem::take(request.headers_mut());
    let found = server.access().principal(&headers, now).await;
    *request.headers_mut() = headers;
    match found {
        Ok(principal) => {
            request.extensions_mut().insert(principal.clone());
            let mut response = match server.count(&principal).await {
                Err(problem) => problem.into_response(),
                Ok(()) if principal.role() < role => {
                    let text = format!("this operation requires role `{role}`");
                    Problem::forbidden(text).into_response()
                }
                Ok(()) => next.run(request).await,
            };
            response.extensions_mut().insert(principal);
            response
        }
        Err(problem) => problem.into_response(),
    }
}
