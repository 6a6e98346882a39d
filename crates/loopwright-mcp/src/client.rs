//! A server with its connection: started when needed, and again after a failure.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::catalog::{Catalog, CatalogDiff, CatalogStore};
use crate::changes::Changes;
use crate::config::{McpServer, ServerTransport};
use crate::connection::{Connection, ConnectionInfo};
use crate::credentials::Credentials;
use crate::error::McpError;
use crate::held::HeldCalls;
use crate::http::SOCKET;
use crate::launch::McpHost;
use crate::log::ServerLog;
use crate::login::{self, Login, LoginOptions};
use crate::tools::Listing;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};

/// Tools that an error names.
const MAX_NAMED: usize = 20;

/// Lists of tools are read again at most this often.
const RELIST: Duration = Duration::from_millis(200);

/// A server and its connection. Cheap to clone; clones share the connection.
///
/// The server is not started until its tools are listed or one is called. Dropping the last clone
/// ends the server's processes.
#[derive(Clone)]
#[must_use]
pub struct McpClient(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) server: Arc<McpServer>,
    pub(crate) host: McpHost,
    log: ServerLog,
    state: Mutex<State>,
    version: AtomicU64,
    pub(crate) calls: Arc<AtomicUsize>,
    pub(crate) held: HeldCalls,
    pub(crate) changes: Changes,
    catalogs: Option<Arc<dyn CatalogStore>>,
}

struct State {
    link: Link,
    backoff: Backoff,
    last_error: Option<Arc<McpError>>,
    listing: Option<Arc<Listing>>,
    starts: u64,
    is_closed: bool,
    /// The tools as the server has listed them last, those that are not approved included.
    offered: Option<Listing>,
}

type Opening = Shared<BoxFuture<'static, Result<Arc<Connection>, Arc<McpError>>>>;

enum Link {
    Idle,
    Opening(Opening),
    Open { connection: Arc<Connection>, since: Instant },
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerHealth {
    /// The server was not started, or has ended.
    Idle,
    /// The server is starting.
    Starting,
    /// The server is connected.
    Connected,
    /// The server failed, and will be started again after a delay.
    Failed,
}

/// The status of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The state of the server.
    pub health: ServerHealth,
    /// The result of the handshake.
    pub info: Option<ConnectionInfo>,
    /// The last error, as text.
    pub last_error: Option<String>,
    /// The number of starts so far.
    pub starts: u64,
    /// The known tools.
    pub listing: Option<Arc<Listing>>,
}

impl McpClient {
    /// Creates a client, without starting the server.
    pub fn new(server: McpServer, host: McpHost) -> Self {
        let state = State {
            link: Link::Idle,
            backoff: Backoff::default(),
            last_error: None,
            listing: None,
            starts: 0,
            is_closed: false,
            offered: None,
        };
        Self(Arc::new(Inner {
            server: Arc::new(server),
            host,
            log: ServerLog::default(),
            state: Mutex::new(state),
            version: AtomicU64::new(1),
            calls: Arc::default(),
            held: HeldCalls::default(),
            changes: Changes::default(),
            catalogs: None,
        }))
    }

    /// Creates a client that offers only approved tools. Approved tools are known without starting
    /// the server. If no tools are approved, the first list of the server is approved.
    pub fn with_catalogs(
        server: McpServer,
        host: McpHost,
        catalogs: Arc<dyn CatalogStore>,
    ) -> Self {
        let mut client = Self::new(server, host);
        let approved = catalogs.load(&client.0.server);
        if let Some(inner) = Arc::get_mut(&mut client.0) {
            inner.catalogs = Some(catalogs);
        }
        if let Some(approved) = approved {
            let mut listing = Listing::default();
            listing.tools = approved.tools;
            if approved.has_resources {
                listing.add_resource_tools(&client.0.server);
            }
            client.0.state().listing = Some(Arc::new(listing));
        }
        client
    }

