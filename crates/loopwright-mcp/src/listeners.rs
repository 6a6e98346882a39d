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
    next: u64,
    reports: BTreeMap<u64, mpsc::Sender<Report>>,
    /// The listeners of requests that were sent, by their tokens.
    tokens: BTreeMap<String, u64>,
    /// Listeners whose request is being sent, so that its token is not known yet.
    unnamed: usize,
    /// Progress of tokens that are not known yet.
    early: Vec<(String, Progress)>,
    /// Of the requests whose senders take questions, the newest last.
    asks: Vec<(u64, mpsc::Sender<ServerAsk>)>,
}

impl Listeners {
    /// Listens until the listener is dropped. Called before the request is sent, as the server may report and ask at once.
    pub(crate) fn listen(&self, questions: Questions) -> Listener {
        let (report, reports) = mpsc::channel(MAX_REPORTS);
        let (ask, asks) = mpsc::channel(MAX_ASKS);
        let ask = (questions == Questions::Taken).then_some(ask);
        let mut listening = self.lock();
        let number = listening.next;
        listening.next += 1;
        listening.unnamed += 1;
        listening.reports.insert(number, report);
        drop(listening);
        let listener =
            Listener { listeners: self.clone(), number, token: None, reports, ask, asks };
        listener.take_questions();
        listener
    }

    pub(crate) fn progress(&self, token: &ProgressToken, progress: Progress) {
        let (mut listening, token) = (self.lock(), key(token));
        match listening.tokens.get(&token).and_then(|number| listening.reports.get(number)) {
            Some(listener) => drop(listener.try_send(Report::Progress(progress))),
            None if listening.unnamed > 0 && listening.early.len() < MAX_REPORTS => {
                listening.early.push((token, progress));
            }
            None => {}
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
    number: u64,
    /// `None` until the request is sent.
    token: Option<String>,
    pub(crate) reports: mpsc::Receiver<Report>,
    /// `None` if questions are not for this request.
    ask: Option<mpsc::Sender<ServerAsk>>,
    pub(crate) asks: mpsc::Receiver<ServerAsk>,
}

impl Listener {
    /// Sets the token of the request, which has been sent, and takes the progress that came before that.
    pub(crate) fn name(&mut self, token: &ProgressToken) {
        let token = key(token);
        let mut listening = self.listeners.lock();
        listening.tokens.insert(token.clone(), self.number);
        let early = std::mem::take(&mut listening.early);
        let (own, others): (Vec<_>, Vec<_>) = early.into_iter().partition(|it| it.0 == token);
        if let Some(listener) = listening.reports.get(&self.number) {
            for (_, progress) in own {
                listener.try_send(Report::Progress(progress)).ok();
            }
        }
        listening.early = others;
        listening.is_named();
        drop(listening);
        self.token = Some(token);
    }

    /// Takes questions of the server from now on, if they are for this request at all.
    pub(crate) fn take_questions(&self) {
        if let Some(ask) = &self.ask {
            self.listeners.lock().asks.push((self.number, ask.clone()));
        }
    }

    /// Leaves questions of the server to other calls.
    pub(crate) fn leave_questions(&self) {
        self.listeners.lock().asks.retain(|(number, _)| *number != self.number);
    }
}

impl Listening {
    /// Counts a listener less whose token is not known. Progress of tokens that belong to none of them is forgotten.
    fn is_named(&mut self) {
        self.unnamed -= 1;
        if self.unnamed == 0 {
            self.early.clear();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.leave_questions();
        let mut listening = self.listeners.lock();
        listening.reports.remove(&self.number);
        match self.token.take() {
            Some(token) => drop(listening.tokens.remove(&token)),
            None => listening.is_named(),
        }
    }
}
