//! The effects of a command text, by simple command.

mod analysis;
mod cwd;
mod files;
mod opaque;
mod part;
mod pattern;
mod sed;
mod wrapper;

pub(crate) use analysis::analyse;
pub(crate) use opaque::is_opaque_prefix;
pub(crate) use part::{Analysis, Part, PathUse};
pub(crate) use pattern::{CommandPattern, Match, PatternKind, SEPARATOR};
pub(crate) use wrapper::is_wrapper;
