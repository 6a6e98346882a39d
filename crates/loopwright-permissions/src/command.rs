//! The effects of a command text, by simple command.

mod analysis;
mod cwd;
mod files;
mod opaque;
mod part;
mod pattern;
mod programs;
mod risk;
mod sed;
mod wrapper;

pub(crate) use analysis::analyse;
pub(crate) use cwd::Cwd;
pub(crate) use opaque::is_opaque_prefix;
pub(crate) use part::{Analysis, Part, PathUse, Scope};
pub(crate) use pattern::{CommandPattern, Match, PatternKind, SEPARATOR};
pub(crate) use risk::{Risk, ends_with_risk};
pub(crate) use wrapper::{is_runner, is_wrapper};
