//! Logins to servers with OAuth 2.1.

use std::fmt;
use std::sync::Arc;

use rmcp::transport::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationRequest, ClientCredentialsConfig,
    CredentialStore as _, auth::OAuthState,
};

use crate::config::{McpServer, OAuthClient, OAuthGrant, ServerTransport};
use crate::credentials::{Credentials, is_refreshed_elsewhere};
use crate::error::McpError;
use crate::http::{Before, choose_cryptography};
use crate::launch::McpHost;
use crate::template::Template;
use crate::text;

/// How often a token is looked at that another process refreshes.
const LOOKS: usize = 3;

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
    /// The requested scopes, in addition to those that the server names.
    pub scopes: Vec<String>,
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
            scopes: Vec::new(),
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

    /// Sets the requested scopes, in addition to those that the server names.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = String>) -> Self {
        self.scopes = scopes.into_iter().collect();
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
    credentials: Credentials,
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
        done.map_err(|error| login_error(&self.server, &error))?;
        self.credentials.forget_challenge();
        Ok(())
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
    credentials: Credentials,
    options: LoginOptions,
) -> Result<Login, McpError> {
    let error = |error: AuthError| login_error(&server.name, &error);
    let granted = credentials.load().await.ok().flatten().map(|it| it.granted_scopes);
    choose_cryptography();
    let mut manager = AuthorizationManager::new(url).await.map_err(error)?;
    manager.set_credential_store(credentials.clone());
    let mut request = AuthorizationRequest::new(options.redirect_uri)
        .with_client_name("Loopwright")
        .with_application_type("native");
    // A login for more scopes keeps those that were granted before.
    let challenge = options.challenge.or_else(|| credentials.challenge());
    let mut wanted = challenge.as_deref().and_then(scopes_of).unwrap_or_default();
    let is_named = !options.scopes.is_empty();
    wanted.extend(options.scopes);
    let mut scopes: Vec<String> = granted.unwrap_or_default();
    if !wanted.is_empty() && (!scopes.is_empty() || is_named) {
        for scope in wanted {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        request = request.with_scopes(scopes);
    }
    if let Some(challenge) = challenge {
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
    Ok(Login { server: server.name.clone(), state, url, credentials })
}

/// Returns the scopes that a challenge names.
fn scopes_of(challenge: &str) -> Option<Vec<String>> {
    let (_, rest) = challenge.split_once("scope=\"")?;
    let (scopes, _) = rest.split_once('"')?;
    Some(scopes.split_ascii_whitespace().map(ToOwned::to_owned).collect())
}

/// Returns a client that sends the token of the login that a host keeps, and what it does before each request; `None` if
/// there is no login.
pub(crate) async fn of_host(
    server: &McpServer,
    host: &McpHost,
    url: &str,
    client: &reqwest::Client,
) -> Result<Option<(AuthClient<reqwest::Client>, Before)>, McpError> {
    let Some(logins) = host.logins() else { return Ok(None) };
    let credentials = logins.credentials(server, url);
    let own = ClientLogin::of(server, host, url, &credentials)?.map(Arc::new);
    if let Some(own) = &own {
        own.ensure().await.map_err(|error| login_error(&server.name, &error))?;
    }
    let has_token =
        credentials.load().await.is_ok_and(|it| it.is_some_and(|it| it.token_response.is_some()));
    if !has_token {
        return Ok(None);
    }
    let error = |error: AuthError| login_error(&server.name, &error);
    choose_cryptography();
    let mut manager = AuthorizationManager::new(url).await.map_err(error)?;
    manager.set_credential_store(credentials.clone());
    if !manager.initialize_from_store().await.map_err(error)? {
        return Ok(None);
    }
    let client = AuthClient::new(client.clone(), manager);
    let refreshing = client.clone();
    let before: Before = Arc::new(move || {
        let (client, credentials, own) = (refreshing.clone(), credentials.clone(), own.clone());
        Box::pin(async move {
            if let Some(own) = own {
                // What is wrong then is told by the request.
                own.ensure().await.ok();
            }
            refresh(&client, &credentials).await;
        })
    });
    Ok(Some((client, before)))
}

/// Refreshes a token that is about to expire, unless another process does so. What is wrong is told by the request.
async fn refresh(client: &AuthClient<reqwest::Client>, credentials: &Credentials) {
    let _ahead = credentials.ahead();
    for _ in 0..LOOKS {
        match client.get_access_token().await {
            Err(error) if is_refreshed_elsewhere(&error) => {}
            _ => return,
        }
    }
}

/// The login of a client on its own behalf.
struct ClientLogin {
    url: String,
    id: String,
    secret: String,
    scopes: Vec<String>,
    credentials: Credentials,
}

impl ClientLogin {
    /// Returns `None` for a server at which users log in.
    fn of(
        server: &McpServer,
        host: &McpHost,
        url: &str,
        credentials: &Credentials,
    ) -> Result<Option<Self>, McpError> {
        let oauth = oauth(server).filter(|it| it.grant == OAuthGrant::Client);
        let Some(OAuthClient { id: Some(id), secret: Some(secret), scopes, .. }) = oauth else {
            return Ok(None);
        };
        Ok(Some(Self {
            url: url.to_owned(),
            id: host.expand(server, id)?,
            secret: host.expand(server, secret)?,
            scopes: scopes.clone(),
            credentials: credentials.clone(),
        }))
    }

    /// Gets a token, if there is none that can be used for a while. One process at a time gets one.
    async fn ensure(&self) -> Result<(), AuthError> {
        if self.credentials.are_fresh() {
            return Ok(());
        }
        let _guard = self.credentials.lock().await?;
        if self.credentials.are_fresh() {
            return Ok(());
        }
        choose_cryptography();
        let mut manager = AuthorizationManager::new(&self.url).await?;
        manager.set_credential_store(self.credentials.clone());
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: self.id.clone(),
            client_secret: self.secret.clone(),
            scopes: self.scopes.clone(),
            resource: Some(self.url.clone()),
        };
        OAuthState::Unauthorized(manager).authenticate_client_credentials(config).await
    }
}

/// Returns what the configuration says about logins; `None` for a server that is a process.
pub(crate) fn oauth(server: &McpServer) -> Option<&OAuthClient> {
    match &server.transport {
        ServerTransport::Http(http) => Some(&http.oauth),
        ServerTransport::Stdio(_) => None,
    }
}

/// Completes options with what the configuration says.
pub(crate) fn completed(
    server: &McpServer,
    host: &McpHost,
    mut options: LoginOptions,
) -> Result<LoginOptions, McpError> {
    let Some(oauth) = oauth(server) else { return Ok(options) };
    let expand =
        |text: &Option<Template>| text.as_ref().map(|it| host.expand(server, it)).transpose();
    if options.client_id.is_none() {
        options.client_id = expand(&oauth.id)?;
        options.client_secret = expand(&oauth.secret)?;
    }
    if options.client_metadata_url.is_none() {
        options.client_metadata_url.clone_from(&oauth.metadata_url);
    }
    if options.scopes.is_empty() {
        options.scopes.clone_from(&oauth.scopes);
    }
    Ok(options)
}

/// The text of the error may hold what a server has sent, and never a token.
fn login_error(server: &str, error: &AuthError) -> McpError {
    let mut reason = text::line(&error.to_string());
    if let AuthError::RegistrationFailed(_) = error {
        reason +=
            "; register a client with the server manually, and pass its ID with `--client-id`";
    }
    McpError::Login { server: server.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_registers_no_clients_leads_to_the_option_for_one() {
        let error = login_error("docs", &AuthError::RegistrationFailed("404 Not Found".to_owned()));
        let text = error.to_string();
        assert!(text.contains("404 Not Found; register a client"), "{text}");
        assert!(text.ends_with("pass its ID with `--client-id`"), "{text}");
    }
}