    /// Returns the differences between the server's tools and the approved ones, or `None` if the
    /// server has not listed its tools, or none were approved.
    pub fn drift(&self) -> Option<CatalogDiff> {
        let offered = self.0.state().offered.clone()?;
        let approved = self.0.catalogs.as_ref()?.load(&self.0.server)?;
        Some(approved.diff(&offered))
    }

    /// Approves the current tools of the server, and starts it if it is not running.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, does not list its tools, or the approval cannot be kept.
    pub async fn approve(&self) -> Result<Arc<Listing>, Arc<McpError>> {
        let listing = self.connection().await?.list_tools().await.map_err(Arc::new)?;
        if let Some(catalogs) = &self.0.catalogs {
            let kept = catalogs.save(&self.0.server, &Catalog::of(&listing));
            kept.map_err(|error| Arc::new(self.0.not_kept(&error)))?;
        }
        self.0.set_listing(&mut self.0.state(), listing);
        Ok(self.0.known_listing().unwrap_or_default())
    }

    /// Returns the configuration of the server.
    pub fn server(&self) -> &McpServer {
        &self.0.server
    }

    /// Returns the log of the server.
    pub fn log(&self) -> &ServerLog {
        &self.0.log
    }

    /// Returns the status of the server.
    pub fn status(&self) -> ServerStatus {
        let state = self.0.state();
        let (health, info) = match &state.link {
            Link::Open { connection, .. } if !connection.is_closed() => {
                (ServerHealth::Connected, Some(connection.info.clone()))
            }
            Link::Opening(_) => (ServerHealth::Starting, None),
            _ if state.backoff.wait(Instant::now()).is_some() => (ServerHealth::Failed, None),
            _ => (ServerHealth::Idle, None),
        };
        ServerStatus {
            health,
            info,
            last_error: state.last_error.as_ref().map(ToString::to_string),
            starts: state.starts,
            listing: state.listing.clone(),
        }
    }

    /// Returns a number that changes whenever the tools change.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Returns the tools. Starts the server if they are unknown.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, does not list its tools, or has failed shortly before.
    pub async fn tools(&self) -> Result<Arc<Listing>, Arc<McpError>> {
        if let Some(listing) = self.0.known_listing() {
            return Ok(listing);
        }
        self.connection().await?;
        // Opening a connection lists the tools.
        Ok(self.0.known_listing().unwrap_or_default())
    }

    /// Starts the server now, even if it has just failed.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started or does not list its tools.
    pub async fn connect(&self) -> Result<ConnectionInfo, Arc<McpError>> {
        self.0.state().backoff.clear_wait();
        Ok(self.connection().await?.info.clone())
    }

    /// Lists the tools again, and starts the server if it is not running.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started or does not list its tools.
    pub async fn refresh(&self) -> Result<Arc<Listing>, Arc<McpError>> {
        let listing = self.connection().await?.list_tools().await.map_err(Arc::new)?;
        self.0.set_listing(&mut self.0.state(), listing);
        Ok(self.0.known_listing().unwrap_or_default())
    }

    /// Starts a login to a server with a URL. The [host](McpHost::with_logins) stores the tokens.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is a process, the host keeps no logins, or the server does not describe its login.
    pub async fn start_login(&self, options: LoginOptions) -> Result<Login, McpError> {
        let (url, credentials) = self.credentials()?;
        let options = login::completed(&self.0.server, &self.0.host, options)?;
        login::start(&self.0.server, &url, credentials, options).await
    }

    /// Returns the server's request for another login, such as for more scopes, or `None` if it requires none.
    pub fn login_challenge(&self) -> Option<String> {
        self.credentials().ok()?.1.challenge()
    }

    /// Keeps what the server says about the login that it wants.
    pub(crate) fn note_login(&self, error: &McpError) {
        if let McpError::LoginRequired { challenge: Some(challenge), .. } = error
            && let Ok((_, credentials)) = self.credentials()
        {
            credentials.keep_challenge(challenge);
        }
    }

