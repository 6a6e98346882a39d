//! Notifications that a run waits, with a command and a webhook of the user.

use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::BoxError;
use loopwright_models::{Timeouts, WebClient};
use loopwright_sessions::{JobOutcome, SessionStore};
use loopwright_worker::WorkerEvent;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::config::NotifySettings;
use crate::console;
use crate::loops::maintenance_runtime;
use crate::report::{SCHEMA_VERSION, needed};

/// How long a command or a webhook may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Notifies the user of waiting jobs while the worker continues.
#[derive(Clone)]
pub(crate) struct JobNotices {
    settings: NotifySettings,
    store: Arc<dyn SessionStore>,
    telling: Arc<Mutex<JoinSet<()>>>,
}

impl JobNotices {
    pub(crate) fn new(settings: NotifySettings, store: Arc<dyn SessionStore>) -> Self {
        Self { settings, store, telling: Arc::default() }
    }

    pub(crate) fn on_event(&self, event: &WorkerEvent) {
        let WorkerEvent::JobFinished { job, outcome: JobOutcome::NeedsInput(asked) } = event else {
            return;
        };
        let (Self { settings, store, .. }, id) = (self.clone(), job.session.clone());
        let asked = asked.to_string();
        self.lock().spawn(async move {
            let session = maintenance_runtime(&store).session(&id).await;
            let text = session.map_or(asked, |session| needed(session.state()));
            waiting(&settings, id.as_str(), &text).await;
        });
    }

    /// Waits until all notifications are sent.
    pub(crate) async fn finish(&self) {
        let telling = std::mem::take(&mut *self.lock());
        telling.join_all().await;
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells that a session waits. What fails is a warning: the session waits all the same.
pub(crate) async fn waiting(settings: &NotifySettings, session: &str, text: &str) {
    if settings.command.is_none() && settings.webhook.is_none() {
        return;
    }
    let message = json!({
        "type": "waiting", "schema_version": SCHEMA_VERSION, "session_id": session, "text": text,
    });
    if let Some(command) = &settings.command {
        let (program, arguments) = command.value.words();
        let told = run(program, arguments, &message);
        warn("notify.command", tokio::time::timeout(LIMIT, told).await);
    }
    if let Some(webhook) = &settings.webhook {
        let told = post(webhook.value.as_str(), &message);
        warn("notify.webhook", tokio::time::timeout(LIMIT, told).await);
    }
}

fn warn(key: &str, told: Result<Result<(), BoxError>, tokio::time::error::Elapsed>) {
    match told {
        Ok(Ok(())) => {}
        Ok(Err(error)) => console::warn(&format!("`{key}` failed: {error}")),
        Err(_) => console::warn(&format!("`{key}` took longer than {} s", LIMIT.as_secs())),
    }
}

/// Runs a command, which gets the message as its input. It ends with this future.
async fn run(program: &str, arguments: &[String], message: &Value) -> Result<(), BoxError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A command that does not read it is told by being run.
        let _told = input.write_all(message.to_string().as_bytes()).await;
    }
    let status = child.wait().await?;
    if status.success() { Ok(()) } else { Err(status.to_string().into()) }
}

async fn post(url: &str, message: &Value) -> Result<(), BoxError> {
    let client = WebClient::with_proxies(Timeouts::default());
    let headers = [("content-type", "application/json")];
    let answer = client.post(&url.parse()?, &headers, message.to_string()).await?;
    let status = answer.status();
    if (200..300).contains(&status) { Ok(()) } else { Err(format!("status {status}").into()) }
}
