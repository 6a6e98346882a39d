//! Serving of a router over HTTP/1, with limits for clients.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use futures::{
    FutureExt as _,
    future::{Either, select},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// The limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The maximum number of open connections. Others wait until one is closed.
    pub connections: usize,
    /// The timeout for the head of a request.
    pub head_timeout: Duration,
    /// The maximum number of headers of a request.
    pub headers: usize,
    /// The maximum size of the head of a request, in bytes.
    pub head_bytes: usize,
    /// The time for which connections can stay open after the shutdown has started.
    pub drain_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            head_timeout: Duration::from_secs(10),
            headers: 64,
            head_bytes: 32 << 10,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// How long no connection is accepted after the system refused one, as it does if there are too many files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves a router until shutdown, and then until all connections are closed.
///
/// # Errors
///
/// Errors of single connections are not returned.
pub async fn listen(
    listener: TcpListener,
    app: Router,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let open = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let permit = Arc::clone(&open).acquire_owned().await.map_err(io::Error::other)?;
            let (stream, _) = listener.accept().await?;
            Ok::<_, io::Error>((stream, permit))
        };
        let accepted = match select(pin!(shutdown.cancelled()), pin!(accepted)).await {
            Either::Left(_) => break,
            Either::Right((accepted, _)) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let (app, shutdown) = (app.clone(), shutdown.clone());
                connections.spawn(async move {
                    serve(stream, app, limits, shutdown).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
        // Those that are closed need not be kept.
        while connections.join_next().now_or_never().flatten().is_some() {}
    }
    drop(listener);
    let closed = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(limits.drain_timeout, closed).await.ok();
    Ok(())
}

async fn serve(
    stream: TcpStream,
    app: Router,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) {
    // Events are small, and each is to be seen at once.
    stream.set_nodelay(true).ok();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let mut connection = pin!(connection);
    let ended = match select(pin!(shutdown.cancelled()), connection.as_mut()).await {
        Either::Right((ended, _)) => ended,
        Either::Left(_) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
