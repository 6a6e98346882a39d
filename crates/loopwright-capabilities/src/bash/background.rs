//! Background commands.

mod shells;
mod tools;

pub use self::shells::LastingCommands;
pub(super) use self::tools::tools;
pub use self::tools::{BashRead, BashReadArgs, BashStart, BashStop, BashStopArgs};
