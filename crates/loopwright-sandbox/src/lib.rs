#![doc = include_str!("../README.md")]

#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the drivers for Linux use all of it")
)]
mod access;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the drivers for Linux use all of it")
)]
mod capture;
mod child;
mod command;
mod address;
mod domain;
mod driver;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the drivers for Linux use all of it")
)]
mod author;
mod broad;
mod copied_cache;
mod environment;
mod error;
mod fake;
mod guarantee;
mod machine;
mod output;
mod policy;
mod probe;
mod sandbox;
pub mod screen;
mod select;
pub mod toolchains;
mod withheld;

#[cfg(target_os = "linux")]
mod beneath;
#[cfg(target_os = "linux")]
mod home;
#[cfg(target_os = "linux")]
mod job;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod removal;
#[cfg(target_os = "linux")]
pub mod transaction;
#[cfg(target_os = "linux")]
mod uncopied;

pub use access::{NetworkAccess, NetworkOutcome};
pub use address::is_public_address;
pub use author::Author;
pub use broad::{BroadFolder, key_paths};
pub use capture::CapturedOutput;
pub use child::SandboxChild;
pub use command::{Command, Stdin};
pub use copied_cache::CopiedCache;
pub use domain::{AllowedDomain, InvalidDomain};
pub use driver::BackendSandbox;
pub use environment::{Environment, Inherit, is_secret_name};
pub use error::{SandboxError, Unavailable};
pub use fake::FakeSandbox;
pub use guarantee::{Enforcement, Guarantee, Guarantees};
pub use output::{ExitOutcome, Limit, Output, OutputStream, TimeoutKind};
pub use policy::{
    Backend, BackendChoice, BroadPaths, Cgroup, Limits, Network, OutputLimits, PROTECTED_PATHS,
    SandboxPolicy, Withheld, WorkdirAccess,
};
pub use sandbox::Sandbox;
pub use select::auto_select;
pub use withheld::{ResolvedPath, is_system_path};

/// Makes this program its own helper. Call it in the first line of `main`, before any thread
/// starts: a process that was started as the helper does not return from this call.
pub fn init() {
    #[cfg(target_os = "linux")]
    {
        if linux::helper::is_wanted() {
            linux::helper::main();
        }
        launch::set_helper("/proc/self/exe".into());
    }
}

/// Sets another program that calls [`init`] as the helper, for programs and plug-ins whose `main`
/// cannot be changed. The crate's own program `loopwright-sandbox-helper` is one. The first path
/// that was set remains in force.
pub fn set_helper_path(path: impl Into<std::path::PathBuf>) {
    #[cfg(target_os = "linux")]
    launch::set_helper(path.into());
    #[cfg(not(target_os = "linux"))]
    drop(path.into());
}
