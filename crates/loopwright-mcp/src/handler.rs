//! Requests and notifications of servers to the client.

use std::path::PathBuf;
use std::sync::Arc;

#[expect(
    deprecated,
    reason = "earlier revisions of the protocol have roots, sampling and log messages"
)]
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ListRootsResult, Root, RootsCapabilities,
    SamplingCapability,
};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestMethod, ElicitRequestParams,
        ElicitResult, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
        JsonObject, ResourceUpdatedNotificationParam, TASKS_EXTENSION_ID, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::changes::Changes;
use crate::elicitation::{AnswerElicitations, Elicitation, ElicitationReply};
use crate::input::Question;
use crate::listeners::Listeners;
use crate::sampling::SamplingRequest;

/// The client's side of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) roots: Arc<[PathBuf]>,
    pub(crate) server: String,
    pub(crate) answers: Option<Arc<dyn AnswerElicitations>>,
    pub(crate) listeners: Listeners,
    /// Whether the server may ask for the response of a model.
    pub(crate) samples: bool,
    pub(crate) changes: Changes,
}

impl Handler {
    /// Passes a question to the call that it is about. Returns `None` if there is none, and an error if the call ends
    /// without an answer.
    async fn asked_of_call(
        &self,
        question: Question,
        context: &RequestContext<RoleClient>,
    ) -> Option<Result<Value, ErrorData>> {
        let answer = self.listeners.ask(question).ok()?;
        let answer = tokio::select! {
            biased;
            () = context.ct.cancelled() => None,
            answer = answer => answer.ok(),
        };
        let gone = || Err(ErrorData::internal_error("the call has ended", None));
        Some(answer.unwrap_or_else(gone))
    }
}

/// Reads an answer into the type that the library sends.
fn typed<T: DeserializeOwned>(answer: Value) -> Result<T, ErrorData> {
    serde_json::from_value(answer)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

#[expect(
    deprecated,
    reason = "earlier revisions of the protocol have roots, sampling and log messages"
)]
impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        let elicitation = ElicitationCapability::default()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        capabilities.elicitation = Some(elicitation);
        if self.samples {
            let mut sampling = SamplingCapability::default();
            sampling.tools = Some(JsonObject::default());
            capabilities.sampling = Some(sampling);
        }
        let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::default());
        capabilities.extensions = Some([tasks].into());
        let client = Implementation::new("loopwright", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(roots(&self.roots)))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let question = Elicitation::new(&self.server, &request);
        if let Some(answers) = &self.answers {
            let reply = answers.answer(&question).await;
            return typed(question.to_result(reply));
        }
        match self.asked_of_call(Question::Elicitation(question.clone()), &context).await {
            Some(answer) => typed(answer?),
            None => typed(question.to_result(ElicitationReply::Decline)),
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        if !self.samples {
            return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
        }
        let params = serde_json::to_value(&params).unwrap_or_default();
        let request = SamplingRequest::new(&self.server, params)
            .map_err(|reason| ErrorData::invalid_params(reason, None))?;
        if let Some(answer) = self.asked_of_call(Question::Sampling(request), &context).await {
            typed(answer?)
        } else {
            let reason = "no call of an agent is running, so no model is available";
            Err(ErrorData::invalid_request(reason, None))
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.tools.notify_one();
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.cache.forget_resources();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.cache.forget_prompts();
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.changes.of_resource(&params.uri);
    }
}

#[expect(deprecated, reason = "earlier revisions of the protocol have roots")]
pub(crate) fn roots(folders: &[PathBuf]) -> Vec<Root> {
    folders.iter().map(|folder| Root::new(file_uri(folder))).collect()
}

/// Returns the `file` address of a path.
pub(crate) fn file_uri(path: &std::path::Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            byte => {
                uri.push('%');
                uri.extend(
                    [byte >> 4, byte & 15]
                        .map(|it| char::from(b"0123456789ABCDEF"[usize::from(it)])),
                );
            }
        }
    }
    uri
}
