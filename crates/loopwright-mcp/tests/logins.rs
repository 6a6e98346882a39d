//! Logins at servers with OAuth 2.1.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use loopwright_mcp::{
    HttpServer, LoginFolder, LoginOptions, McpClient, McpError, McpServer, OAuthClient,
    ProtocolChoice,
};
use serde_json::{Map, Value, json};

use crate::world::World;

const REDIRECT: &str = "http://127.0.0.1:1/callback";

/// A server that wants a login, and its authorization server, at one address.
#[derive(Clone)]
struct Guarded {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Paths and kinds of requests, in their order.
    seen: Vec<String>,
    /// Scopes by their token.
    tokens: BTreeMap<String, String>,
    /// The scopes of the last authorization.
    scope: String,
    /// A file whose lock another process should wait for before a token is refreshed.
    contended: Option<PathBuf>,
}

impl Guarded {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { address, state: Arc::default() };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How often something was asked for.
    fn count(&self, what: &str) -> usize {
        self.state().seen.iter().filter(|it| *it == what).count()
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.address)
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some(request) = Request::read(&mut reader) {
            let answer = self.answer(&request);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: &Request) -> String {
        let address = &self.address;
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        match path {
            "/mcp" => self.mcp(request),
            "/.well-known/oauth-protected-resource"
            | "/.well-known/oauth-protected-resource/mcp" => {
                json_answer(&json!({"resource": self.url(), "authorization_servers": [address]}))
            }
            "/.well-known/oauth-authorization-server" => {
                self.state().seen.push("metadata".to_owned());
                json_answer(&json!({
                    "issuer": address,
                    "authorization_endpoint": format!("{address}/authorize"),
                    "token_endpoint": format!("{address}/token"),
                    "registration_endpoint": format!("{address}/register"),
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
                    "client_id_metadata_document_supported": true,
                }))
            }
            "/register" => {
                self.state().seen.push("register".to_owned());
                let body: Value = serde_json::from_str(&request.body).unwrap();
                json_answer(
                    &json!({"client_id": "registered", "redirect_uris": body["redirect_uris"]}),
                )
            }
            "/authorize" => {
                let query = form(query);
                let mut state = self.state();
                state.seen.push(format!("authorize {}", query["client_id"]));
                state.scope = query.get("scope").cloned().unwrap_or_default();
                let location = format!("{}?code=c&state={}", query["redirect_uri"], query["state"]);
                format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
            }
            "/token" => self.token(&form(&request.body)),
            _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
        }
    }

    fn token(&self, form: &BTreeMap<String, String>) -> String {
        let grant = form["grant_type"].clone();
        let contended = self.state().contended.clone();
        if grant == "refresh_token"
            && let Some(file) = contended
        {
            wait_for_contention(&file);
        }
        let mut state = self.state();
        state.seen.push(grant.clone());
        let number = state.tokens.len() + 1;
        let (token, refresh) = (format!("secret{number}"), format!("refresh{number}"));
        let scope = if grant == "client_credentials" {
            form.get("scope").cloned().unwrap_or_default()
        } else {
            state.scope.clone()
        };
        state.tokens.insert(token.clone(), scope.clone());
        let mut answer = json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": scope});
        if grant != "client_credentials" {
            answer["refresh_token"] = json!(refresh);
        }
        json_answer(&answer)
    }

