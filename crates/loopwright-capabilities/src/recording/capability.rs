//! Recording and replay as capabilities.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::recording::{record::Recorder, replay::Replay};

/// Records all model requests and responses to a file: those of the driver, tools, hooks and
/// sub-agents. Responses of hooks and failures are not recorded.
///
/// Appends to an existing file.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseRecording {
    path: PathBuf,
    secrets: Vec<String>,
}

impl UseRecording {
    /// Creates the capability with a file.
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), secrets: Vec::new() }
    }

    /// Redacts a text everywhere in the recording. Responses that contain it are redacted in
    /// replays, too.
    pub fn redact(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }
}

/// Replays responses from a file that [`UseRecording`] wrote, without calling a model. Each
/// response is used once, for the same request: model, system prompt, tools, settings and
/// conversation must match.
///
/// A request that was not recorded fails with an error that describes the difference to the next
/// recorded one.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseReplay(PathBuf);

impl UseReplay {
    /// Replays a file, which is read when the agent is built.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

impl Capability for UseRecording {
    fn name(&self) -> Cow<'static, str> {
        "use_recording".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let recorder = Recorder::open(&self.path, &self.secrets);
        let recorder = recorder.map_err(|error| unusable(self.name(), &self.path, error))?;
        agent.layers.add(Arc::new(recorder));
        Ok(())
    }
}

impl Capability for UseReplay {
    fn name(&self) -> Cow<'static, str> {
        "use_replay".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let replay = Replay::open(&self.0);
        let replay = replay.map_err(|error| unusable(self.name(), &self.0, error))?;
        agent.layers.add(Arc::new(replay));
        Ok(())
    }
}

fn unusable(capability: Cow<'static, str>, path: &Path, error: io::Error) -> BuildError {
    let reason = format!("the recording {} cannot be used", path.display());
    BuildError::Capability { capability, reason, source: Some(error.into()) }
}
