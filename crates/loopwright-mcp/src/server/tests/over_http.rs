//! What guards a server over HTTP.

use ::http::{Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use tokio_util::sync::CancellationToken;

use super::*;

fn server() -> HttpToolServer {
    HttpToolServer::on_loopback(ToolServer::new(dice()), CancellationToken::new())
}

/// A request that begins a session.
fn begins() -> Request<Full<Bytes>> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    Request::post("/mcp")
        .header("host", "127.0.0.1:8080")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap()
}

#[tokio::test]
async fn requests_for_other_hosts_and_of_pages_of_other_origins_are_refused() {
    let server = server();
    let status = async |name: &'static str, value: &'static str| {
        let mut request = begins();
        request.headers_mut().insert(name, value.parse().unwrap());
        server.handle(request).await.status()
    };
    assert_eq!(status("host", "evil.example").await, StatusCode::FORBIDDEN);
    assert_eq!(status("origin", "http://evil.example").await, StatusCode::FORBIDDEN);
    assert_eq!(status("origin", "http://localhost:6274").await, StatusCode::OK);
}

#[tokio::test]
async fn sessions_are_bounded_and_make_room_when_they_end() {
    let server = server();
    let mut last = None;
    for _ in 0..256 {
        let begun = server.handle(begins()).await;
        assert_eq!(begun.status(), StatusCode::OK);
        last = begun.headers().get("mcp-session-id").cloned();
    }
    assert_eq!(server.handle(begins()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let mut ends = begins();
    *ends.method_mut() = Method::DELETE;
    ends.headers_mut().insert("mcp-session-id", last.unwrap());
    assert!(server.handle(ends).await.status().is_success());
    assert_eq!(server.handle(begins()).await.status(), StatusCode::OK);
}
