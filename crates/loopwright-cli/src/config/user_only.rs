//! Settings that a project file cannot set.
//!
//! A project file comes with the repository, so its author speaks through it. It may say how
//! the work is done, never where prompts and keys go or what confines the commands that are run.

use std::fmt;
use std::path::Path;

use super::ConfigError;
use super::document::Section;

/// What a hostile repository could do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Prompts and keys would go to its server.
    Address,
    /// Secrets of the user would leave under its terms.
    Secret,
    /// Commands would run with fewer limits.
    Sandbox,
    /// Conversations would be kept where it likes.
    Store,
    /// More would be spent than is shown.
    Prices,
    /// More would be used than the user's account allows.
    Rate,
    /// Every agent would be composed otherwise.
    Capabilities,
    /// Its commands would run when a chat is open.
    Chat,
    /// Workers would work in more folders.
    Worker,
    /// Files of another program would allow calls.
    Permissions,
    /// A program of its choice would run, or a server of its choice would be told of your work.
    Notify,
}

const ANYWHERE: &[(&str, Reason)] = &[
    ("aliases", Reason::Capabilities),
    ("base_url", Reason::Address),
    ("capabilities", Reason::Capabilities),
    ("chat", Reason::Chat),
    ("store", Reason::Store),
    ("models", Reason::Prices),
    ("notify", Reason::Notify),
    ("remote_agents", Reason::Address),
    ("web", Reason::Address),
    ("worker", Reason::Worker),
];

const OF_PERMISSIONS: &[(&str, Reason)] = &[("claude", Reason::Permissions)];

const IN_A_PROVIDER: &[(&str, Reason)] = &[
    ("base_url", Reason::Address),
    ("headers", Reason::Secret),
    ("key", Reason::Secret),
    ("rate_limit", Reason::Rate),
];

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => {
                "a repository could send your prompts and keys to a server of its choice"
            }
            Self::Secret => "a repository could choose which of your secrets are sent",
            Self::Sandbox => "a repository could remove the limits on commands",
            Self::Store => "a repository could choose where your conversations are kept",
            Self::Prices => "a repository could hide what a run costs you",
            Self::Rate => "a repository could use up the quota of your account",
            Self::Capabilities => {
                "a repository could change what your agents do and what they cost"
            }
            Self::Notify => "a repository could run a program outside the sandbox",
            Self::Permissions => {
                "a repository could let the settings of another program allow calls"
            }
            Self::Chat => "a repository could run its commands while a chat is open",
            Self::Worker => {
                "a repository could let your worker work in other folders, or run other people's jobs"
            }
        })
    }
}

/// What it may say of the sandbox: more is hidden, and limits are lower.
const OF_THE_SANDBOX: &[&str] = &["hide", "memory", "processes", "timeout"];

/// Fails if the file decides something that is the user's; a value of the wrong type is not looked into.
pub(super) fn check(root: &Section<'_>, user_file: Option<&Path>) -> Result<(), ConfigError> {
    refuse(root, ANYWHERE, user_file)?;
    if let Ok(Some(sandbox)) = root.section("sandbox") {
        let others = sandbox.names().filter(|name| !OF_THE_SANDBOX.contains(name));
        let others: Vec<_> = others.map(|name| (name, Reason::Sandbox)).collect();
        refuse(&sandbox, &others, user_file)?;
    }
    if let Ok(Some(permissions)) = root.section("permissions") {
        refuse(&permissions, OF_PERMISSIONS, user_file)?;
    }
    let Ok(Some(providers)) = root.section("providers") else { return Ok(()) };
    for name in providers.names() {
        if let Ok(Some(provider)) = providers.section(name) {
            refuse(&provider, IN_A_PROVIDER, user_file)?;
        }
    }
    Ok(())
}

/// Returns `true` if a key is one of those, by its name with the tables that it is in.
pub(super) fn concerns(key: &str) -> bool {
    let mut parts = key.split('.');
    let (first, second, third) = (parts.next(), parts.next(), parts.next());
    let is_one = |keys: &[(&str, Reason)], part: Option<&str>| {
        keys.iter().any(|(name, _)| Some(*name) == part)
    };
    let is_of_sandbox =
        first == Some("sandbox") && second.is_none_or(|second| !OF_THE_SANDBOX.contains(&second));
    let is_of_permissions = first == Some("permissions") && is_one(OF_PERMISSIONS, second);
    is_one(ANYWHERE, first)
        || is_of_permissions
        || is_of_sandbox
        || (first == Some("providers") && is_one(IN_A_PROVIDER, third))
}

fn refuse(
    section: &Section<'_>,
    keys: &[(&str, Reason)],
    user_file: Option<&Path>,
) -> Result<(), ConfigError> {
    let Some((name, reason)) = keys.iter().find(|(name, _)| section.contains(name)) else {
        return Ok(());
    };
    Err(ConfigError::Refused {
        key: section.key(name),
        path: section.path(),
        reason: *reason,
        user_file: user_file.map(Path::to_path_buf),
    })
}
