//! Sessions as resources, and skills as prompts.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_capabilities::skills::{SkillAudience, SkillLibrary};
use loopwright_core::{BoxError, Timestamp};
use loopwright_mcp::{ServedContent, ServedPrompt, ServedResource};
use loopwright_sessions::{SessionCursor, SessionId, SessionQuery, SessionRelation, SessionStore};

use crate::sessions::SessionHistory;

/// How the addresses of sessions begin.
const SESSION: &str = "session://";

/// How many sessions are listed at once.
const PAGE: usize = 50;

/// What a directory has besides agents.
pub(super) struct Library {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) workdir: String,
    pub(super) skills: SkillLibrary,
}

#[async_trait]
impl ServedContent for Library {
    async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<ServedResource>, Option<String>), BoxError> {
        let after = cursor.as_deref().map(read_cursor).transpose()?;
        let query = SessionQuery {
            workdir: Some(self.workdir.as_str().into()),
            kinship: SessionRelation::TopLevel,
            after,
            ..SessionQuery::first(PAGE)
        };
        let page = self.store.list(&query).await?;
        let resource = |it: &loopwright_sessions::SessionHeader| ServedResource {
            uri: format!("{SESSION}{}", it.id),
            name: it.title.as_deref().unwrap_or(it.id.as_str()).to_owned(),
            description: Some(format!("Session of {}", it.updated_at)),
            mime_type: Some("application/json".to_owned()),
        };
        let next = page.next.map(|it| format!("{}.{}", it.updated_at.millis(), it.id));
        Ok((page.sessions.iter().map(resource).collect(), next))
    }

    async fn read(&self, uri: &str) -> Result<Option<String>, BoxError> {
        let Some(id) = uri.strip_prefix(SESSION).and_then(|it| SessionId::new(it).ok()) else {
            return Ok(None);
        };
        let Some(loaded) = self.store.load(&id).await? else { return Ok(None) };
        // Only sessions of this directory are served.
        if loaded.header.workdir.as_deref() != Some(self.workdir.as_str()) {
            return Ok(None);
        }
        Ok(Some(serde_json::to_string_pretty(&SessionHistory::of(&loaded.changes))?))
    }

    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        let skills = self.skills.list(SkillAudience::All).into_iter();
        let invocable = skills.filter(|it| it.info.user_invocable);
        let prompt = |it: Arc<loopwright_capabilities::skills::Skill>| ServedPrompt {
            name: it.name().to_owned(),
            description: it.info.description.clone(),
            takes_arguments: true,
        };
        Ok(invocable.map(prompt).collect())
    }

    async fn prompt(&self, name: &str, arguments: &str) -> Result<Option<String>, BoxError> {
        let skill = self.skills.get(name).filter(|it| it.info.user_invocable);
        Ok(skill.map(|it| it.render(Some(arguments))))
    }
}

fn read_cursor(text: &str) -> Result<SessionCursor, BoxError> {
    let parsed = text.split_once('.').and_then(|(millis, id)| {
        let updated_at = Timestamp::from_millis(millis.parse().ok()?);
        Some(SessionCursor { updated_at, id: SessionId::new(id).ok()? })
    });
    parsed.ok_or_else(|| format!("invalid cursor `{text}`").into())
}