    fn mcp(&self, request: &Request) -> String {
        let scope = self.state().tokens.get(&request.token).cloned();
        let Some(scope) = scope else {
            let metadata = format!("{}/.well-known/oauth-protected-resource", self.address);
            return refusal(
                "401 Unauthorized",
                &format!("Bearer resource_metadata=\"{metadata}\""),
            );
        };
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            }),
            Some("tools/list") => {
                json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]})
            }
            Some("tools/call") if !scope.split(' ').any(|it| it == "admin") => {
                return refusal(
                    "403 Forbidden",
                    "Bearer error=\"insufficient_scope\", scope=\"admin\"",
                );
            }
            Some("tools/call") => json!({"content": [{"type": "text", "text": scope}]}),
            _ => return "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
        };
        json_answer(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

/// Waits until a process waits for the lock of a file, or long enough for any to do so.
fn wait_for_contention(file: &Path) {
    for _ in 0..200 {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let inode =
            std::fs::metadata(file).map_or(0, |it| std::os::unix::fs::MetadataExt::ino(&it));
        let inode = format!(":{inode} ");
        if locks.lines().any(|line| line.contains("->") && line.contains(&inode)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Request {
    path: String,
    token: String,
    body: String,
}

impl Request {
    fn read(reader: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|it| *it > 0)?;
        let path = first.split(' ').nth(1)?.to_owned();
        let (mut length, mut token) = (0, String::new());
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|it| *it > 0)?;
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "authorization" => token = value.trim_start_matches("Bearer ").to_owned(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { path, token, body: String::from_utf8(body).ok()? })
    }
}

fn json_answer(body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn refusal(status: &str, challenge: &str) -> String {
    format!("HTTP/1.1 {status}\r\nwww-authenticate: {challenge}\r\ncontent-length: 0\r\n\r\n")
}

/// Reads the fields of a form or a query.
fn form(text: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://x/?{text}")).unwrap();
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn client_of(url: &str, logins: &Path, oauth: OAuthClient) -> McpClient {
    let server = McpServer::http("guarded", HttpServer::new(url).with_oauth(oauth))
        .with_protocol(ProtocolChoice::V2025_11_25);
    let host = loopwright_mcp::McpHost::in_dir(logins).with_logins(LoginFolder::new(logins));
    McpClient::new(server, host)
}

fn logins(world: &World) -> PathBuf {
    world.folder.path().join("logins")
}

fn client(world: &World, server: &Guarded) -> McpClient {
    client_of(&server.url(), &logins(world), OAuthClient::default())
}

/// Logs in as a user does whose browser is redirected at once.
async fn log_in(client: &McpClient, options: LoginOptions) {
    let login = client.start_login(options).await.unwrap();
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let answer = browser.build().unwrap().get(login.url()).send().await.unwrap();
    let redirected = answer.headers()["location"].to_str().unwrap().to_owned();
    login.complete(&redirected).await.unwrap();
}

/// The files of logins, with their texts.
fn files(world: &World) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(logins(world)).unwrap().flatten().map(|it| it.path());
    let mut files: Vec<_> =
        entries.map(|path| (path.clone(), std::fs::read_to_string(&path).unwrap())).collect();
    files.sort();
    files
}

/// Lets the token be one that has expired.
fn expire(world: &World) {
    let mut files = files(world).into_iter();
    let (path, text) = files.rfind(|(_, text)| text.contains("access_token")).unwrap();
    let mut stored: Value = serde_json::from_str(&text).unwrap();
    stored["token_received_at"] = json!(1);
    std::fs::write(path, stored.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_kept_for_the_user_alone_and_forgotten_on_request() {
    let (world, server) = (World::new(), Guarded::start());
    let error = client(&world, &server).connect().await.unwrap_err();
    let McpError::LoginRequired { challenge, .. } = &*error else { panic!("{error}") };
    let options = LoginOptions::new(REDIRECT).with_challenge(challenge.clone());
    log_in(&client(&world, &server), options).await;
    let client = client(&world, &server);
    assert_eq!(client.tools().await.unwrap().tools.len(), 1);
    assert_eq!(
        server.state().seen,
        ["metadata", "register", "authorize registered", "authorization_code", "metadata"]
    );
    let kept: Vec<_> =
        files(&world).into_iter().filter(|(_, text)| text.contains("secret1")).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::metadata(&kept[0].0).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = format!("{client:?} {:?} {:?}", client.status(), client.log().to_lines());
    assert!(!shown.contains("secret1"), "{shown}");
    assert!(client.logout().unwrap());
    assert!(files(&world).iter().all(|(_, text)| !text.contains("secret1")));
    assert!(!client.logout().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_more_scopes_is_remembered_for_the_next_login() {
    let (world, server) = (World::new(), Guarded::start());
    log_in(&client(&world, &server), LoginOptions::new(REDIRECT).with_scopes(["read".to_owned()]))
        .await;
    assert_eq!(server.state().scope, "read");
    let first = client(&world, &server);
    assert_eq!(first.login_challenge(), None);
    let error = first.call_tool("look", Map::new()).await.unwrap_err();
    assert!(matches!(&*error, McpError::LoginRequired { .. }), "{error}");
    // As another process does it.
    let second = client(&world, &server);
    let challenge = second.login_challenge().unwrap();
    assert!(challenge.contains("admin"), "{challenge}");
    log_in(&second, LoginOptions::new(REDIRECT)).await;
    assert_eq!((server.state().scope.as_str(), second.login_challenge()), ("read admin", None));
    let third = client(&world, &server);
    let said = third.call_tool("look", Map::new()).await.unwrap();
    assert_eq!(said["content"][0]["text"], "read admin");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_logs_in_on_its_own_and_again_when_its_token_has_expired() {
    let (world, server) = (World::new(), Guarded::start());
    let mut oauth = OAuthClient::of_client("robot", "${HIDDEN:-hunter2}");
    oauth.scopes = vec!["admin".to_owned()];
    let client = client_of(&server.url(), &logins(&world), oauth);
    let said =
        async || client.call_tool("look", Map::new()).await.unwrap()["content"][0]["text"].clone();
    assert_eq!((said().await, said().await), (json!("admin"), json!("admin")));
    assert_eq!(server.count("client_credentials"), 1);
    expire(&world);
    assert_eq!(said().await, "admin");
    assert_eq!(server.count("client_credentials"), 2);
    assert!(
        files(&world).iter().all(|(_, text)| !text.contains("hunter2")),
        "the secret is not kept"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_describes_the_client_replaces_a_registration() {
    let (world, server) = (World::new(), Guarded::start());
    let document = "https://example.com/client.json";
    let mut oauth = OAuthClient::default();
    oauth.metadata_url = Some(document.to_owned());
    let client = client_of(&server.url(), &logins(&world), oauth);
    log_in(&client, LoginOptions::new(REDIRECT)).await;
    assert_eq!((server.count("register"), server.count(&format!("authorize {document}"))), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_refresh_an_expired_token_once() {
    let (world, server) = (World::new(), Guarded::start());
    log_in(&client(&world, &server), LoginOptions::new(REDIRECT)).await;
    expire(&world);
    let lock = files(&world)
        .into_iter()
        .map(|it| it.0)
        .find(|it| it.extension().is_some_and(|it| it == "json"));
    let lock = logins(&world)
        .join(format!(".{}.lock", lock.unwrap().file_stem().unwrap().to_str().unwrap()));
    server.state().contended = Some(lock);
    let children: Vec<Child> = (0..2).map(|_| in_a_process(&world, &server)).collect();
    let outputs: Vec<_> = children.into_iter().map(|it| it.wait_with_output().unwrap()).collect();
    assert!(outputs.iter().all(|it| it.status.success()), "{outputs:?}");
    assert_eq!(server.count("refresh_token"), 1);
    let kept = files(&world).into_iter().map(|it| it.1).collect::<String>();
    assert!(kept.contains("secret2") && kept.contains("refresh2"), "{kept}");
}

const URL: &str = "LOOPWRIGHT_TEST_MCP_URL";
const LOGINS: &str = "LOOPWRIGHT_TEST_MCP_LOGINS";

/// Starts a client in a process of its own.
fn in_a_process(world: &World, server: &Guarded) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "logins::a_client_in_a_process_of_its_own", "--ignored", "--nocapture"])
        .env(URL, server.url())
        .env(LOGINS, logins(world))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "another test runs it as a process"]
async fn a_client_in_a_process_of_its_own() {
    let of = |name| std::env::var(name).expect("another test runs this one");
    let client = client_of(&of(URL), Path::new(&of(LOGINS)), OAuthClient::default());
    client.connect().await.unwrap();
}
