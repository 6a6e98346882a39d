//! Reports and questions of a server while requests wait, by listener.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ErrorData, ProgressToken};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::input::Question;

/// Reports that wait for a listener. One that finds no room is replaced by the next one.
const MAX_REPORTS: usize = 8;

/// Questions that wait for a listener. More are refused.
const MAX_ASKS: usize = 4;

/// Whether questions of a server while a request waits are for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Questions {
    /// They are.
    Taken,
    /// They are not.
    Left,
}

/// What a server reports about a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Report {
    /// How far it is.
    Progress(Progress),
    /// A log message, which may be about another request.
    Log { level: String, message: String },
}

/// A report of progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// A question that a server asks while a call runs. Earlier revisions than 2026-07-28 have them.
pub(crate) struct ServerAsk {
    pub(crate) question: Question,
    pub(crate) reply: oneshot::Sender<Result<Value, ErrorData>>,
}

/// The listeners of a connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners(Arc<Mutex<Listening>>);

#[derive(Debug, Default)]
struct Listening {
    reports: BTreeMap<String, mpsc::Sender<Report>>,
    /// Of the requests whose senders take questions, the newest last.
    asks: Vec<(String, mpsc::Sender<ServerAsk>)>,
}

impl Listeners {
    /// Listens until the listener is dropped.
    pub(crate) fn listen(&self, token: &ProgressToken, questions: Questions) -> Listener {
        let (report, reports) = mpsc::channel(MAX_REPORTS);
        let (ask, asks) = mpsc::channel(MAX_ASKS);
        let token = key(token);
        self.lock().reports.insert(token.clone(), report);
        let ask = (questions == Questions::Taken).then_some(ask);
        let listener = Listener { listeners: self.clone(), token, reports, ask, asks };
        listener.take_questions();
        listener
    }

    pub(crate) fn progress(&self, token: &ProgressToken, progress: Progress) {
        if let Some(listener) = self.lock().reports.get(&key(token)) {
            listener.try_send(Report::Progress(progress)).ok();
        }
    }

    /// Passes a log message to every request that waits, as servers do not say what it is about.
    pub(crate) fn log(&self, level: &str, message: &str) {
        for listener in self.lock().reports.values() {
            let (level, message) = (level.to_owned(), message.to_owned());
            listener.try_send(Report::Log { level, message }).ok();
        }
    }

    /// Passes a question to the newest call, as servers do not say which one it is about. Returns the question if no
    /// call takes it.
    pub(crate) fn ask(
        &self,
        question: Question,
    ) -> Result<oneshot::Receiver<Result<Value, ErrorData>>, Question> {
        let listening = self.lock();
        let Some((_, listener)) = listening.asks.last() else { return Err(question) };
        let (reply, answer) = oneshot::channel();
        match listener.try_send(ServerAsk { question, reply }) {
            Ok(()) => Ok(answer),
            Err(error) => Err(error.into_inner().question),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Listening> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(token: &ProgressToken) -> String {
    token.0.to_string()
}

/// What arrives for one request.
pub(crate) struct Listener {
    listeners: Listeners,
    token: String,
    pub(crate) reports: mpsc::Receiver<Report>,
    /// `None` if questions are not for this request.
    ask: Option<mpsc::Sender<ServerAsk>>,
    pub(crate) asks: mpsc::Receiver<ServerAsk>,
}

impl Listener {
    /// Takes questions of the server from now on, if they are for this request at all.
    pub(crate) fn take_questions(&self) {
        if let Some(ask) = &self.ask {
            self.listeners.lock().asks.push((self.token.clone(), ask.clone()));
        }
    }

    /// Leaves questions of the server to other calls.
    pub(crate) fn leave_questions(&self) {
        self.listeners.lock().asks.retain(|(token, _)| *token != self.token);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.leave_questions();
        self.listeners.lock().reports.remove(&self.token);
    }
}
