//! The methods of the protocol.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{Either, join_all, select};
use loopwright_sessions::{
    SessionCursor, SessionHeader, SessionId, SessionQuery, SessionRelation, SessionStore,
};
use serde_json::{Map, Value, json};
use tokio::task::{JoinHandle, spawn_local};

use super::connection::{Connection, Incoming, read_stdin};
use super::content;
use super::error::RpcError;
use super::files::FileOffer;
use super::servers::{self, NamedServer};
use super::session::EditorSession;
use crate::args::acp::AcpArgs;
use crate::args::session::ResumeArgs;
use crate::args::{AgentArgs, Cli};
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::session::SessionsError;
use crate::signals::{Signals, exit_code};
use crate::startup::Startup;
use crate::store::StoreLocation;

/// The version of the protocol.
const PROTOCOL: u16 = 1;

/// The ID of the only way to authenticate.
const API_KEY: &str = "api-key";

/// How many sessions are listed at once.
const PAGE: usize = 50;

/// How long turns may take to end when the editor is gone.
const GRACE: Duration = Duration::from_secs(10);

/// Serves one editor.
pub(super) struct Server {
    cli: Cli,
    args: AcpArgs,
    connection: Arc<Connection>,
    sessions: RefCell<HashMap<SessionId, Rc<EditorSession>>>,
    /// What the editor offers for files.
    files: Cell<FileOffer>,
}

impl Server {
    pub(super) fn new(cli: Cli, args: AcpArgs) -> Self {
        let (connection, sessions) = (Arc::default(), RefCell::default());
        Self { cli, args, connection, sessions, files: Cell::default() }
    }

    /// Answers requests until standard input ends or a signal comes.
    pub(super) async fn serve(self: Rc<Self>) -> ExitCode {
        let mut signals = Signals::new().ok();
        let mut messages = read_stdin(&self.connection);
        let mut requests: Vec<JoinHandle<()>> = Vec::new();
        let (reason, exit_code) = loop {
            let signal = async {
                match &mut signals {
                    Some(signals) => signals.next().await,
                    None => std::future::pending().await,
                }
            };
            let message = match select(messages.next(), pin!(signal)).await {
                Either::Left((Some(message), _)) => message,
                Either::Left((None, _)) => break (Interruption::HangUp, ExitCode::Done),
                Either::Right((reason, _)) => break (reason, exit_code(reason)),
            };
            requests.retain(|it| !it.is_finished());
            match message {
                Incoming::Request { id, method, params } => {
                    let server = Rc::clone(&self);
                    requests.push(spawn_local(async move {
                        let result = Box::pin(server.answer(&method, &params)).await;
                        server.connection.respond(&id, result);
                        server.follow_up(&method);
                    }));
                }
                Incoming::Notification { method, params } => self.notified(&method, &params),
                Incoming::Invalid { id, error } => self.connection.respond(&id, Err(error)),
            }
        };
        for session in self.sessions.borrow().values() {
            session.cancel(reason);
        }
        self.connection.close();
        // What is not over by then can be resumed all the same.
        let _in_time = tokio::time::timeout(GRACE, join_all(requests)).await;
        exit_code
    }

    fn notified(&self, method: &str, params: &Value) {
        if method == "session/cancel"
            && let Ok(session) = self.session(params)
        {
            session.cancel(Interruption::Interrupt);
        }
    }

