//! What agents are composed of.

use std::borrow::Cow;

use loopwright_core::BoxError;

use crate::configurator::Configurator;

/// A feature of an agent: tools, hooks, prompt fragments, or any of it together.
///
/// A capability depends neither on the builder nor on other capabilities: it only adds to the
/// channels of the [`Configurator`] it is handed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a capability",
    note = "wrap a tool in `UseTools`, a hook in `UseHook`, a driver in `UseDriver`, or implement `Capability`"
)]
pub trait Capability: Send + Sync {
    /// Names the capability in registries, definitions and errors.
    fn name(&self) -> Cow<'static, str>;

    /// Adds what the capability is made of. Called once for each build.
    ///
    /// # Errors
    ///
    /// If the capability cannot work as it was set up; the error names the remedy.
    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError>;
}

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nothing makes answers.
    #[error("the agent has no driver; add `UseLlmConfig` with a model, or `UseDriver`")]
    NoDriver,
    /// A capability cannot work as it was set up.
    #[error("capability `{capability}` cannot be used: {reason}")]
    Capability {
        /// The capability's name.
        capability: Cow<'static, str>,
        /// What is wrong and what to do.
        reason: String,
        /// What lies beneath.
        #[source]
        source: Option<BoxError>,
    },
    /// A name is not known.
    #[error("unknown {kind} `{name}`; available: {known}")]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
}

impl BuildError {
    /// Says that a capability cannot work as it was set up.
    pub fn capability(name: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self::Capability { capability: name.into(), reason: reason.into(), source: None }
    }
}
