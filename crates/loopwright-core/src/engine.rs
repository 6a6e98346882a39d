//! The engine: runs states through the contracts.

pub(crate) mod agent_loop;
pub(crate) mod decide;
pub(crate) mod driver;
pub(crate) mod executor;
pub(crate) mod infer;
pub(crate) mod interceptor;
pub(crate) mod reply;
pub(crate) mod run;
pub(crate) mod trace;
