//! Long tool outputs in files.

use std::sync::Arc;

use loopwright_core::messages::{Part, ToolExchange, ToolResult, Turn, TurnBody};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    compaction::policy::CompactionPolicy,
    files::{FileError, WorkspaceRoot, WriteFile, WriteFileArgs, blocking},
    summarization::TokenCounter,
    truncate::window,
};

/// The directory for long tool outputs, relative to the given one. Git ignores it.
pub const SPILL_DIR: &str = ".tool-outputs";

/// Moves long outputs to files.
pub(super) struct Spill<'a> {
    pub(super) root: &'a WorkspaceRoot,
    pub(super) policy: &'a CompactionPolicy,
    pub(super) counter: &'a dyn TokenCounter,
    pub(super) cancel: &'a CancellationToken,
    /// Where they are.
    pub(super) files: Vec<String>,
    /// What could not be written.
    pub(super) problems: Vec<String>,
}

impl Spill<'_> {
    /// Returns a turn without its long outputs. One that cannot be written to a file stays.
    pub(super) async fn shorten(&mut self, turn: &Arc<Turn>) -> Arc<Turn> {
        let TurnBody::ToolExchange(exchange) = turn.body() else { return Arc::clone(turn) };
        let mut results = Vec::with_capacity(exchange.results().len());
        let mut is_shorter = false;
        for result in exchange.results() {
            let short = self.short(result).await;
            is_shorter |= short.is_some();
            results.push(short.unwrap_or_else(|| result.clone()));
        }
        if !is_shorter {
            return Arc::clone(turn);
        }
        let short = ToolExchange::new(exchange.reply().clone(), results);
        let short = short.and_then(|it| Turn::new(TurnBody::ToolExchange(it)));
        // There is a result for each call, as before.
        short.map_or_else(|_| Arc::clone(turn), |it| it.with_meta(turn.meta().clone()).into())
    }

    async fn short(&mut self, result: &ToolResult) -> Option<ToolResult> {
        let text = long_output(result, self.policy, self.counter)?;
        let path = format!("{SPILL_DIR}/{}.txt", name_of(&text));
        let handle = handle(&text, &path, self.policy.preview_chars);
        if let Err(error) = self.write(&path, text).await {
            self.problems.push(error.to_string());
            return None;
        }
        if !self.files.contains(&path) {
            self.files.push(path);
        }
        let others = result.content.iter().filter(|part| part.as_text().is_none()).cloned();
        let content = [Part::text(handle)].into_iter().chain(others).collect();
        Some(ToolResult { content, is_error: result.is_error })
    }

    /// Writes a file, and with the first one a note that keeps the directory out of version control.
    async fn write(&self, path: &str, content: String) -> Result<(), FileError> {
        let writer = WriteFile::in_dir(self.root.clone()).with_max_bytes(usize::MAX);
        let (path, is_first) = (path.to_owned(), self.files.is_empty());
        let work = move |_: &CancellationToken| {
            let file = |path: String, content: String| WriteFileArgs {
                path,
                content,
                overwrite: Some(true),
                create_dirs: Some(true),
            };
            if is_first {
                writer.write(&file(format!("{SPILL_DIR}/.gitignore"), "*\n".to_owned()))?;
            }
            writer.write(&file(path, content)).map(drop)
        };
        blocking(self.cancel, work).await
    }
}

/// Returns `true` if a turn has an output that would go to a file.
pub(super) fn has_long_output(
    turn: &Turn,
    policy: &CompactionPolicy,
    counter: &dyn TokenCounter,
) -> bool {
    let TurnBody::ToolExchange(exchange) = turn.body() else { return false };
    exchange.results().iter().any(|it| long_output(it, policy, counter).is_some())
}

fn long_output(
    result: &ToolResult,
    policy: &CompactionPolicy,
    counter: &dyn TokenCounter,
) -> Option<String> {
    let text = result.to_text();
    let is_long = !text.starts_with(HANDLE) && counter.count(&text) > policy.max_output_tokens;
    is_long.then_some(text)
}

/// How what stands in the place of an output begins.
const HANDLE: &str = "[This output was moved to the file ";

fn handle(text: &str, path: &str, preview: usize) -> String {
    let (bytes, shown) = (text.len(), window(text, preview));
    format!(
        "{HANDLE}{path}, {bytes} bytes. Read the file if you need the output again. Its \
            beginning and its end:]\n{shown}"
    )
}

/// The same output has the same name.
fn name_of(text: &str) -> String {
    let digest = format!("{:x}", Sha256::digest(text));
    digest.chars().take(16).collect()
}
