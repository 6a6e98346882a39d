//! Capabilities, from which agents are composed.

use std::{borrow::Cow, sync::Arc};

use loopwright_core::BoxError;

use crate::configurator::Configurator;

/// A feature of an agent: tools, hooks, prompt fragments, or a combination.
///
/// A capability depends neither on the builder nor on other capabilities: it only adds to the
/// channels of its [`Configurator`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a capability",
    note = "wrap a tool in `UseTools`, a hook in `UseHook`, a driver in `UseDriver`, or implement `Capability`"
)]
pub trait Capability: Send + Sync {
    /// Returns the name of the capability in registries, definitions and errors.
    fn name(&self) -> Cow<'static, str>;

    /// Adds the parts of the capability. Called once for each build.
    ///
    /// # Errors
    ///
    /// Returns an error with a remedy if the settings of the capability are invalid.
    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError>;
}

/// An agent that could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The agent has no driver.
    #[error("the agent has no driver; add `UseLlmConfig` with a model, or `UseDriver`")]
    NoDriver,
    /// The settings of a capability are invalid.
    #[error("capability `{capability}` cannot be used: {reason}")]
    Capability {
        /// The capability's name.
        capability: Cow<'static, str>,
        /// The problem and its remedy.
        reason: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
    /// A schema has a keyword that this build does not check.
    #[error(
        "the schema of tool `{tool}` has the keyword `{keyword}`, which this build does not check; enable the feature \
         `json-schema` of `loopwright`"
    )]
    UncheckedSchema {
        /// The tool's name.
        tool: Arc<str>,
        /// The keyword.
        keyword: String,
    },
    /// A name is unknown.
    #[error("unknown {kind} `{name}`; available: {known}")]
    Unknown {
        /// The kind of name.
        kind: &'static str,
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
}

impl BuildError {
    /// Creates an error about the settings of a capability.
    pub fn capability(name: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self::Capability { capability: name.into(), reason: reason.into(), source: None }
    }
}
