//! Finding a session, and errors of operations on it.

mod error;
mod find;
mod waiting;

use loopwright_core::Timestamp;

pub use self::error::SessionsError;
pub(crate) use self::error::is_for_session;
pub(crate) use self::find::all;
pub use self::find::{find, latest, short};
pub(crate) use self::waiting::{address, decisions, decisions_of, kind, waiting_call};

/// Returns the time of this machine.
pub(crate) fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}
