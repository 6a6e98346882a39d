//! What an agent does, told to the world outside.
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

use std::{borrow::Cow, fmt, io, path::PathBuf, sync::Arc};

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_broadcast::{
    BroadcastConfig, BroadcastTransport, Broadcasting, CAPACITY, JsonLines, Redactor,
};

use crate::private_file::appending;

/// Tells what the agent does, and the agents that work for it, to a transport.
///
/// The transport has a thread of its own and a bounded queue: one that is slow, fails or never comes back
/// costs the agent nothing. Each agent that is built tells by itself. When the last of its clones is
/// dropped, what waits is delivered as long as the process lives; programs that have to wait for it attach
/// a [`Broadcasting`] of their own by [`through`](UseBroadcasting::from_broadcasting) and finish its outlet.
#[derive(Clone)]
#[must_use]
pub struct UseBroadcasting {
    target: To,
    config: BroadcastConfig,
    session: Option<Arc<str>>,
    redaction: Redactor,
    capacity: usize,
}

/// Who is told.
#[derive(Clone)]
enum To {
    Transport(Arc<dyn BroadcastTransport>),
    File(PathBuf),
    Through(Broadcasting),
}

impl UseBroadcasting {
    /// Tells a transport. One that needs a tokio runtime needs the agent to be built within it.
    pub fn to_transport(transport: impl BroadcastTransport + 'static) -> Self {
        Self::of(To::Transport(Arc::new(transport)))
    }

    /// Adds lines of JSON to a file, which is made for its owner only if it is not there.
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        Self::of(To::File(path.into()))
    }

    /// Tells the listener to this, as it was set up: what is said here of configuration, session,
    /// secrets and room does not count.
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

    /// Says what is told; [`BroadcastConfig::standard`] if this is not said.
    pub fn with_config(self, config: BroadcastConfig) -> Self {
        Self { config, ..self }
    }

    /// Names the session that everything belongs to; the agent's own id is taken if none is named.
    pub fn with_session(self, session: impl Into<Arc<str>>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Keeps secrets out of what is told in this way.
    pub fn with_redaction(self, redaction: Redactor) -> Self {
        Self { redaction, ..self }
    }

    /// Says how many envelopes wait for the transport at most, but for those that are never dropped; 1024
    /// if this is not said.
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    fn broadcasting(&self) -> io::Result<Broadcasting> {
        let told = Broadcasting::new(self.config).with_redaction(self.redaction.clone());
        let told = match &self.session {
            Some(session) => told.with_session(Arc::clone(session)),
            None => told,
        };
        let outlet = match &self.target {
            To::Through(told) => return Ok(told.clone()),
            To::Transport(transport) => {
                told.attach_transport(Arc::clone(transport), self.capacity)?
            }
            To::File(path) => {
                told.attach_transport(JsonLines::new(appending().open(path)?), self.capacity)?
            }
        };
        // It continues on its own.
        drop(outlet);
        Ok(told)
    }
}

impl Capability for UseBroadcasting {
    fn name(&self) -> Cow<'static, str> {
        "use_broadcasting".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let broadcasting = self.broadcasting().map_err(|error| BuildError::Capability {
            capability: self.name(),
            reason: match &self.target {
                To::File(path) => format!("{} cannot be written", path.display()),
                _ => "there is no thread for the transport".to_owned(),
            },
            source: Some(error.into()),
        })?;
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
