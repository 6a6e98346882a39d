//! The tools of an agent.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use loopwright_messages::{ToolCall, ToolSpecs};

use crate::{
    file_changes::Writes,
    tool::{AnyTool, IntoTool},
};

/// Tools by name, in the order their names were first added. Cheap to clone.
///
/// ```
/// use loopwright_core::{BoxError, NoArgs, ToolSet, tool_fn};
///
/// let tools = ToolSet::new()
///     .with(tool_fn("ping", "Answers.", |_: NoArgs| async { Ok::<_, BoxError>("pong") }))
///     .with(tool_fn("now", "Returns the time.", |_: NoArgs| async { Ok::<_, BoxError>("12:00") }));
/// assert_eq!(tools.filter(|tool| &**tool.name() != "now").len(), 1);
/// ```
#[derive(Clone, Default)]
pub struct ToolSet(Arc<Inner>);

#[derive(Clone, Default)]
struct Inner {
    tools: Vec<AnyTool>,
    places: HashMap<Arc<str>, usize>,
    specs: OnceLock<ToolSpecs>,
    names: OnceLock<Arc<[Arc<str>]>>,
}

impl ToolSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, or replaces the one with the same name.
    pub fn add(&mut self, tool: impl IntoTool) {
        let tool = tool.into_tool();
        let inner = Arc::make_mut(&mut self.0);
        (inner.specs, inner.names) = (OnceLock::new(), OnceLock::new());
        if let Some(place) = inner.places.get(tool.name()) {
            inner.tools[*place] = tool;
        } else {
            inner.places.insert(Arc::clone(tool.name()), inner.tools.len());
            inner.tools.push(tool);
        }
    }

    /// Adds a tool.
    #[must_use]
    pub fn with(mut self, tool: impl IntoTool) -> Self {
        self.add(tool);
        self
    }

    /// Adds all tools of another set, which replace those with the same names.
    pub fn merge(&mut self, other: &Self) {
        other.iter().cloned().for_each(|tool| self.add(tool));
    }

    /// Keeps only the tools that the test accepts.
    #[must_use]
    pub fn filter(&self, keep: impl Fn(&AnyTool) -> bool) -> Self {
        self.iter().filter(|tool| keep(tool)).cloned().collect()
    }

    /// Returns the tool with that name.
    pub fn get(&self, name: &str) -> Option<&AnyTool> {
        // Few names are sooner compared than hashed.
        if self.len() <= 8 {
            return self.iter().find(|tool| &**tool.name() == name);
        }
        self.0.places.get(name).map(|place| &self.0.tools[*place])
    }

    /// Returns the files that a call can write, without running it. Calls of unknown tools write
    /// nothing, because they do not run.
    pub fn writes(&self, call: &ToolCall) -> Writes {
        let Some(tool) = self.get(&call.name) else { return Writes::Nothing };
        call.parse_arguments().map_or(Writes::Unknown, |arguments| tool.writes(&arguments))
    }

    /// Returns the tools, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &AnyTool> {
        self.0.tools.iter()
    }

    /// Returns the names, in order. The list is built once.
    pub fn names(&self) -> &Arc<[Arc<str>]> {
        self.0.names.get_or_init(|| self.iter().map(|tool| Arc::clone(tool.name())).collect())
    }

    /// Returns the specifications that a model sees, in order. The list is built once and shared by
    /// all requests.
    pub fn specs(&self) -> &ToolSpecs {
        self.0.specs.get_or_init(|| self.iter().map(|tool| tool.spec().clone()).collect())
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.0.tools.len()
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.tools.is_empty()
    }
}

impl<T: IntoTool> FromIterator<T> for ToolSet {
    fn from_iter<I: IntoIterator<Item = T>>(tools: I) -> Self {
        tools.into_iter().fold(Self::new(), Self::with)
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.tools.iter().map(AnyTool::name)).finish()
    }
}
