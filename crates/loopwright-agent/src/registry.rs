//! Capabilities by name.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use crate::capability::{BuildError, Capability};

/// Capabilities by name, for definitions that name them.
#[derive(Default)]
pub struct CapabilityRegistry {
    instances: BTreeMap<String, Arc<dyn Capability>>,
    factories: BTreeMap<String, Lazy>,
}

struct Lazy {
    make: Box<dyn Fn() -> Result<Arc<dyn Capability>, BuildError> + Send + Sync>,
    made: OnceLock<Arc<dyn Capability>>,
}

/// Why there is no such capability.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// None has that name.
    #[error("there is no capability named `{name}`; known are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// It could not be made.
    #[error("capability `{name}` could not be made")]
    Factory {
        /// The name.
        name: String,
        /// Why.
        #[source]
        source: BuildError,
    },
}

impl From<CapabilityError> for BuildError {
    fn from(error: CapabilityError) -> Self {
        match error {
            CapabilityError::Unknown { name, known } => {
                Self::Unknown { kind: "capability", name, known }
            }
            CapabilityError::Factory { source, .. } => source,
        }
    }
}

impl CapabilityRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a capability under a name, which need not be its own.
    pub fn register(&mut self, name: impl Into<String>, capability: impl Capability + 'static) {
        self.instances.insert(name.into(), Arc::new(capability));
    }

    /// Adds a capability that is made when it is first asked for, and then kept.
    pub fn register_factory<C: Capability + 'static>(
        &mut self,
        name: impl Into<String>,
        make: impl Fn() -> Result<C, BuildError> + Send + Sync + 'static,
    ) {
        let make = Box::new(move || Ok(Arc::new(make()?) as Arc<dyn Capability>));
        self.factories.insert(name.into(), Lazy { make, made: OnceLock::new() });
    }

    /// Returns a capability; one that was added as it is wins over one that would have to be made.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it cannot be made.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Capability>, CapabilityError> {
        if let Some(capability) = self.instances.get(name) {
            return Ok(Arc::clone(capability));
        }
        let lazy = self.factories.get(name).ok_or_else(|| CapabilityError::Unknown {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })?;
        if let Some(made) = lazy.made.get() {
            return Ok(Arc::clone(made));
        }
        let made = (lazy.make)()
            .map_err(|source| CapabilityError::Factory { name: name.to_owned(), source })?;
        Ok(Arc::clone(lazy.made.get_or_init(|| made)))
    }

    /// Tells whether there is a capability of that name.
    pub fn has(&self, name: &str) -> bool {
        self.instances.contains_key(name) || self.factories.contains_key(name)
    }

    /// Returns the names: first of those that would have to be made, then of the others.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let new = |name: &&String| !self.factories.contains_key(*name);
        self.factories.keys().chain(self.instances.keys().filter(new)).map(String::as_str)
    }

    /// Returns all capabilities that can be made.
    pub fn all(&self) -> Vec<Arc<dyn Capability>> {
        self.names().filter_map(|name| self.get(name).ok()).collect()
    }

    /// Returns the number of capabilities.
    pub fn count(&self) -> usize {
        self.names().count()
    }
}

impl fmt::Debug for CapabilityRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
