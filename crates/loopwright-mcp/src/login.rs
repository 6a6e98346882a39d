//! Logins to servers with OAuth 2.1.

use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;

use async_trait::async_trait;
use rmcp::transport::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationRequest, CredentialRefreshGuard,
    CredentialStore, StoredCredentials, auth::OAuthState,
};
use sha2::{Digest as _, Sha256};

use crate::catalog::replace;
use crate::config::McpServer;
use crate::error::McpError;
use crate::names::server_part;
use crate::text;

/// Stores tokens of logins in a folder, one file per server and URL. Only the user can read the
/// files.
#[derive(Clone, Debug)]
pub struct LoginFolder(PathBuf);

impl LoginFolder {
    /// Creates a store in this folder, which is created on the first write.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    pub(crate) fn credentials(&self, server: &McpServer, url: &str) -> FileCredentials {
        let hash = format!("{:x}", Sha256::digest(url));
        let name = format!("{}-{}", server_part(&server.name), &hash[..16]);
        FileCredentials { folder: self.0.clone(), name }
    }
}

/// The tokens of one server.
pub(crate) struct FileCredentials {
    folder: PathBuf,
    name: String,
}

impl FileCredentials {
    fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }

    /// Removes the tokens. Returns `false` if there are none.
    pub(crate) fn remove(&self) -> std::io::Result<bool> {
        match fs::remove_file(self.file()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn make_folder(&self) -> Result<(), AuthError> {
        fs::create_dir_all(&self.folder).map_err(failed)
    }
}

fn failed(error: impl fmt::Display) -> AuthError {
    AuthError::InternalError(error.to_string())
}

#[async_trait]
impl CredentialStore for FileCredentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match fs::read_to_string(self.file()) {
            // A file that cannot be read is as good as none: the user logs in again.
            Ok(text) => Ok(serde_json::from_str(&text).ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.make_folder()?;
        let text = serde_json::to_vec(&credentials).map_err(failed)?;
        replace(&self.file(), &text).map_err(failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.remove().map(drop).map_err(failed)
    }

    /// Lets one process at a time refresh; the others then find its result.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        self.make_folder()?;
        let path = self.folder.join(format!(".{}.lock", self.name));
        let lock = tokio::task::spawn_blocking(move || -> std::io::Result<File> {
            let file = File::create(path)?;
            file.lock()?;
            Ok(file)
        });
        let file = lock.await.map_err(failed)?.map_err(failed)?;
        Ok(Some(CredentialRefreshGuard::new(file)))
    }
}

/// The options of a login.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct LoginOptions {
    /// The redirect URL, on the loopback interface.
    pub redirect_uri: String,
    /// The challenge of the server, from [`McpError::LoginRequired`].
    pub challenge: Option<String>,
    /// The ID of a client that was registered in advance; `None` registers one.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
    /// The URL of a document that describes the client.
    pub client_metadata_url: Option<String>,
}

impl LoginOptions {
    /// Creates options with a redirect URL.
    pub fn new(redirect_uri: impl Into<String>) -> Self {
        Self {
            redirect_uri: redirect_uri.into(),
            challenge: None,
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
        }
    }

    /// Sets the challenge of the server.
    pub fn with_challenge(mut self, challenge: Option<String>) -> Self {
        self.challenge = challenge;
        self
    }

    /// Sets a client that was registered in advance.
    pub fn with_client(mut self, id: impl Into<String>, secret: Option<String>) -> Self {
        (self.client_id, self.client_secret) = (Some(id.into()), secret);
        self
    }

    /// Sets the URL of a document that describes the client.
    pub fn with_client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.client_metadata_url = Some(url.into());
        self
    }
}

/// A login that waits for the user.
#[must_use]
pub struct Login {
    server: String,
    state: OAuthState,
    url: String,
}

impl Login {
    /// Returns the URL that the user opens in a browser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Completes the login with the final URL of the browser.
    ///
    /// # Errors
    ///
    /// Returns an error if the user did not agree, the URL does not belong to this login, or the
    /// token cannot be stored.
    pub async fn complete(mut self, redirected: &str) -> Result<(), McpError> {
        let done = self.state.handle_callback_url(redirected).await;
        done.map_err(|error| login_error(&self.server, &error))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Starts a login.
pub(crate) async fn start(
    server: &McpServer,
    url: &str,
    credentials: FileCredentials,
    options: LoginOptions,
) -> Result<Login, McpError> {
    let error = |error: AuthError| login_error(&server.name, &error);
    let granted = credentials.load().await.ok().flatten().map(|it| it.granted_scopes);
    let mut manager = AuthorizationManager::new(url).await.map_err(error)?;
    manager.set_credential_store(credentials);
    let mut request = AuthorizationRequest::new(options.redirect_uri)
        .with_client_name("Loopwright")
        .with_application_type("native");
    // A login for more scopes keeps those that were granted before.
    let wanted = options.challenge.as_deref().and_then(scopes_of).unwrap_or_default();
    let granted: Vec<String> = granted.unwrap_or_default();
    if !granted.is_empty() && !wanted.is_empty() {
        let new = wanted.into_iter().filter(|it| !granted.contains(it)).collect::<Vec<_>>();
        request = request.with_scopes(granted.iter().cloned().chain(new));
    }
    if let Some(challenge) = options.challenge {
        request = request.with_challenge(challenge);
    }
    if let Some(id) = options.client_id {
        request = request.with_preregistered_client(id);
    }
    if let Some(secret) = options.client_secret {
        request = request.with_client_secret(secret);
    }
    if let Some(url) = options.client_metadata_url {
        request = request.with_client_metadata_url(url);
    }
    let mut state = OAuthState::Unauthorized(manager);
    state.start_authorization(request).await.map_err(error)?;
    let url = state.get_authorization_url().await.map_err(error)?;
    Ok(Login { server: server.name.clone(), state, url })
}

/// Returns the scopes that a challenge names.
fn scopes_of(challenge: &str) -> Option<Vec<String>> {
    let (_, rest) = challenge.split_once("scope=\"")?;
    let (scopes, _) = rest.split_once('"')?;
    Some(scopes.split_ascii_whitespace().map(ToOwned::to_owned).collect())
}

/// Returns a client that sends the token of the login, or `None` if there is no login.
pub(crate) async fn authorized(
    server: &McpServer,
    url: &str,
    credentials: FileCredentials,
    client: reqwest::Client,
) -> Result<Option<AuthClient<reqwest::Client>>, McpError> {
    let has_token =
        credentials.load().await.is_ok_and(|it| it.is_some_and(|it| it.token_response.is_some()));
    if !has_token {
        return Ok(None);
    }
    let error = |error: AuthError| login_error(&server.name, &error);
    let mut manager = AuthorizationManager::new(url).await.map_err(error)?;
    manager.set_credential_store(credentials);
    let is_ready = manager.initialize_from_store().await.map_err(error)?;
    Ok(is_ready.then(|| AuthClient::new(client, manager)))
}

/// The text of the error may hold what a server has sent, and never a token.
fn login_error(server: &str, error: &AuthError) -> McpError {
    McpError::Login { server: server.to_owned(), reason: text::line(&error.to_string()) }
}
