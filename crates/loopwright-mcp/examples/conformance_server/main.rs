//! A server with the tools, resources and prompts that the official conformance suite asks of servers, on
//! `http://127.0.0.1:PORT/mcp`. The port is the first argument; without one, a free port is taken. The first line of
//! output is the address.
#![expect(clippy::print_stdout, reason = "the suite reads the address")]

mod content;
mod tools;

use std::error::Error;
use std::sync::Arc;

use axum::{Router, body::Body, extract::Request, routing::any};
use loopwright_mcp::{HttpToolServer, ServerChanges, ToolServer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map(|it| it.parse()).transpose()?.unwrap_or(0);
    let changes = ServerChanges::new();
    let server = ToolServer::new(tools::all(&changes))
        .with_name("loopwright-conformance", env!("CARGO_PKG_VERSION"))
        .with_content(Arc::new(content::Fixtures))
        .with_changes(&changes);
    let server = HttpToolServer::on_loopback(server, CancellationToken::new());
    let handle = move |request: Request| async move { server.handle(request).await.map(Body::new) };
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/mcp", any(handle))).await?;
    Ok(())
}
