//! Sessions as resources, and skills as prompts.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use loopwright_core::{BoxError, SystemClock};
use loopwright_mcp::{
    PromptCall, PromptReply, ResourceBody, ServedContent, ServedPrompt, ServedResource,
};
use loopwright_sessions::{
    SessionCursor, SessionHeader, SessionId, SessionQuery, SessionRelation, SessionStore,
};

use crate::sessions::SessionHistory;
use crate::skill_prompts::SkillPrompts;

/// How the addresses of sessions begin.
const SESSION: &str = "session://";

/// How many sessions are listed at once.
const PAGE: usize = 50;

/// What a directory has besides agents.
pub(super) struct Library {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) workdir: String,
    pub(super) skills: SkillPrompts,
}

impl Library {
    /// Finds the session of an address. Only sessions of this directory are served.
    async fn header(&self, uri: &str) -> Result<Option<SessionHeader>, BoxError> {
        let Some(id) = uri.strip_prefix(SESSION).and_then(|it| SessionId::new(it).ok()) else {
            return Ok(None);
        };
        let header = self.store.header(&id).await?;
        Ok(header.filter(|it| it.workdir.as_deref() == Some(self.workdir.as_str())))
    }
}

#[async_trait]
impl ServedContent for Library {
    async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<ServedResource>, Option<String>), BoxError> {
        let after = cursor.as_deref().map(str::parse::<SessionCursor>).transpose()?;
        let query = SessionQuery {
            workdir: Some(self.workdir.as_str().into()),
            kinship: SessionRelation::TopLevel,
            after,
            ..SessionQuery::first(PAGE)
        };
        let page = self.store.list(&query).await?;
        let resource = |it: &SessionHeader| ServedResource {
            uri: format!("{SESSION}{}", it.id),
            name: it.title.as_deref().unwrap_or(it.id.as_str()).to_owned(),
            description: Some(format!("Session of {}", it.updated_at)),
            mime_type: Some("application/json".to_owned()),
        };
        let next = page.next.as_ref().map(ToString::to_string);
        Ok((page.sessions.iter().map(resource).collect(), next))
    }

    async fn read(&self, uri: &str) -> Result<Option<ResourceBody>, BoxError> {
        let Some(header) = self.header(uri).await? else { return Ok(None) };
        let Some(loaded) = self.store.load(&header.id).await? else { return Ok(None) };
        let history = serde_json::to_string_pretty(&SessionHistory::of(&loaded.changes))?;
        Ok(Some(ResourceBody::text("application/json", history)))
    }

    async fn watch(&self, uri: &str) -> Option<BoxStream<'static, ()>> {
        let header = self.header(uri).await.ok()??;
        let begin = (Arc::clone(&self.store), header);
        let changes = stream::unfold(begin, async |(store, last)| {
            let clock = SystemClock::default();
            let written = store.wait_for_write(&last.id, last.version, &clock).await;
            let header = written.ok()??;
            Some(((), (store, header)))
        });
        Some(changes.boxed())
    }

    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        self.skills.prompts().await
    }

    async fn prompt(&self, call: &PromptCall) -> Result<Option<PromptReply>, BoxError> {
        self.skills.prompt(call).await
    }
}
