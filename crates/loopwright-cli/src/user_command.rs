//! Commands that the user types: they run as those of the agent do.

use std::sync::Arc;

use loopwright_capabilities::bash::{Bash, BashArgs, BashError};
use loopwright_core::{ToolOutput, messages::Part};
use loopwright_sessions::{SessionFiles, SessionId, SessionStore};
use tokio_util::sync::CancellationToken;

use crate::agent::Setup;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    /// Its exit code as a shell reports it.
    pub(crate) exit_code: i64,
    /// What it printed, shortened in the middle if it is long.
    pub(crate) text: String,
    /// What the sandbox did about it, such as changes that it refused. The text ends with this, too.
    pub(crate) notes: Vec<String>,
}

/// Runs a command in the sandbox of a run. Changes of files are recorded in the session, if there is one.
///
/// # Errors
///
/// Returns an error if the command did not run, or was cancelled.
pub(crate) async fn run(
    setup: &Setup,
    session: Option<(&Arc<dyn SessionStore>, &SessionId)>,
    command: &str,
    cancel: &CancellationToken,
) -> Result<CommandOutput, BashError> {
    let mut bash = Bash::in_dir(setup.workdir.path())
        .with_max_timeout(setup.commands.longest())
        .confine(|policy| setup.commands().extend(policy));
    for path in setup.commands.allowed() {
        bash = bash.allow(path);
    }
    if let Some((store, id)) = session {
        let files = SessionFiles::new(Arc::clone(store), id.clone());
        bash = bash.with_journal(Arc::new(files.with_folder(setup.workdir.path())));
    }
    let seconds = u32::try_from(setup.commands.longest().as_secs()).unwrap_or(u32::MAX);
    let timeout_seconds = seconds.try_into().ok();
    let args = BashArgs { command: command.to_owned(), timeout_seconds, ..BashArgs::default() };
    let output = bash.run(&args, None, cancel).await?;
    Ok(CommandOutput { exit_code: exit_code(&output), text: text(&output), notes: notes(&output) })
}

fn notes(output: &ToolOutput) -> Vec<String> {
    let notes = output.value.as_deref().and_then(|it| it["notes"].as_array());
    let notes = notes.into_iter().flatten().filter_map(|it| it.as_str());
    notes.map(ToOwned::to_owned).collect()
}

fn exit_code(output: &ToolOutput) -> i64 {
    let value = output.value.as_deref();
    value.and_then(|it| it["exit_code"].as_i64()).unwrap_or_default()
}

fn text(output: &ToolOutput) -> String {
    let text: String = output.content.iter().filter_map(Part::as_text).collect();
    text.trim_end().to_owned()
}
