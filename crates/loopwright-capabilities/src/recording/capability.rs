//! Recording and replay as capabilities.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::recording::{record::Recorder, replay::Replay};

/// Writes what models are asked and what they answer to a file, for every caller: the driver, tools, hooks
/// and sub-agents. What a hook answers in a model's place is not in it, and neither are failures.
///
/// A file that is there is added to.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseRecording {
    path: PathBuf,
    secrets: Vec<String>,
}

impl UseRecording {
    /// Writes to a file.
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), secrets: Vec::new() }
    }

    /// Blackens a text wherever it stands in what is written. An answer that holds it is blackened when
    /// it is replayed, too.
    pub fn redact(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }
}

/// Answers from a file that [`UseRecording`] wrote; no model is asked. Each answer is given once, to the
/// request that it answered: model, system prompt, tools, settings and conversation must be the same.
///
/// A request that was not recorded fails, and the error says in what the next recorded one differs.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseReplay(PathBuf);

impl UseReplay {
    /// Answers from a file, which is read when the agent is built.
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
