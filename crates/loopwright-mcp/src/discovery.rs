//! The question for the revisions of a server, and servers that answer it as they answer every method that they do not know.

use std::borrow::Cow;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::Transport;

/// Returns the ID of a message that asks for the revisions of the server.
pub(crate) fn discovery(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_)) =>
        {
            Some(request.id.clone())
        }
        _ => None,
    }
}

/// A transport that takes a result which names no revisions for what it means: the server does not know the method, so it has an
/// earlier revision.
pub(crate) struct UsableDiscovery<T> {
    inner: T,
    /// The question that is not answered yet.
    asked: Option<RequestId>,
}

impl<T> UsableDiscovery<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, asked: None }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for UsableDiscovery<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let Some(id) = discovery(&item) {
            self.asked = Some(id);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.inner.receive().await?;
        let (Some(asked), ServerJsonRpcMessage::Response(response)) = (&self.asked, &message)
        else {
            return Some(message);
        };
        if response.id != *asked {
            return Some(message);
        }
        let id = self.asked.take();
        if matches!(response.result, ServerResult::DiscoverResult(_)) {
            return Some(message);
        }
        let reason = "its answer to `server/discover` names no revisions of the protocol";
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None);
        Some(ServerJsonRpcMessage::error(error, id))
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
