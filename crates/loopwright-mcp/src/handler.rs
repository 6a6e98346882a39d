//! Requests and notifications of servers to the client.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[expect(deprecated, reason = "earlier revisions of the protocol have roots and log messages")]
use rmcp::model::{ListRootsResult, LoggingMessageNotificationParam, Root};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability,
        FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken,
        RootsCapabilities, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::{Notify, mpsc};

use crate::elicitation::{AnswerElicitations, Elicitation, ElicitationReply};
use crate::log::ServerLog;

/// A report of progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// The receivers of progress reports, by request. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressListeners(Arc<Mutex<BTreeMap<String, mpsc::Sender<Progress>>>>);

impl ProgressListeners {
    /// Listens to reports under a token until the listener is dropped.
    pub(crate) fn listen(&self, token: &ProgressToken) -> ProgressListener {
        let (sender, receiver) = mpsc::channel(8);
        let token = key(token);
        self.lock().insert(token.clone(), sender);
        ProgressListener { listeners: self.clone(), token, receiver }
    }

    fn report(&self, token: &ProgressToken, progress: Progress) {
        if let Some(listener) = self.lock().get(&key(token)) {
            // A report that finds no room is replaced by the next one.
            listener.try_send(progress).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, mpsc::Sender<Progress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(token: &ProgressToken) -> String {
    token.0.to_string()
}

/// Reports of the progress of one request.
pub(crate) struct ProgressListener {
    listeners: ProgressListeners,
    token: String,
    pub(crate) receiver: mpsc::Receiver<Progress>,
}

impl Drop for ProgressListener {
    fn drop(&mut self) {
        self.listeners.lock().remove(&self.token);
    }
}

/// The client's side of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) roots: Arc<[PathBuf]>,
    pub(crate) server: String,
    pub(crate) answers: Option<Arc<dyn AnswerElicitations>>,
    pub(crate) log: ServerLog,
    pub(crate) progress: ProgressListeners,
    /// The list of tools has changed.
    pub(crate) tools_changed: Arc<Notify>,
}

#[expect(deprecated, reason = "earlier revisions of the protocol have roots and log messages")]
impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        let elicitation = ElicitationCapability::default()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        capabilities.elicitation = Some(elicitation);
        let client = Implementation::new("loopwright", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, rmcp::ErrorData> {
        Ok(ListRootsResult::new(roots(&self.roots)))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let question = Elicitation::new(&self.server, &request);
        let reply = match &self.answers {
            Some(answers) => answers.answer(&question).await,
            // This revision cannot wait for an answer.
            None => ElicitationReply::Decline,
        };
        let invalid =
            |error: serde_json::Error| rmcp::ErrorData::internal_error(error.to_string(), None);
        serde_json::from_value(question.to_result(reply)).map_err(invalid)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let ProgressNotificationParam { progress_token, progress, total, message, .. } = params;
        self.progress.report(&progress_token, Progress { done: progress, total, message });
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let data = match params.data {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        self.log.push(&format!("[{:?}] {data}", params.level));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
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
