//! Plain values: time, limits, accounts, endings, keys, changed files.

pub(crate) mod budget;
pub(crate) mod clock;
pub(crate) mod failure;
pub(crate) mod file_changes;
pub(crate) mod interrupted;
pub(crate) mod key;
pub(crate) mod llm;
pub(crate) mod meter;
pub(crate) mod on_ask;
pub(crate) mod shared;
pub(crate) mod stop;