    /// Deletes the login. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is a process, the host keeps no logins, or the tokens cannot be removed.
    pub fn logout(&self) -> Result<bool, McpError> {
        let (_, credentials) = self.credentials()?;
        let removed = credentials.remove();
        removed.map_err(|error| McpError::Login {
            server: self.0.server.name.clone(),
            reason: format!("the tokens cannot be removed: {error}"),
        })
    }

    fn credentials(&self) -> Result<(String, Credentials), McpError> {
        let server = &self.0.server;
        let login = |reason: &str| McpError::Login {
            server: server.name.clone(),
            reason: reason.to_owned(),
        };
        let ServerTransport::Http(address) = &server.transport else {
            return Err(login("a server that runs as a process does not use logins"));
        };
        let url = self.0.host.expand(server, &address.url)?;
        if url.starts_with(SOCKET) {
            return Err(login("a server on a local socket does not use logins"));
        }
        let logins =
            self.0.host.logins().ok_or_else(|| login("no storage for tokens is configured"))?;
        let credentials = logins.credentials(server, &url);
        Ok((url, credentials))
    }

    /// Permanently stops the server, and waits for its processes.
    pub async fn close(&self) {
        let link = {
            let mut state = self.0.state();
            state.is_closed = true;
            std::mem::replace(&mut state.link, Link::Idle)
        };
        match link {
            Link::Open { connection, .. } => connection.close().await,
            Link::Opening(opening) => {
                // What is being opened ends as soon as it is open.
                if let Some(Ok(connection)) = opening.now_or_never() {
                    connection.close().await;
                }
            }
            Link::Idle => {}
        }
        self.0.held.clear();
    }

    /// Returns the connection, opening it if there is none. Callers at the same time share the opening, which goes on
    /// if they are dropped.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, Arc<McpError>> {
        let opening = {
            let mut state = self.0.state();
            if state.is_closed {
                return Err(Arc::new(McpError::Closed { server: self.0.server.name.clone() }));
            }
            state.notice_end();
            match &state.link {
                Link::Open { connection, .. } => return Ok(Arc::clone(connection)),
                Link::Opening(opening) => opening.clone(),
                Link::Idle => {
                    if let Some(wait) = state.backoff.wait(Instant::now()) {
                        return Err(Arc::new(
                            self.0.backing_off(wait, state.last_error.as_deref()),
                        ));
                    }
                    state.starts += 1;
                    let opening =
                        open(Arc::downgrade(&self.0), self.0.start_parts()).boxed().shared();
                    state.link = Link::Opening(opening.clone());
                    tokio::spawn(opening.clone());
                    opening
                }
            }
        };
        opening.await
    }
}

type StartParts = (Arc<McpServer>, McpHost, ServerLog, Changes);

/// Opens a connection, lists the tools, and makes both known.
async fn open(
    inner: Weak<Inner>,
    (server, host, log, changes): StartParts,
) -> Result<Arc<Connection>, Arc<McpError>> {
    let opened = async {
        let connection = Connection::open(&server, &host, &log, &changes).await?;
        let listing = connection.list_tools().await?;
        Ok((Arc::new(connection), listing))
    };
    let opened: Result<_, McpError> = opened.await;
    let Some(inner) = inner.upgrade() else {
        return Err(Arc::new(McpError::Closed { server: server.name.clone() }));
    };
    let mut state = inner.state();
    match opened {
        Ok((connection, _)) if state.is_closed => {
            drop(connection);
            Err(Arc::new(McpError::Closed { server: server.name.clone() }))
        }
        Ok((connection, listing)) => {
            state.link = Link::Open { connection: Arc::clone(&connection), since: Instant::now() };
            state.last_error = None;
            // Another start of the server may say something else.
            inner.changes.cache.clear();
            inner.set_listing(&mut state, listing);
            drop(state);
            tokio::spawn(follow(Arc::downgrade(&inner), Arc::downgrade(&connection)));
            Ok(connection)
        }
        Err(error) => {
            let error = Arc::new(error);
            state.link = Link::Idle;
            state.backoff.fail(Instant::now());
            state.last_error = Some(Arc::clone(&error));
            Err(error)
        }
    }
}

