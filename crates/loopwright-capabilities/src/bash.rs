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
mod needs;
mod directory;
mod tool;
mod watch;
mod background;
mod capability;
pub(crate) mod settings;

#[cfg(test)]
pub(crate) use self::directory::DIRECTORY;
pub use self::{
    background::{BashRead, BashReadArgs, BashStart, BashStop, BashStopArgs, LastingCommands},
    capability::{Background, UseBash},
    collect::{Restored, command_originals, undo_command},
    danger::OnDangerousCommand,
    needs::NetworkUsed,
    policy::BashPolicy,
    tool::{Bash, BashArgs, BashError},
    watch::{OutputSink, OutputWatch},
};
