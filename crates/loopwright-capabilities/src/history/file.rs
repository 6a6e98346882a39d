//! Summaries in a file.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_core::{BoxError, messages::AgentId};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::{
    history::{ExecutionSummary, HistoryStore},
    private_file::appending,
};

/// Stores summaries in a file, one JSON line each. Only its owner can read the file.
///
/// Damaged lines, for example after a crash during a write, are skipped. Clones share the file;
/// concurrent programs should use separate files.
#[derive(Clone, Debug)]
pub struct FileHistory(Arc<Place>);

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Held while something is written.
    writing: Mutex<()>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    agent: AgentId,
    #[serde(flatten)]
    summary: ExecutionSummary,
}

impl FileHistory {
    /// Stores summaries in a file, which is created on the first write.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Place { path: path.into(), writing: Mutex::default() }))
    }
}

impl Place {
    fn append(&self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = appending().read(true).open(&self.path)?;
        if !ends_with_line(&mut file)? {
            bytes.insert(0, b'\n');
        }
        file.write_all(&bytes)
    }

    fn read(&self, agent: &AgentId) -> io::Result<Vec<ExecutionSummary>> {
        let text = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let lines = text.split(|it| *it == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        Ok(lines.filter(|line| line.agent == *agent).map(|line| line.summary).collect())
    }
}

fn ends_with_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Does what blocks elsewhere, if there is such a place.
async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BoxError> {
    match Handle::try_current() {
        Ok(runtime) => Ok(runtime.spawn_blocking(work).await??),
        Err(_) => Ok(work()?),
    }
}

#[async_trait]
impl HistoryStore for FileHistory {
    async fn record(&self, agent: &AgentId, summary: &ExecutionSummary) -> Result<(), BoxError> {
        let place = Arc::clone(&self.0);
        let line = Line { agent: agent.clone(), summary: summary.clone() };
        elsewhere(move || place.append(&line)).await
    }

    async fn all(&self, agent: &AgentId) -> Result<Vec<ExecutionSummary>, BoxError> {
        let (place, agent) = (Arc::clone(&self.0), agent.clone());
        elsewhere(move || place.read(&agent)).await
    }
}
