//! Capabilities by name.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use crate::capability::{BuildError, Capability};

/// Capabilities by name, for definitions that name them.
#[derive(Default)]
pub struct CapabilityRegistry {
    instances: BTreeMap<String, Arc<dyn Capability>>,
    factories: BTreeMap<String, Lazy>,
    /// How capabilities are made of what a configuration says.
    makers: BTreeMap<String, Maker>,
}

type Maker = Arc<dyn Fn(&Value) -> Result<Arc<dyn Capability>, BuildError> + Send + Sync>;

/// A capability that a crate has on offer, as a constant: a binary lists what it was compiled with by
/// putting the lists of its crates together.
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
    /// Names it in definitions.
    pub name: &'static str,
    /// What it adds, in one sentence.
    pub summary: &'static str,
    make: fn(&Value) -> Result<Arc<dyn Capability>, BuildError>,
}

impl CapabilityEntry {
    /// Puts a capability on offer that is made of what a configuration says; null stands for nothing.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        make: fn(&Value) -> Result<Arc<dyn Capability>, BuildError>,
    ) -> Self {
        Self { name, summary, make }
    }

    /// Returns a capability that was made.
    ///
    /// # Errors
    ///
    /// Never: it is what a `make` ends with.
    pub fn boxed(capability: impl Capability + 'static) -> Result<Arc<dyn Capability>, BuildError> {
        Ok(Arc::new(capability))
    }

    /// Makes the capability.
    ///
    /// # Errors
    ///
    /// If the configuration does not fit.
    pub fn make(&self, config: &Value) -> Result<Arc<dyn Capability>, BuildError> {
        (self.make)(config)
    }
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
    #[error("unknown capability `{name}`; available: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// It takes no configuration.
    #[error("capability `{name}` accepts no configuration; configurable: {known}")]
    NotConfigurable {
        /// The name.
        name: String,
        /// The names of those that take one.
        known: String,
    },
    /// It could not be made.
    #[error("capability `{name}` could not be created")]
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
            CapabilityError::NotConfigurable { name, .. } => {
                Self::capability(name, "it takes no configuration")
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
        let (name, make) =
            (name.into(), Box::new(move || Ok(Arc::new(make()?) as Arc<dyn Capability>)));
        self.makers.remove(&name);
        self.factories.insert(name, Lazy { make, made: OnceLock::new() });
    }

    /// Adds a capability that is made of what a configuration says, each time anew. Where no
    /// configuration is given, it is made of null once, and then kept.
    pub fn register_with_config<C: Capability + 'static>(
        &mut self,
        name: impl Into<String>,
        make: impl Fn(&Value) -> Result<C, BuildError> + Send + Sync + 'static,
    ) {
        self.add_maker(name.into(), Arc::new(move |config| Ok(Arc::new(make(config)?))));
    }

    /// Adds what a crate has on offer. What is registered under such a name already stays.
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

    /// Makes a capability of what a configuration says.
    ///
    /// # Errors
    ///
    /// If there is none of that name that takes a configuration, or the configuration does not fit.
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

    /// Returns a capability; one that was added as it is wins over one that would have to be made.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it cannot be made.
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

    /// Returns `true` if there is a capability of that name.
    pub fn contains(&self, name: &str) -> bool {
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
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// Returns `true` if there is no capability.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for CapabilityRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
