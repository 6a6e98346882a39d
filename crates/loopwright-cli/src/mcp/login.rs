//! Logging in at a server: a browser that comes back to this machine, or an address that is pasted.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use loopwright_mcp::{LoginOptions, McpClient, McpError, ServerTransport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::console;
use crate::render::sanitize_terminal;

/// How long a login may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// The longest request of a browser that is read.
const MAX_REQUEST: usize = 16 << 10;

/// The answer to the browser.
const PAGE: &str = "Loopwright has received the response. You can close this page.\n";

/// Why a login did not succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    #[error(transparent)]
    Server(#[from] Arc<McpError>),
    #[error(
        "cannot listen for the browser on the loopback interface; end the process that uses the port, or change `oauth.callbackPort`"
    )]
    Listen(#[source] io::Error),
    #[error("no login within {} minutes; nothing was changed", PATIENCE.as_secs() / 60)]
    Late,
}

impl From<McpError> for LoginError {
    fn from(error: McpError) -> Self {
        Self::Server(Arc::new(error))
    }
}

/// Logs in. Returns `false` if the server needs no login.
pub(super) async fn log_in(
    client: &McpClient,
    registered: Option<(String, Option<String>)>,
    scopes: &[String],
) -> Result<bool, LoginError> {
    let challenge = match client.connect().await {
        // A call has needed more than the login that there is.
        Ok(_) if client.login_challenge().is_some() || !scopes.is_empty() => None,
        Ok(_) => return Ok(false),
        Err(error) => match &*error {
            McpError::LoginRequired { challenge, .. } => challenge.clone(),
            _ => return Err(error.into()),
        },
    };
    let port = callback_port(client).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(LoginError::Listen)?;
    let port = listener.local_addr().map_err(LoginError::Listen)?.port();
    let redirect = format!("http://127.0.0.1:{port}/callback");
    let options = LoginOptions::new(&redirect).with_challenge(challenge);
    let mut options = options.with_scopes(scopes.iter().cloned());
    if let Some((id, secret)) = registered {
        options = options.with_client(id, secret);
    }
    let login = client.start_login(options).await?;
    console::tell("open this address in a browser:");
    console::tell(&format!("  {}", sanitize_terminal(login.url())));
    if io::stdin().is_terminal() {
        console::tell(
            "if the browser runs on another machine, paste the address of the last \
            page that it shows:",
        );
    }
    let redirected = tokio::select! {
        redirected = browser(&listener, port) => redirected,
        redirected = pasted() => redirected,
        () = tokio::time::sleep(PATIENCE) => return Err(LoginError::Late),
    };
    login.complete(&redirected).await?;
    Ok(true)
}

/// Returns the port that the configuration names.
fn callback_port(client: &McpClient) -> Option<u16> {
    match &client.server().transport {
        ServerTransport::Http(http) => http.oauth.callback_port,
        _ => None,
    }
}

/// Waits until a browser comes back.
async fn browser(listener: &TcpListener, port: u16) -> String {
    loop {
        if let Ok((stream, _)) = listener.accept().await
            && let Some(path) = path_of(stream).await
        {
            return format!("http://127.0.0.1:{port}{path}");
        }
    }
}

/// Reads a request, answers it, and returns its path if it is the callback.
async fn path_of(mut stream: TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let read = async {
        let mut buffer = [0; 4096];
        while !request.windows(4).any(|it| it == b"\r\n\r\n") && request.len() < MAX_REQUEST {
            let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
            request.extend_from_slice(&buffer[..count]);
        }
        Some(())
    };
    // A connection that says nothing must not keep the browser waiting.
    tokio::time::timeout(Duration::from_secs(5), read).await.ok()??;
    let request = String::from_utf8(request).ok()?;
    let path = request.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    let is_callback = path.starts_with("/callback?");
    let (status, body) = if is_callback { ("200 OK", PAGE) } else { ("404 Not Found", "") };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await.ok();
    is_callback.then_some(path)
}

/// Waits for an address that the user pastes.
async fn pasted() -> String {
    if io::stdin().is_terminal() {
        let (sender, receiver) = oneshot::channel();
        // A thread of its own: reading from a terminal cannot be stopped, and the program ends without it.
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                let line = line.trim();
                if line.starts_with("http") {
                    sender.send(line.to_owned()).ok();
                    return;
                }
            }
        });
        if let Ok(line) = receiver.await {
            return line;
        }
    }
    std::future::pending().await
}
