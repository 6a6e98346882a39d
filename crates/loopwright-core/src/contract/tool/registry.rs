//! A registry of tools by name, created on demand.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use crate::tool::{AnyTool, IntoTool, ToolSet};

/// Tools by name, created on demand.
///
/// A registry only stores tools. The tools that an agent can call are its [`ToolSet`].
///
/// ```
/// use loopwright_core::{BoxError, NoArgs, ToolRegistry, tool_fn};
///
/// let mut tools = ToolRegistry::new();
/// tools.register(tool_fn("ping", "Answers.", |_: NoArgs| async { Ok::<_, BoxError>("pong") }));
/// assert_eq!(&**tools.get("ping")?.name(), "ping");
/// assert!(tools.get("pong").is_err());
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Clone, Default)]
pub struct ToolRegistry {
    instances: ToolSet,
    factories: BTreeMap<Arc<str>, Arc<Lazy>>,
}

struct Lazy {
    make: Box<dyn Fn() -> AnyTool + Send + Sync>,
    made: OnceLock<AnyTool>,
}

/// An unknown tool name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool `{name}`; available: {known}")]
pub struct RegistryError {
    /// The name.
    pub name: String,
    /// The known names.
    pub known: String,
}

impl ToolRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool under its own name.
    pub fn register(&mut self, tool: impl IntoTool) {
        self.instances.add(tool);
    }

    /// Adds a factory of a tool. The tool is created on the first request and then kept.
    pub fn register_factory<T: IntoTool>(
        &mut self,
        name: impl Into<Arc<str>>,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) {
        let make = Box::new(move || make().into_tool());
        self.factories.insert(name.into(), Arc::new(Lazy { make, made: OnceLock::new() }));
    }

    /// Returns a tool. A tool that was added directly takes precedence over a factory.
    ///
    /// # Errors
    ///
    /// Returns an error that lists the known names if the name is unknown.
    pub fn get(&self, name: &str) -> Result<AnyTool, RegistryError> {
        let made = || self.factories.get(name).map(|lazy| lazy.made.get_or_init(&lazy.make));
        self.instances.get(name).or_else(made).cloned().ok_or_else(|| RegistryError {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns `true` if the name is known.
    pub fn contains(&self, name: &str) -> bool {
        self.instances.get(name).is_some() || self.factories.contains_key(name)
    }

    /// Returns the names: first those of factories in alphabetical order, then the others.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let instances = self.instances.iter().map(|tool| &**tool.name());
        let new = |name: &&str| !self.factories.contains_key(*name);
        self.factories.keys().map(|name| &**name).chain(instances.filter(new))
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// Returns `true` if the registry is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all tools, and creates those that do not exist yet.
    pub fn all(&self) -> ToolSet {
        self.names().filter_map(|name| self.get(name).ok()).collect()
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
