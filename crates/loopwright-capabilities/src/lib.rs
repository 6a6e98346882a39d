//! Ready-made tools and capabilities: files and commands, confined to one directory.
//!
//! | module | holds |
//! |---|---|
//! | [`files`] | reading, writing, editing, listing and searching files |
//! | [`bash`] | commands in a sandbox |
//! | [`coding`] | both together |
//!
//! Nothing here trusts the model: paths are walked by handles and never leave their directory, and
//! commands are confined by the kernel.

pub mod files;
pub mod bash;
pub mod coding;
