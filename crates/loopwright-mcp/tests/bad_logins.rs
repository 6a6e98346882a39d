//! Logins whose tokens expire, are slow, are revoked, or do not help.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::{
    Form, Json, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use loopwright_mcp::{
    HttpServer, LoginFolder, LoginOptions, McpClient, McpError, McpServer, ProtocolChoice,
};
use serde_json::{Map, Value, json};

use crate::world::World;

/// Longer than every limit of the clients below: whoever needs it hangs.
const HANG: Duration = Duration::from_mins(1);

const SHORT: Duration = Duration::from_secs(3);

/// How the token endpoint answers to refresh tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refresh {
    /// With new tokens. A refresh token is good for one refresh.
    Rotate,
    Refuse,
    Hang,
}

/// A server that requires a login, and the one that grants it.
struct LoginServer {
    address: String,
    refresh: Refresh,
    /// Whether any token is good for anything.
    is_closed: Mutex<bool>,
    /// The number of the tokens that are good.
    generation: AtomicUsize,
    refreshes: AtomicUsize,
    requests: AtomicUsize,
}

type Shared = Arc<LoginServer>;

impl LoginServer {
    async fn start(refresh: Refresh) -> Shared {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            refresh,
            is_closed: Mutex::new(false),
            generation: AtomicUsize::new(1),
            refreshes: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        });
        let app = Router::new()
            .route("/mcp", post(mcp))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    /// A client of this server, with logins in a folder.
    fn client(&self, world: &World, logins: &Path) -> McpClient {
        let url = format!("{}/mcp", self.address);
        let server = McpServer::http("fake", HttpServer::new(url))
            .with_protocol(ProtocolChoice::V2025_11_25)
            .with_startup_timeout(SHORT)
            .with_call_timeout(SHORT);
        McpClient::new(server, world.host().with_logins(LoginFolder::new(logins)))
    }

    /// A client that a user has logged in.
    async fn logged_in(&self, world: &World, logins: &Path) {
        let client = self.client(world, logins);
        let error = client.connect().await.unwrap_err();
        let McpError::LoginRequired { challenge, .. } = &*error else { panic!("{error}") };
        let options =
            LoginOptions::new("http://127.0.0.1:9/callback").with_challenge(challenge.clone());
        let login = client.start_login(options).await.unwrap();
        // What a browser is sent to by a user who agrees.
        let query = login.url().split_once('?').unwrap().1.to_owned();
        let state = query.split('&').find_map(|it| it.strip_prefix("state=")).unwrap();
        login
            .complete(&format!("http://127.0.0.1:9/callback?code=agreed&state={state}"))
            .await
            .unwrap();
    }
}

/// Returns the file with the tokens.
fn kept(logins: &Path) -> PathBuf {
    let files = fs::read_dir(logins).unwrap().map(|it| it.unwrap().path());
    let mut kept = files.filter(|it| it.extension().is_some_and(|it| it == "json"));
    kept.next().unwrap()
}

/// Lets the token expire.
fn expire(logins: &Path) {
    let file = kept(logins);
    let mut login: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    login["token_received_at"] = json!(1);
    fs::write(&file, login.to_string()).unwrap();
}

async fn resource(State(server): State<Shared>) -> Json<Value> {
    let address = &server.address;
    Json(json!({"resource": format!("{address}/mcp"), "authorization_servers": [address]}))
}

async fn metadata(State(server): State<Shared>) -> Json<Value> {
    let address = &server.address;
    Json(json!({
        "issuer": address, "authorization_endpoint": format!("{address}/authorize"),
        "token_endpoint": format!("{address}/token"), "registration_endpoint": format!("{address}/register"),
        "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
    }))
}

async fn register(Json(mut body): Json<Value>) -> (StatusCode, Json<Value>) {
    body["client_id"] = json!("client");
    (StatusCode::CREATED, Json(body))
}

async fn authorize(Query(_): Query<HashMap<String, String>>) -> StatusCode {
    StatusCode::OK
}

