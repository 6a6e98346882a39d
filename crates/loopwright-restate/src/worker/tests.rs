//! Requests that a worker accepts.

use std::net::SocketAddr;

use async_trait::async_trait;
use hyper::{Request, client::conn::http2::handshake};
use loopwright_sessions::{JobId, SessionId};
use loopwright_worker::JobDelivery;
use restate_sdk::prelude::HandlerError;

use super::*;

/// A worker without jobs.
struct Idle;

#[async_trait]
impl DeliverTurn for Idle {
    async fn deliver(&self, _: &SessionId, _: &JobId) -> JobDelivery {
        JobDelivery::Unknown
    }

    async fn cancel(&self, _: &SessionId, _: &JobId) -> Result<JobDelivery, HandlerError> {
        Ok(JobDelivery::Unknown)
    }
}

/// Asks a worker what it offers, as Restate does when it is registered, and returns the status of the response.
async fn discover(address: SocketAddr, signature: Option<&str>) -> u16 {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    drop(tokio::spawn(connection));
    let mut request = Request::get(format!("http://{address}/discover"))
        .header("accept", "application/vnd.restate.endpointmanifest.v4+json");
    if let Some(signature) = signature {
        request = request
            .header("x-restate-signature-scheme", "v1")
            .header("x-restate-jwt-v1", signature);
    }
    let response = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn a_worker_with_a_key_refuses_requests_that_are_not_signed_with_it() {
    let key = "publickeyv1_ChjENKeMvCtRnqG2mrBK1HmPKufgFUc98K8B3ononQvp".parse().unwrap();
    for (keys, statuses) in [(vec![], [200, 200]), (vec![key], [401, 401])] {
        let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serving = tokio::spawn(async move {
            let service = RestateService::default();
            serve(listener, Arc::new(Idle), &service, &keys, 10, &stopped).await
        });
        let found = [discover(address, None).await, discover(address, Some("a.b.c")).await];
        assert_eq!(found, statuses);
        stop.cancel();
        serving.await.unwrap().unwrap();
    }
}
