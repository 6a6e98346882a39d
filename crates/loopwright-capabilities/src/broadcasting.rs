//! Broadcasting of an agent's events.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::broadcasting::UseBroadcasting;
//! # use loopwright_testing::FakeModel;
//! # let folder = tempfile::tempdir().unwrap();
//! # let (model, file) = (FakeModel::default(), folder.path().join("told.jsonl"));
//!
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseBroadcasting::to_file(&file).with_session("s1"))
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

use std::{
    borrow::Cow,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_broadcast::{BroadcastConfig, Broadcasting, CAPACITY, JsonLines, Redactor};

use crate::private_file::appending;

/// Broadcasts the events of the agent and its sub-agents.
///
/// The file has its own thread and a bounded queue, so a disk that is slow or fails does not affect
/// the agent. Each built agent has its own broadcasting. When its last clone
/// is dropped, waiting envelopes are delivered as long as the process lives; programs that must
/// wait for delivery pass their own [`Broadcasting`] with
/// [`from_broadcasting`](UseBroadcasting::from_broadcasting) and finish its transport handle.
#[derive(Clone)]
#[must_use]
pub struct UseBroadcasting {
    target: To,
    config: BroadcastConfig,
    session: Option<Arc<str>>,
    redaction: Redactor,
    capacity: usize,
}

/// The listener.
#[derive(Clone)]
enum To {
    File(PathBuf),
    Through(Broadcasting),
}

impl UseBroadcasting {
    /// Appends JSON lines to a file, which is created with access only for its owner if it does not
    /// exist.
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        Self::of(To::File(path.into()))
    }

    /// Uses this broadcasting as configured: the settings of this capability for events, session,
    /// secrets and capacity are ignored.
    pub fn from_broadcasting(broadcasting: Broadcasting) -> Self {
        Self::of(To::Through(broadcasting))
    }

    fn of(to: To) -> Self {
        Self {
            target: to,
            config: BroadcastConfig::standard(),
            session: None,
            redaction: Redactor::default(),
            capacity: CAPACITY,
        }
    }

    /// Sets the selection of events; [`BroadcastConfig::standard`] by default.
    pub fn with_config(self, config: BroadcastConfig) -> Self {
        Self { config, ..self }
    }

    /// Sets the session of all events; by default the agent's own ID.
    pub fn with_session(self, session: impl Into<Arc<str>>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Redacts secrets with this redactor.
    pub fn with_redaction(self, redaction: Redactor) -> Self {
        Self { redaction, ..self }
    }

    /// Sets the maximum number of waiting envelopes, not counting those that are never dropped;
    /// 1024 by default.
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// Broadcasts to a file.
    fn appending_to(&self, path: &Path) -> io::Result<Broadcasting> {
        let told = Broadcasting::new(self.config).with_redaction(self.redaction.clone());
        let told = match &self.session {
            Some(session) => told.with_session(Arc::clone(session)),
            None => told,
        };
        // It continues on its own.
        drop(told.attach_transport(JsonLines::new(appending().open(path)?), self.capacity)?);
        Ok(told)
    }
}

impl Capability for UseBroadcasting {
    fn name(&self) -> Cow<'static, str> {
        "use_broadcasting".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let broadcasting = match &self.target {
            To::Through(broadcasting) => broadcasting.clone(),
            To::File(path) => self.appending_to(path).map_err(|error| BuildError::Capability {
                capability: self.name(),
                reason: format!("{} cannot be written", path.display()),
                source: Some(error.into()),
            })?,
        };
        agent.sinks.wiretap(broadcasting);
        Ok(())
    }
}

impl fmt::Debug for UseBroadcasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseBroadcasting")
            .field("config", &self.config)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
