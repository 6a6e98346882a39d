//! Background commands.

mod shells;
mod tools;

pub(super) use self::tools::tools;
pub use self::tools::{BashRead, BashReadArgs, BashStart, BashStop, BashStopArgs};
