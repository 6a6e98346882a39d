//! A server with a scripted model, and clients in process.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use http_body_util::BodyExt as _;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_broadcast::BroadcastConfig;
use loopwright_core::{AgentLoop, AgentState, BoxError, Edit, Key, PendingApproval, Timestamp};
use loopwright_server::{
    AccessControl, AgentInfo, AgentsError, KeptRules, Principal, Role, ServedAgents, Server,
    ServerBuilder, TokenFile,
};
use loopwright_sessions::{AgentSession, SessionFactory, SessionHeader, SessionId, SessionStore};
use loopwright_store_sql::SqliteStore;
use loopwright_testing::FrozenClock;
use loopwright_worker::{JobCounts, OnIdle, Worker, WorkerOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// The host that the server answers for.
pub(crate) const HOST: &str = "127.0.0.1:8080";

/// The rules of a session.
pub(crate) const RULES: Key<Vec<String>> = Key::session("test", "rules");

/// Makes the same loop of every definition.
#[derive(Clone)]
pub(crate) struct Same(pub(crate) AgentLoop);

impl LoopFactory for Same {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.0.clone())
    }
}

/// One agent, whose sessions work in one folder.
struct OneAgent(AgentLoop, PathBuf);

#[async_trait]
impl ServedAgents for OneAgent {
    async fn list(&self) -> Result<Vec<AgentInfo>, BoxError> {
        Ok(vec![AgentInfo { name: "helper".into(), description: "Helps.".into() }])
    }

    async fn begin(
        &self,
        agent: &str,
        id: SessionId,
        _: &Principal,
    ) -> Result<AgentSession, AgentsError> {
        if agent != "helper" {
            return Err(AgentsError::Unknown);
        }
        let definition = AgentDefinition::new("helper", "Helps.", "You help.");
        let now = Timestamp::from_millis(0);
        Ok(SessionFactory::new().create_from(definition, AgentState::new(), id, now))
    }

    fn folder(&self, _: &SessionHeader) -> Option<PathBuf> {
        Some(self.1.clone())
    }

    async fn suggested_rules(
        &self,
        _: &AgentSession,
        call: &PendingApproval<'_>,
    ) -> Result<Vec<String>, BoxError> {
        let is_covered = &*call.call.name == "refund";
        Ok(is_covered.then(|| "refund(\"ann\")".to_owned()).into_iter().collect())
    }

    fn with_session_rules(
        &self,
        session: AgentSession,
        rules: &KeptRules,
    ) -> Result<AgentSession, BoxError> {
        self.note(rules)?;
        let rules = serde_json::to_value(&rules.rules)?;
        let state = session.state().clone().edit(Edit::Set(RULES.slot(), Some(rules)));
        Ok(session.with_state(state))
    }

    async fn keep_rules(&self, _: &SessionHeader, rules: &KeptRules) -> Result<(), BoxError> {
        self.note(rules)
    }

    async fn of(&self, _: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError> {
        Ok(Arc::new(Same(self.0.clone())))
    }
}

impl OneAgent {
    fn note(&self, rules: &KeptRules) -> Result<(), BoxError> {
        let mut kept = std::fs::read_to_string(kept_in(&self.1)).unwrap_or_default();
        let KeptRules { scope, allows, rules, .. } = rules;
        kept.extend([format!("{scope:?} {allows} {}\n", rules.join(", "))]);
        Ok(std::fs::write(kept_in(&self.1), kept)?)
    }
}

/// Returns the file of the rules that users chose.
fn kept_in(folder: &std::path::Path) -> PathBuf {
    folder.with_file_name("kept")
}

pub(crate) struct World {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) app: Router,
    pub(crate) drain: CancellationToken,
    pub(crate) tokens: Arc<TokenFile>,
    /// The folder that sessions work in.
    pub(crate) files: PathBuf,
    agent: AgentLoop,
    _folder: TempDir,
}

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// Returns the last part of the type of a problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let json = self.json();
        assert_eq!(json["status"], self.status.as_u16());
        json["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }

    /// Returns the `id` of what was created.
    pub(crate) fn id(&self) -> String {
        assert!(self.status.is_success(), "{self:?}");
        self.json()["id"].as_str().unwrap().to_owned()
    }
}

impl World {
    pub(crate) async fn with(agent: AgentLoop) -> Self {
        Self::built(agent, |server| server).await
    }

