//! The worker: an HTTP/2 server that Restate sends invocations to.

use std::{fmt, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::graceful::GracefulShutdown,
};
use loopwright_core::{RunEnv, Timestamp};
use loopwright_worker::{JobCounts, JobDeliveries, NoQueue, Worker, WorkerEvent, WorkerListener};
use restate_sdk::{endpoint::Endpoint, hyper::HyperEndpoint};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

use crate::{
    scheduler::{Overdue, RestateScheduler},
    service::{RestateKey, RestateService},
    turns::{DeliverTurn, Turns, millis},
};

/// The interval between looks for jobs that Restate should have delivered by then.
const OVERDUE: Duration = Duration::from_secs(10);
/// The delay after a connection could not be accepted.
const TROUBLE: Duration = Duration::from_millis(100);
/// How long connections may stay open once the worker has ended.
const CLOSING: Duration = Duration::from_secs(1);

/// The most connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A worker whose jobs Restate delivers.
///
/// Restate keeps no connection to each worker. It connects to one address, and opens a connection for each
/// [`concurrency`](loopwright_worker::WorkerOptions::concurrency) jobs that run at once. For several workers, that is the address of
/// a load balancer of TCP connections, or on one machine a port that they share.
pub struct RestateWorker {
    deliveries: JobDeliveries,
    scheduler: Arc<RestateScheduler>,
    service: RestateService,
    streams: u32,
    keys: Vec<RestateKey>,
    listeners: Vec<Arc<dyn WorkerListener>>,
}

impl RestateWorker {
    /// Creates a worker from one that would claim jobs by itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the store has no job queue.
    pub fn new(worker: Worker, scheduler: RestateScheduler) -> Result<Self, NoQueue> {
        let scheduler = Arc::new(scheduler);
        let service = scheduler.service().clone();
        let concurrency = worker.options().concurrency.get();
        // Some more than run, so that the next one is there when one ends.
        let streams = u32::try_from(concurrency * 2).unwrap_or(u32::MAX);
        let deliveries = JobDeliveries::new(worker, Arc::clone(&scheduler) as _)?;
        let (keys, listeners) = (Vec::new(), Vec::new());
        Ok(Self { deliveries, scheduler, service, streams, keys, listeners })
    }

    /// Adds a listener to the problems of the connection with Restate. Those of jobs have the listeners of the worker.
    #[must_use]
    pub fn with_listener(mut self, listener: impl WorkerListener + 'static) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// Accepts only requests that are signed by the owner of this key, or of another one that was added. Without keys, all requests
    /// are accepted.
    #[must_use]
    pub fn with_identity_key(mut self, key: RestateKey) -> Self {
        self.keys.push(key);
        self
    }

    /// Runs jobs until `drain` is cancelled, and returns the number of jobs by outcome. What runs then ends as in
    /// [`Worker::run`]; Restate delivers it to another worker.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker cannot serve Restate.
    pub async fn run(
        &self,
        listener: TcpListener,
        drain: &CancellationToken,
    ) -> io::Result<JobCounts> {
        let deliveries: Arc<dyn DeliverTurn> = Arc::new(self.deliveries.clone());
        let serving = serve(listener, deliveries, &self.service, &self.keys, self.streams, drain);
        let work = async {
            match select(pin!(self.deliveries.run(drain)), pin!(self.look_for_overdue())).await {
                Either::Left((counts, _)) => counts,
                Either::Right(((), counts)) => counts.await,
            }
        };
        match select(pin!(serving), pin!(work)).await {
            Either::Left((Err(error), _)) => Err(error),
            Either::Left((Ok(()), work)) => Ok(work.await),
            Either::Right((counts, serving)) => {
                // Restate is told what became of the last jobs.
                match tokio::time::timeout(CLOSING, serving).await {
                    Ok(Err(error)) => Err(error),
                    Ok(Ok(())) | Err(_) => Ok(counts),
                }
            }
        }
    }

    /// Sends jobs again that were recorded by a process that died before it sent them.
    async fn look_for_overdue(&self) {
        let (clock, mut overdue) = (RunEnv::system().clock, Overdue::default());
        loop {
            tokio::time::sleep(OVERDUE).await;
            let before = clock.now().millis().saturating_sub(millis(OVERDUE));
            let before = Timestamp::from_millis(before);
            if let Err(error) = self.scheduler.send_overdue(before, &mut overdue).await {
                let event = WorkerEvent::QueueUnavailable(error.to_string().into());
                for listener in &self.listeners {
                    listener.on_event(&event);
                }
            }
        }
    }
}

impl fmt::Debug for RestateWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestateWorker")
            .field("service", &self.service)
            .field("deliveries", &self.deliveries)
            .finish_non_exhaustive()
    }
}

/// Serves Restate until `stop` is cancelled and every connection is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    deliveries: Arc<dyn DeliverTurn>,
    service: &RestateService,
    keys: &[RestateKey],
    streams: u32,
    stop: &CancellationToken,
) -> io::Result<()> {
    let turns = Turns { deliveries, service: service.clone(), env: RunEnv::system() };
    let turns = turns.into_service().map_err(io::Error::other)?;
    let mut endpoint = Endpoint::builder().bind(turns);
    for key in keys {
        endpoint = endpoint.identity_key(key.as_str()).map_err(io::Error::other)?;
    }
    let endpoint = HyperEndpoint::new(endpoint.build());
    let connections = GracefulShutdown::new();
    loop {
        let stopped = pin!(stop.cancelled());
        let Either::Left((accepted, _)) = select(pin!(listener.accept()), stopped).await else {
            break;
        };
        let Ok((stream, _)) = accepted else {
            // The process has too many files open.
            tokio::time::sleep(TROUBLE).await;
            continue;
        };
        let _small = stream.set_nodelay(true);
        let connection = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(streams)
            .serve_connection(TokioIo::new(stream), endpoint.clone());
        let connection = connections.watch(connection);
        drop(tokio::spawn(async move {
            // Restate delivers again what a broken connection had.
            let _ended = connection.await;
        }));
    }
    drop(listener);
    connections.shutdown().await;
    Ok(())
}

/// Listens at an address. Several workers of one machine can listen at the same one, and the system spreads connections over
/// them.
///
/// # Errors
///
/// Returns an error if a program that does not share the address listens there. Call this within a Tokio runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests;