async fn token(
    State(server): State<Shared>,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    let refused =
        || (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    if form["grant_type"] == "refresh_token" {
        server.refreshes.fetch_add(1, Relaxed);
        match server.refresh {
            Refresh::Refuse => return refused(),
            Refresh::Hang => std::future::pending().await,
            Refresh::Rotate => {}
        }
        let known = format!("refresh-{}", server.generation.load(Relaxed));
        if form["refresh_token"] != known {
            return refused();
        }
        server.generation.fetch_add(1, Relaxed);
    }
    let number = server.generation.load(Relaxed);
    Json(json!({
        "access_token": format!("access-{number}"), "refresh_token": format!("refresh-{number}"),
        "token_type": "Bearer", "expires_in": 3600,
    }))
    .into_response()
}

async fn mcp(
    State(server): State<Shared>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    server.requests.fetch_add(1, Relaxed);
    let sent = headers.get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let good = format!("Bearer access-{}", server.generation.load(Relaxed));
    if sent != good || *server.is_closed.lock().unwrap() {
        let challenge = format!(
            "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
            server.address
        );
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }),
        Some("tools/list") => {
            json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => json!({"content": [{"type": "text", "text": "hello"}]}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn called(client: &McpClient) -> Result<String, Arc<McpError>> {
    let called = tokio::time::timeout(HANG, client.call_tool("echo", Map::new()));
    called.await.expect("the client hangs").map(|it| it.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_was_revoked_has_to_be_done_again() {
    let (world, logins) = (World::new(), tempfile::tempdir().unwrap());
    let server = LoginServer::start(Refresh::Refuse).await;
    server.logged_in(&world, logins.path()).await;
    expire(logins.path());
    let error = called(&server.client(&world, logins.path())).await.unwrap_err().to_string();
    assert!(error.contains("loopwright mcp login fake"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_refresh_is_given_up_with_the_start_of_its_server() {
    let (world, logins) = (World::new(), tempfile::tempdir().unwrap());
    let server = LoginServer::start(Refresh::Hang).await;
    server.logged_in(&world, logins.path()).await;
    expire(logins.path());
    let error = called(&server.client(&world, logins.path())).await.unwrap_err().to_string();
    assert!(error.contains("MCP server `fake`"), "{error}");
    // Nothing is left that keeps another client from refreshing.
    let error = called(&server.client(&world, logins.path())).await.unwrap_err().to_string();
    assert!(error.contains("MCP server `fake`"), "{error}");
    assert_eq!(server.refreshes.load(Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_every_token_is_asked_a_few_times_only() {
    let (world, logins) = (World::new(), tempfile::tempdir().unwrap());
    let server = LoginServer::start(Refresh::Rotate).await;
    server.logged_in(&world, logins.path()).await;
    let client = server.client(&world, logins.path());
    assert_eq!(called(&client).await.ok().as_deref().map(str::is_empty), Some(false));
    *server.is_closed.lock().unwrap() = true;
    let before = server.requests.load(Relaxed);
    let error = called(&client).await.unwrap_err();
    assert!(matches!(*error, McpError::LoginRequired { .. }), "{error}");
    let error = called(&server.client(&world, logins.path())).await.unwrap_err();
    assert!(matches!(*error, McpError::LoginRequired { .. }), "{error}");
    assert!(server.requests.load(Relaxed) - before < 10, "{}", server.requests.load(Relaxed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_of_tokens_is_none() {
    let (world, logins) = (World::new(), tempfile::tempdir().unwrap());
    let server = LoginServer::start(Refresh::Rotate).await;
    server.logged_in(&world, logins.path()).await;
    let kept = kept(logins.path());
    assert!(fs::read_to_string(&kept).unwrap().contains("access-1"));
    fs::write(&kept, "{\"client_id\": 7").unwrap();
    let error = called(&server.client(&world, logins.path())).await.unwrap_err();
    assert!(matches!(*error, McpError::LoginRequired { .. }), "{error}");
}
