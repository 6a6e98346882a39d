//! The helper process and what it does, on Linux.
//!
//! | module | holds |
//! |---|---|
//! | [`helper`], [`start`], [`supervisor`], [`cover_watch`] | the process outside the sandbox |
//! | [`fs_view`], [`covers`] | the file system that a command sees |
//! | [`namespaces`], [`root`], [`overlay`], [`layers`], [`init_process`], [`stage`] | the namespaces, their root and their first process |
//! | [`bubblewrap`], [`container`] | other programs that create a sandbox |
//! | [`confine`], [`filter`], [`share`] | the last steps before the command starts |
//! | [`process_tree`], [`held`], [`account`], [`cgroup`] | resource usage and termination of a command |
//! | [`quarantine`], [`guarantees`] | cleanup, and the resulting guarantees |
//! | [`sys`] | system calls without a safe interface |

pub(crate) mod account;
pub(crate) mod bubblewrap;
pub(crate) mod cgroup;
pub(crate) mod confine;
pub(crate) mod container;
mod cover_watch;
mod covers;
pub(crate) mod guarantees;
pub(crate) mod filter;
pub(crate) mod gate;
pub(crate) mod init_process;
pub(crate) mod held;
mod kept;
pub(crate) mod layers;
pub(crate) mod helper;
pub(crate) mod namespaces;
pub(crate) mod overlay;
pub(crate) mod quarantine;
pub(crate) mod root;
pub(crate) mod share;
pub(crate) mod stage;
pub(crate) mod start;
pub(crate) mod sys;
pub(crate) mod process_tree;
pub(crate) mod fs_view;
pub(crate) mod supervisor;