/// Lists the tools again whenever the server reports a change.
async fn follow(inner: Weak<Inner>, connection: Weak<Connection>) {
    loop {
        let Some(current) = connection.upgrade() else { return };
        // The connection must end when its last user drops it, so it is not held while nothing happens.
        let subscription = current.change_subscription();
        drop(current);
        if !subscription.wait().await {
            return;
        }
        tokio::time::sleep(RELIST).await;
        let (Some(current), Some(inner)) = (connection.upgrade(), inner.upgrade()) else { return };
        match current.list_tools().await {
            Ok(listing) => inner.set_listing(&mut inner.state(), listing),
            Err(error) => inner.log.push(&format!("the tools cannot be listed again: {error}")),
        }
        if current.is_closed() {
            return;
        }
    }
}

impl Inner {
    pub(crate) fn state_listing(&self) -> Option<Arc<Listing>> {
        self.state().listing.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_listing(&self) -> Option<Arc<Listing>> {
        self.state_listing()
    }

    fn start_parts(&self) -> StartParts {
        let (server, host) = (Arc::clone(&self.server), self.host.clone());
        (server, host, self.log.clone(), self.changes.clone())
    }

    fn set_listing(&self, state: &mut State, mut listing: Listing) {
        state.offered = Some(listing.clone());
        if let Some(catalogs) = &self.catalogs {
            match catalogs.load(&self.server) {
                Some(approved) => listing.keep_approved(&approved, &self.server.name),
                None => {
                    if let Err(error) = catalogs.save(&self.server, &Catalog::of(&listing)) {
                        self.log.push(&self.not_kept(&error).to_string());
                    }
                }
            }
        }
        let is_same = |known: &Listing| {
            known.tools == listing.tools
                && known.notes == listing.notes
                && known.resource_tools == listing.resource_tools
        };
        if !state.listing.as_deref().is_some_and(is_same) {
            state.listing = Some(Arc::new(listing));
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Refuses a tool that does not exist, or is not the approved one any more, which may have been found out just now.
    pub(crate) fn check_approval(&self, tool: &str) -> Result<(), McpError> {
        let known = self.known_listing().unwrap_or_default();
        if self.catalogs.is_none() || known.tools.iter().any(|it| it.name == tool) {
            return Ok(());
        }
        let (server, tool) = (self.server.name.clone(), crate::text::line(tool));
        let state = self.state();
        let is_offered = |it: &Listing| it.tools.iter().any(|it| it.name == tool);
        if state.offered.as_ref().is_none_or(is_offered) {
            return Err(McpError::NotApproved { server, tool });
        }
        let names = known.tools.iter().take(MAX_NAMED).map(|it| crate::text::line(&it.name));
        let mut available = names.collect::<Vec<_>>().join(", ");
        if known.tools.len() > MAX_NAMED {
            available.push_str(", …");
        }
        Err(McpError::UnknownTool { server, tool, available })
    }

    fn not_kept(&self, error: &std::io::Error) -> McpError {
        let reason = format!("the approval of the server's tools cannot be saved: {error}");
        McpError::Invalid { server: self.server.name.clone(), reason }
    }

    pub(crate) fn failed(&self, reason: String) -> McpError {
        McpError::Connection { server: self.server.name.clone(), reason }
    }

    fn backing_off(&self, wait: Duration, error: Option<&McpError>) -> McpError {
        let reason = error.map_or_else(|| "it failed".to_owned(), ToString::to_string);
        McpError::BackingOff { server: self.server.name.clone(), wait, reason }
    }
}

impl State {
    /// Forgets a connection that has ended.
    fn notice_end(&mut self) {
        if let Link::Open { connection, since } = &self.link
            && connection.is_closed()
        {
            let lasted = since.elapsed();
            if let Some(error) = connection.end_error() {
                self.backoff.end(Instant::now(), lasted);
                self.last_error = Some(Arc::new(error));
            }
            self.link = Link::Idle;
        }
    }
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient")
            .field("server", &self.0.server.name)
            .field("health", &self.status().health)
            .finish_non_exhaustive()
    }
}
