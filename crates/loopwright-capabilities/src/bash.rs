//! Commands in a sandbox.
//!
//! [`Bash`] runs one command and returns its output; [`UseBash`] adds it to an agent, optionally
//! with background commands.

mod policy;
mod collect;
mod confinement;
mod danger;
mod denied;
mod format;
mod limited;
mod needs;
mod directory;
mod error;
mod tool;
mod watch;
mod background;
mod capability;
pub(crate) mod settings;

use std::borrow::Cow;

use loopwright_sandbox::{Output, SandboxPolicy};

/// Returns notes that name what the sandbox denied a command: paths that it cannot use, and limits that it reached. Empty if the
/// command succeeded, or nothing in its output shows a denial.
pub fn denial_notes(output: &Output, policy: &SandboxPolicy) -> Vec<String> {
    let paths = denied::notes(output, policy).into_iter();
    paths.chain(limited::notes(output, policy)).collect()
}

/// Returns the captured text of a command: the beginning and the end of standard error, and those of standard output.
fn printed(output: &Output) -> [Cow<'_, str>; 4] {
    let Output { stdout, stderr, .. } = output;
    [&stderr.head, &stderr.tail, &stdout.head, &stdout.tail].map(|it| String::from_utf8_lossy(it))
}

#[cfg(test)]
pub(crate) use self::directory::DIRECTORY;
pub use self::{
    background::{BashRead, BashReadArgs, BashStart, BashStop, BashStopArgs, LastingCommands},
    capability::{Background, UseBash},
    collect::{Restored, command_originals, undo_command},
    danger::OnDangerousCommand,
    error::BashError,
    needs::NetworkUsed,
    policy::BashPolicy,
    tool::{Bash, BashArgs},
    watch::{OutputSink, OutputWatch},
};
