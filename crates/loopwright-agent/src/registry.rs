//! The registry of capabilities.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use crate::capability::{BuildError, Capability};

/// Capabilities by name, for definitions.
#[derive(Default)]
pub struct CapabilityRegistry {
    instances: BTreeMap<String, Arc<dyn Capability>>,
    factories: BTreeMap<String, Lazy>,
    /// The functions that create capabilities from a configuration.
    makers: BTreeMap<String, Maker>,
}

type Maker = Arc<dyn Fn(&Value) -> Result<Arc<dyn Capability>, BuildError> + Send + Sync>;

/// A capability that a crate provides, as a constant. A binary concatenates the lists of its
/// crates.
///
/// ```
/// use loopwright_agent::{CapabilityEntry, CapabilityRegistry, UseGuards};
/// use loopwright_core::Budget;
/// use serde_json::json;
///
/// const ENTRIES: &[CapabilityEntry] =
///     &[CapabilityEntry::new("steps", "Ends runs after so many steps.", |config| {
///         let steps = config["max"].as_u64().and_then(|max| u32::try_from(max).ok()).unwrap_or(50);
///         CapabilityEntry::boxed(UseGuards::new(Budget::unlimited().with_steps(steps)))
///     })];
///
/// let mut registry = CapabilityRegistry::new();
/// registry.register_all(ENTRIES);
/// let capability = registry.configured("steps", &json!({ "max": 3 }))?;
/// assert_eq!(capability.name(), "use_guards");
/// # Ok::<_, loopwright_agent::CapabilityError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CapabilityEntry {
    /// The name in definitions.
    pub name: &'static str,
    /// The description, in one sentence.
    pub summary: &'static str,
    make: fn(&Value) -> Result<Arc<dyn Capability>, BuildError>,
}

impl CapabilityEntry {
    /// Creates an entry for a capability with a configuration; `null` means no configuration.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        make: fn(&Value) -> Result<Arc<dyn Capability>, BuildError>,
    ) -> Self {
        Self { name, summary, make }
    }

    /// Wraps a capability as the result of a `make` function.
    ///
    /// # Errors
    ///
    /// Never. The result type is that of a `make` function.
    pub fn boxed(capability: impl Capability + 'static) -> Result<Arc<dyn Capability>, BuildError> {
        Ok(Arc::new(capability))
    }

    /// Creates the capability.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration does not match.
    pub fn make(&self, config: &Value) -> Result<Arc<dyn Capability>, BuildError> {
        (self.make)(config)
    }
}

struct Lazy {
    make: Box<dyn Fn() -> Result<Arc<dyn Capability>, BuildError> + Send + Sync>,
    made: OnceLock<Arc<dyn Capability>>,
}

/// A capability that could not be returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// The name is unknown.
    #[error("unknown capability `{name}`; available: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The capability takes no configuration.
    #[error("capability `{name}` accepts no configuration; configurable: {known}")]
    NotConfigurable {
        /// The name.
        name: String,
        /// The names of those that take one.
        known: String,
    },
    /// The capability could not be created.
    #[error("capability `{name}` could not be created")]
    Factory {
        /// The name.
        name: String,
        /// The cause.
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
            CapabilityError::NotConfigurable { name, .. } => {
                Self::capability(name, "the capability accepts no configuration")
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

    /// Adds a capability under a name, which can differ from its own.
    pub fn register(&mut self, name: impl Into<String>, capability: impl Capability + 'static) {
        self.instances.insert(name.into(), Arc::new(capability));
    }

    /// Adds a factory of a capability. The capability is created on the first request and then
    /// kept.
    pub fn register_factory<C: Capability + 'static>(
        &mut self,
        name: impl Into<String>,
        make: impl Fn() -> Result<C, BuildError> + Send + Sync + 'static,
    ) {
        let (name, make) =
            (name.into(), Box::new(move || Ok(Arc::new(make()?) as Arc<dyn Capability>)));
        self.makers.remove(&name);
        self.factories.insert(name, Lazy { make, made: OnceLock::new() });
    }

    /// Adds a capability that is created from a configuration each time. Without a configuration,
    /// it is created from `null` once, and then kept.
    pub fn register_with_config<C: Capability + 'static>(
        &mut self,
        name: impl Into<String>,
        make: impl Fn(&Value) -> Result<C, BuildError> + Send + Sync + 'static,
    ) {
        self.add_maker(name.into(), Arc::new(move |config| Ok(Arc::new(make(config)?))));
    }

    /// Adds the entries of a crate. Names that are already registered keep their capabilities.
    pub fn register_all(&mut self, entries: &[CapabilityEntry]) {
        for entry in
            entries.iter().copied().filter(|it| !self.contains(it.name)).collect::<Vec<_>>()
        {
            self.add_maker(entry.name.to_owned(), Arc::new(move |config| entry.make(config)));
        }
    }

    fn add_maker(&mut self, name: String, maker: Maker) {
        let unconfigured = Arc::clone(&maker);
        let make = Box::new(move || unconfigured(&Value::Null));
        self.factories.insert(name.clone(), Lazy { make, made: OnceLock::new() });
        self.makers.insert(name, maker);
    }

    /// Creates a capability from a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is unknown or takes no configuration, or if the configuration
    /// does not match.
    pub fn configured(
        &self,
        name: &str,
        config: &Value,
    ) -> Result<Arc<dyn Capability>, CapabilityError> {
        if config.is_null() {
            return self.get(name);
        }
        let Some(maker) = self.makers.get(name) else {
            let known = self.makers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let not_configurable =
                CapabilityError::NotConfigurable { name: name.to_owned(), known };
            return Err(if self.contains(name) { not_configurable } else { self.unknown(name) });
        };
        maker(config).map_err(|source| CapabilityError::Factory { name: name.to_owned(), source })
    }

    fn unknown(&self, name: &str) -> CapabilityError {
        CapabilityError::Unknown {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns a capability. One that was added directly takes precedence over a factory.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is unknown, or the capability cannot be created.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Capability>, CapabilityError> {
        if let Some(capability) = self.instances.get(name) {
            return Ok(Arc::clone(capability));
        }
        let lazy = self.factories.get(name).ok_or_else(|| self.unknown(name))?;
        if let Some(made) = lazy.made.get() {
            return Ok(Arc::clone(made));
        }
        let made = (lazy.make)()
            .map_err(|source| CapabilityError::Factory { name: name.to_owned(), source })?;
        Ok(Arc::clone(lazy.made.get_or_init(|| made)))
    }

    /// Returns `true` if the name is known.
    pub fn contains(&self, name: &str) -> bool {
        self.instances.contains_key(name) || self.factories.contains_key(name)
    }

    /// Returns the names: first those of factories, then the others.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let new = |name: &&String| !self.factories.contains_key(*name);
        self.factories.keys().chain(self.instances.keys().filter(new)).map(String::as_str)
    }

    /// Returns all capabilities that can be created.
    pub fn all(&self) -> Vec<Arc<dyn Capability>> {
        self.names().filter_map(|name| self.get(name).ok()).collect()
    }

    /// Returns the number of capabilities.
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// Returns `true` if the registry is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for CapabilityRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
