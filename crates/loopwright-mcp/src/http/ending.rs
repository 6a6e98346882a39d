//! Requests that end when a token fires, regardless of the server.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio_util::sync::CancellationToken;

use crate::repair::repaired;

type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Failure<C> = StreamableHttpError<<C as StreamableHttpClient>::Error>;

/// A client whose requests and streams end when a token fires.
///
/// The task of the library waits for the responses of the handshake even if no caller waits for the
/// handshake any more, and a server can answer without end.
#[derive(Clone)]
pub(crate) struct EndingClient<C> {
    client: C,
    end: CancellationToken,
    before: Option<Before>,
}

/// What is done before each request.
pub(crate) type Before = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl<C: StreamableHttpClient> EndingClient<C> {
    pub(crate) fn new(client: C, end: CancellationToken) -> Self {
        Self { client, end, before: None }
    }

    /// Sets what is done before each request.
    pub(crate) fn with_before(mut self, before: Before) -> Self {
        self.before = Some(before);
        self
    }

    async fn until_end<T>(
        &self,
        request: impl Future<Output = Result<T, Failure<C>>>,
    ) -> Result<T, Failure<C>> {
        let request = async {
            if let Some(before) = &self.before {
                before().await;
            }
            request.await
        };
        tokio::select! {
            biased;
            () = self.end.cancelled() => Err(StreamableHttpError::TransportChannelClosed),
            answer = request => answer,
        }
    }

    fn events_until_end(&self, events: Events) -> Events {
        events.map(readable).take_until(self.end.clone().cancelled_owned()).boxed()
    }

    fn answer_until_end(&self, answer: StreamableHttpPostResponse) -> StreamableHttpPostResponse {
        match answer {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(self.events_until_end(events), session)
            }
            answer => answer,
        }
    }
}

/// Repairs the text of an event.
fn readable(event: Result<Sse, SseError>) -> Result<Sse, SseError> {
    event.map(|mut event| {
        let data = event.data.take();
        event.data = data.map(|data| match String::from_utf8(repaired(data.as_bytes())) {
            Ok(repaired) => repaired,
            Err(_) => data,
        });
        event
    })
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for EndingClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure<C>> {
        let posted = self.client.post_message(uri, message, session, auth, headers);
        Ok(self.answer_until_end(self.until_end(posted).await?))
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, Failure<C>> {
        let client = &self.client;
        let posted =
            client.post_message_with_max_sse_event_size(uri, message, session, auth, headers, max);
        Ok(self.answer_until_end(self.until_end(posted).await?))
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure<C>> {
        let client = &self.client;
        let posted =
            client.post_message_with_response_limits(uri, message, session, auth, headers, limits);
        Ok(self.answer_until_end(self.until_end(posted).await?))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure<C>> {
        self.until_end(self.client.delete_session(uri, session, auth, headers)).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure<C>> {
        let opened = self.client.get_stream(uri, session, last, auth, headers);
        Ok(self.events_until_end(self.until_end(opened).await?))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<Events, Failure<C>> {
        let client = &self.client;
        let opened =
            client.get_stream_with_max_sse_event_size(uri, session, last, auth, headers, max);
        Ok(self.events_until_end(self.until_end(opened).await?))
    }
}
