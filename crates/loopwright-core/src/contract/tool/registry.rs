//! Tools by name, made when they are asked for.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use crate::tool::{AnyTool, IntoTool, ToolSet};

/// Tools that may be made when they are first asked for.
///
/// A registry only knows tools; what an agent may call is its [`ToolSet`].
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

/// There is no tool of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool `{name}`; available: {known}")]
pub struct RegistryError {
    /// The name.
    pub name: String,
    /// The names that there are.
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

    /// Adds a tool that is made when it is first asked for, and then kept.
    pub fn register_factory<T: IntoTool>(
        &mut self,
        name: impl Into<Arc<str>>,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) {
        let make = Box::new(move || make().into_tool());
        self.factories.insert(name.into(), Arc::new(Lazy { make, made: OnceLock::new() }));
    }

    /// Returns a tool; one that was added as it is wins over one that would have to be made.
    ///
    /// # Errors
    ///
    /// If there is no tool of that name; the error lists those that there are.
    pub fn get(&self, name: &str) -> Result<AnyTool, RegistryError> {
        let made = || self.factories.get(name).map(|lazy| lazy.made.get_or_init(&lazy.make));
        self.instances.get(name).or_else(made).cloned().ok_or_else(|| RegistryError {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns `true` if there is a tool of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.instances.get(name).is_some() || self.factories.contains_key(name)
    }

    /// Returns the names: first of tools that would have to be made, by name, then of the others.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let instances = self.instances.iter().map(|tool| &**tool.name());
        let new = |name: &&str| !self.factories.contains_key(*name);
        self.factories.keys().map(|name| &**name).chain(instances.filter(new))
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// Returns `true` if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all tools, making those that are not made yet.
    pub fn all(&self) -> ToolSet {
        self.names().filter_map(|name| self.get(name).ok()).collect()
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
