//! Sessions of a principal as resources.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use loopwright_core::BoxError;
use loopwright_mcp::{
    Completion, PromptCall, PromptReply, ResourceBody, ServedContent, ServedPrompt, ServedResource,
};
use loopwright_sessions::{SessionHeader, SessionId, SessionQuery, SessionRelation, SessionStatus};

use crate::{
    extract::own_session,
    principal::Principal,
    ran::ChangedArguments,
    routes::sessions::{PAGE, cursor},
    server::Server,
    views::{MessageView, SessionView},
};

/// How the addresses of sessions begin.
const SESSION: &str = "session://";

/// What a principal can read.
pub(super) struct PrincipalContent {
    server: Server,
    principal: Principal,
    prompts: Option<Arc<dyn ServedContent>>,
}

impl PrincipalContent {
    pub(super) fn new(
        server: &Server,
        principal: &Principal,
        prompts: Option<Arc<dyn ServedContent>>,
    ) -> Self {
        Self { server: server.clone(), principal: principal.clone(), prompts }
    }

    /// Finds the session of an address, if it belongs to the principal.
    async fn header(&self, uri: &str) -> Option<SessionHeader> {
        let id = SessionId::new(uri.strip_prefix(SESSION)?).ok()?;
        own_session(&**self.server.store(), &self.principal, id).await.ok()
    }
}

#[async_trait]
impl ServedContent for PrincipalContent {
    async fn resources(
        &self,
        after: Option<String>,
    ) -> Result<(Vec<ServedResource>, Option<String>), BoxError> {
        let query = SessionQuery {
            kinship: SessionRelation::TopLevel,
            scope: self.principal.scope(),
            after: after.as_deref().map(cursor).transpose().map_err(|it| it.text().to_owned())?,
            ..SessionQuery::first(PAGE)
        };
        let page = self.server.store().list(&query).await?;
        let resource = |it: &SessionHeader| ServedResource {
            uri: format!("{SESSION}{}", it.id),
            name: it.title.as_deref().unwrap_or(it.id.as_str()).to_owned(),
            description: Some(format!("Session of {}", it.updated_at)),
            mime_type: Some("application/json".to_owned()),
        };
        let next = page.next.map(|it| format!("{}.{}", it.updated_at.millis(), it.id));
        Ok((page.sessions.iter().map(resource).collect(), next))
    }

    async fn read(&self, uri: &str) -> Result<Option<ResourceBody>, BoxError> {
        let Some(header) = self.header(uri).await else { return Ok(None) };
        let (session, changed) = ChangedArguments::with_session(&self.server, &header.id).await?;
        let turns = session.state().transcript().iter();
        let messages: Vec<MessageView> = turns.map(|it| MessageView::of(it, &changed)).collect();
        let body = serde_json::json!({
            "session": SessionView::from(&session), "messages": messages,
        });
        Ok(Some(ResourceBody::text("application/json", body.to_string())))
    }

    async fn watch(&self, uri: &str) -> Option<BoxStream<'static, ()>> {
        let header = self.header(uri).await?;
        let changes = stream::unfold((self.server.clone(), header), async |(server, last)| {
            let written = server.store().wait_for_write(&last.id, last.version, &**server.clock());
            let header = written.await.ok()??;
            let exists = header.status != SessionStatus::Deleted;
            exists.then_some(((), (server, header)))
        });
        Some(changes.boxed())
    }

    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        match &self.prompts {
            Some(prompts) => prompts.prompts().await,
            None => Ok(Vec::new()),
        }
    }

    async fn prompt(&self, call: &PromptCall) -> Result<Option<PromptReply>, BoxError> {
        match &self.prompts {
            Some(prompts) => prompts.prompt(call).await,
            None => Ok(None),
        }
    }

    async fn complete(&self, completion: &Completion) -> Result<Vec<String>, BoxError> {
        match &self.prompts {
            Some(prompts) => prompts.complete(completion).await,
            None => Ok(Vec::new()),
        }
    }
}