    async fn answer(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => {
                self.files.set(FileOffer::of(params));
                Ok(initialize())
            }
            "authenticate" => self.authenticate(params).await,
            "session/new" => self.new_session(params).await,
            "session/load" => self.open(params, true).await,
            "session/resume" => self.open(params, false).await,
            "session/list" => self.list(params).await,
            "session/close" => {
                let session = self.session(params)?;
                session.cancel(Interruption::Interrupt);
                self.sessions.borrow_mut().retain(|_, it| !Rc::ptr_eq(it, &session));
                Ok(json!({}))
            }
            "session/prompt" => {
                let session = self.session(params)?;
                session.prompt(content::message(&params["prompt"])?).await
            }
            "session/set_mode" => {
                self.session(params)?.set_mode(text(params, "modeId")?)?;
                Ok(json!({}))
            }
            "session/set_config_option" => {
                let session = self.session(params)?;
                session.set_option(text(params, "configId")?, text(params, "value")?)?;
                Ok(json!({"configOptions": session.options()}))
            }
            _ => Err(RpcError::unknown_method(method)),
        }
    }

    fn session(&self, params: &Value) -> Result<Rc<EditorSession>, RpcError> {
        let id = id(params)?;
        let session = self.sessions.borrow().get(&id).cloned();
        session.ok_or_else(|| {
            RpcError::not_found(format!("session `{id}` is not open; load or resume it first"))
        })
    }

    /// Returns the options of the agent, for a directory.
    fn agent(&self, workdir: PathBuf) -> AgentArgs {
        let mut agent = self.args.agent.clone();
        agent.surroundings.workdir = Some(workdir);
        agent
    }

    /// Checks that there is a model to ask.
    async fn authenticate(&self, params: &Value) -> Result<Value, RpcError> {
        let method = text(params, "methodId")?;
        if method != API_KEY {
            return Err(RpcError::invalid_params(format!("unknown method `{method}`")));
        }
        let session = self.args.session_args(ResumeArgs::default());
        let startup = Startup::load(&self.cli, &self.args.agent, &session)?;
        startup.setup(&self.args.agent).await?;
        Ok(json!({}))
    }

    async fn new_session(&self, params: &Value) -> Result<Value, RpcError> {
        let id = SessionId::generate();
        let servers = servers::named(params)?;
        let session = self.start(params, id.clone(), ResumeArgs::default(), servers).await?;
        let mut answer = session.settings();
        answer["sessionId"] = json!(id);
        self.sessions.borrow_mut().insert(id, session);
        Ok(answer)
    }

    /// Opens a session that is kept, and tells its history if the editor wants it.
    async fn open(&self, params: &Value, tells_history: bool) -> Result<Value, RpcError> {
        let id = id(params)?;
        let servers = servers::named(params)?;
        let open = self.sessions.borrow().get(&id).cloned();
        let session = match open {
            Some(session) if session.is_busy() || session.has_servers(&servers) => session,
            before => {
                let origin = ResumeArgs { resume: Some(id.clone()), ..ResumeArgs::default() };
                let session = self.start(params, id.clone(), origin, servers).await?;
                if let Some(before) = before {
                    before.hand_over(&session)?;
                }
                session
            }
        };
        if tells_history {
            session.replay().await?;
        }
        self.sessions.borrow_mut().insert(id, Rc::clone(&session));
        Ok(session.settings())
    }

    async fn start(
        &self,
        params: &Value,
        id: SessionId,
        origin: ResumeArgs,
        servers: Vec<NamedServer>,
    ) -> Result<Rc<EditorSession>, RpcError> {
        let workdir = directory(params, "cwd")?;
        if origin.resume.is_some() && !self.is_kept(&workdir, &id).await? {
            return Err(SessionsError::Unknown(id).into());
        }
        let (agent, typed) = (self.agent(workdir), self.args.session_args(origin));
        let mut startup = Startup::load(&self.cli, &agent, &typed)?;
        startup.sources.editor_servers = servers;
        let conversation = startup.conversation(&self.cli, &agent, &typed, "chat");
        let mut conversation = Box::pin(conversation).await?;
        if let Some(files) = self.files.get().files(&self.connection, id.as_str()) {
            conversation.setup.workdir = conversation.setup.workdir.clone().with_editor(files);
        }
        let Startup { config, sources, .. } = startup;
        Ok(Rc::new(EditorSession::new(&self.connection, id, conversation, config, sources)))
    }

    async fn store(&self, workdir: Option<PathBuf>) -> Result<Arc<dyn SessionStore>, RpcError> {
        let session = self.args.session_args(ResumeArgs::default());
        let agent = match workdir {
            Some(workdir) => self.agent(workdir),
            None => self.args.agent.clone(),
        };
        let startup = Startup::load(&self.cli, &agent, &session)?;
        let place = StoreLocation::of(&startup.config, &startup.sources);
        let store = place.map_err(SessionsError::from)?.open().await;
        Ok(store.map_err(SessionsError::from)?)
    }

    /// Returns `true` if a session of exactly this ID is kept.
    async fn is_kept(&self, workdir: &Path, id: &SessionId) -> Result<bool, RpcError> {
        let store = self.store(Some(workdir.to_path_buf())).await?;
        Ok(store.header(id).await.map_err(SessionsError::from)?.is_some())
    }

    async fn list(&self, params: &Value) -> Result<Value, RpcError> {
        let is_given = params.get("cwd").is_some_and(|it| !it.is_null());
        let workdir = if is_given { Some(directory(params, "cwd")?) } else { None };
        let store = self.store(workdir.clone()).await?;
        let after = params["cursor"].as_str().map(cursor).transpose()?;
        let real = workdir.map(|it| it.canonicalize().unwrap_or(it));
        let query = SessionQuery {
            workdir: real.map(|it| it.to_string_lossy().into()),
            kinship: SessionRelation::TopLevel,
            after,
            ..SessionQuery::first(PAGE)
        };
        let page = store.list(&query).await.map_err(SessionsError::from)?;
        let sessions: Vec<Value> = page.sessions.iter().filter_map(info).collect();
        let next = page.next.as_ref().map(ToString::to_string);
        Ok(json!({"sessions": sessions, "nextCursor": next}))
    }

    /// Tells what an editor takes only after it knows of the session.
    fn follow_up(&self, method: &str) {
        if matches!(method, "session/new" | "session/load" | "session/resume") {
            for session in self.sessions.borrow().values() {
                session.tell_commands();
            }
        }
    }
}

fn initialize() -> Value {
    json!({
        "protocolVersion": PROTOCOL,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": false},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        },
        "agentInfo": {
            "name": "loopwright", "title": "Loopwright", "version": env!("CARGO_PKG_VERSION"),
        },
        "authMethods": [{
            "id": API_KEY, "name": "API key",
            "description": "Set a provider's key, such as OPENAI_API_KEY, in the \
                editor's environment; `loopwright doctor` shows which keys are missing",
        }],
    })
}

/// Returns what is listed of a session, or `None` if it has no directory.
fn info(header: &SessionHeader) -> Option<Value> {
    Some(json!({
        "sessionId": header.id, "cwd": header.workdir.as_deref()?, "title": header.title,
        "updatedAt": header.updated_at,
    }))
}

fn cursor(text: &str) -> Result<SessionCursor, RpcError> {
    let parsed = text.parse::<SessionCursor>();
    parsed.map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    let text = params.as_object().and_then(|it: &Map<String, Value>| it.get(name)?.as_str());
    text.ok_or_else(|| RpcError::invalid_params(format!("`{name}` must be a string")))
}

fn id(params: &Value) -> Result<SessionId, RpcError> {
    let id = SessionId::new(text(params, "sessionId")?);
    id.map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn directory(params: &Value, name: &str) -> Result<PathBuf, RpcError> {
    let path = PathBuf::from(text(params, name)?);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(RpcError::invalid_params(format!("`{name}` must be an absolute path")))
}