    /// Makes a world whose server is set up further.
    pub(crate) async fn built(
        agent: AgentLoop,
        set_up: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap());
        let tokens = Arc::new(TokenFile::new(folder.path().join("tokens.json")));
        let access = access(&tokens);
        let drain = CancellationToken::new();
        let server = Server::builder(
            Arc::clone(&store) as _,
            OneAgent(agent.clone(), files.clone()),
            access,
        );
        let server = server.unwrap().with_env(FrozenClock::new().env(0));
        #[cfg(feature = "mcp")]
        let server = server.with_mcp(None);
        let server = set_up(server.with_shutdown(drain.clone())).build();
        Self { store, app: server.router(), drain, tokens, files, agent, _folder: folder }
    }

    /// Makes another server of the same store.
    pub(crate) fn another(&self, set_up: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Router {
        let agents = OneAgent(self.agent.clone(), self.files.clone());
        let server = Server::builder(Arc::clone(&self.store) as _, agents, access(&self.tokens));
        set_up(server.unwrap().with_env(FrozenClock::new().env(0))).build().router()
    }

    /// Makes a server of another store.
    pub(crate) fn of_store(&self, store: Arc<dyn SessionStore>) -> Router {
        let agents = OneAgent(self.agent.clone(), self.files.clone());
        let server = Server::builder(store, agents, access(&self.tokens)).unwrap();
        server.with_env(FrozenClock::new().env(0)).build().router()
    }

    /// Makes another server of the same store, which answers for another host.
    pub(crate) fn at_host(&self, host: &str) -> Router {
        let agents = OneAgent(self.agent.clone(), self.files.clone());
        let access = access(&self.tokens).with_host(host);
        Server::builder(Arc::clone(&self.store) as _, agents, access).unwrap().build().router()
    }

    /// Does what is queued, until nothing is left to do.
    pub(crate) async fn work(&self) -> JobCounts {
        let options = WorkerOptions { on_idle: OnIdle::Exit, ..WorkerOptions::default() };
        let worker = Worker::new(Arc::clone(&self.store) as _, Same(self.agent.clone())).unwrap();
        // The clock is a real one: by one that runs ahead, what is told would be kept too late.
        let worker = worker.with_options(options).with_event_log(BroadcastConfig::standard());
        worker.run(&CancellationToken::new()).await
    }

    /// Does what is queued at the time of the server, without a log of events.
    pub(crate) async fn work_at_its_time(&self) {
        let options = WorkerOptions { on_idle: OnIdle::Exit, ..WorkerOptions::default() };
        let worker = Worker::new(Arc::clone(&self.store) as _, Same(self.agent.clone())).unwrap();
        let worker = worker.with_options(options).with_env(FrozenClock::new().env(1));
        worker.run(&CancellationToken::new()).await;
    }

    /// Returns the rules that users chose, a line for each decision, and forgets them.
    pub(crate) fn kept(&self) -> String {
        let kept = std::fs::read_to_string(kept_in(&self.files)).unwrap_or_default();
        std::fs::write(kept_in(&self.files), "").unwrap();
        kept
    }

    /// Creates a token.
    pub(crate) fn token(&self, principal: &str, role: Role) -> String {
        let now = Timestamp::from_millis(0);
        self.tokens.create(principal, role, None, now).unwrap().secret
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        Self::send_to(&self.app, request).await
    }

    pub(crate) async fn send_to(app: &Router, request: Request<Body>) -> Reply {
        let response = app.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Reply {
        self.send(request("GET", token, path, Body::empty())).await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: Value) -> Reply {
        self.send(request("POST", token, path, Body::from(body.to_string()))).await
    }

    pub(crate) async fn delete(&self, token: &str, path: &str) -> Reply {
        self.send(request("DELETE", token, path, Body::empty())).await
    }
}

fn access(tokens: &Arc<TokenFile>) -> AccessControl {
    let access = AccessControl::new().with_host(HOST).with_local_token("local-secret");
    access.with_tokens(Arc::clone(tokens))
}

/// Makes a request with a token and a JSON body.
pub(crate) fn request(method: &str, token: &str, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("host", HOST);
    let request = request.header("authorization", format!("Bearer {token}"));
    request.header("content-type", "application/json").body(body).unwrap()
}
