//! Functions that the macro accepts, and the names and lints around them.

mod crate_path;
// Public, so that lints about what others see apply to it.
pub mod lints;
// Public, so that a tool of it can be less private than what it returns.
pub mod outputs;
mod shadowed_names;
mod signatures;
