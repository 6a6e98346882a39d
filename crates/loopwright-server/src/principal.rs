//! Principals.

use std::{fmt, sync::Arc};

use loopwright_sessions::{PrincipalTag, SessionId, SessionScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::PrincipalLimits;

/// The name of the principal of the user who started the server.
const LOCAL: &str = "local";

/// The sender of a request, with its role. Each session belongs to one principal.
///
/// The names of a principal's sessions end with its [tag](PrincipalTag). Those of the local user, who owns the session
/// store, have none: they are the sessions of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    name: Arc<str>,
    tag: Option<PrincipalTag>,
    role: Role,
    limits: PrincipalLimits,
}

/// The permissions of a principal. Each role includes those before it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read its own sessions.
    #[default]
    Read,
    /// Create, run, stop, fork, rewind and delete its own sessions.
    Run,
    /// Decide about tool calls that need approval.
    Approve,
    /// Read the metrics of the server.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Approve, Self::Admin];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Principal {
    /// Returns the principal of the user who started the server and owns its session store.
    pub fn local() -> Self {
        Self {
            name: LOCAL.into(),
            tag: None,
            role: Role::Admin,
            limits: PrincipalLimits::default(),
        }
    }

    /// Creates a principal. The name `local` stands for the local user.
    pub fn new(name: impl Into<Arc<str>>, role: Role) -> Self {
        let name = name.into();
        let tag = (&*name != LOCAL).then(|| PrincipalTag::of(&name));
        Self { name, tag, role, limits: PrincipalLimits::default() }
    }

    /// Sets its own limits, which replace those of the server.
    #[must_use]
    pub fn with_limits(self, limits: PrincipalLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns its own limits.
    pub fn limits(&self) -> PrincipalLimits {
        self.limits
    }

    /// Returns the end of the names of its sessions; `None` for the local user.
    pub(crate) fn tag(&self) -> Option<&PrincipalTag> {
        self.tag.as_ref()
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns `true` if it is the local user, whatever its role.
    pub fn is_local(&self) -> bool {
        self.tag.is_none()
    }

    /// Returns the sessions that belong to it.
    pub fn scope(&self) -> SessionScope {
        match &self.tag {
            Some(tag) => SessionScope::Tagged(tag.clone()),
            None => SessionScope::Untagged,
        }
    }

    /// Creates an ID for a new session of this principal.
    pub fn new_session_id(&self) -> SessionId {
        match &self.tag {
            Some(tag) => SessionId::generate_tagged(tag),
            None => SessionId::generate(),
        }
    }

    /// Creates an ID from a key, for a session of this principal; always the same one.
    pub fn derived_session_id(&self, key: &str) -> SessionId {
        SessionId::derived_tagged(self.tag.as_ref(), key)
    }
}
