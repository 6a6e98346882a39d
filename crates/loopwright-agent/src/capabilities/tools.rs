//! Tools.

use std::{fmt, sync::Arc};

use loopwright_core::{IntoTool, ToolSet};

use crate::{
    capabilities::capability,
    capability::BuildError,
    configurator::{DeferredToolCx, DeferredTools},
};

/// Adds tools.
///
/// ```
/// use loopwright_agent::UseTools;
/// use loopwright_core::{BoxError, NoArgs, tool_fn};
///
/// let dice = tool_fn("roll_dice", "Rolls a die.", |_: NoArgs| async { Ok::<_, BoxError>(4) });
/// let tools = UseTools::new().with_tool(dice);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseTools(ToolSet);

impl UseTools {
    /// Creates an empty set of tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    pub fn with_tool(mut self, tool: impl IntoTool) -> Self {
        self.0.add(tool);
        self
    }
}

impl From<ToolSet> for UseTools {
    fn from(tools: ToolSet) -> Self {
        Self(tools)
    }
}

capability!(UseTools, "use_tools", |it, agent| {
    agent.tools.merge(&it.0);
});

/// Adds tools that are created after the driver and the other tools.
#[derive(Clone)]
pub struct UseToolFactory(Arc<dyn DeferredTools>);

impl UseToolFactory {
    /// Creates one tool.
    pub fn new<T: IntoTool>(
        make: impl Fn(&DeferredToolCx<'_>) -> Result<T, BuildError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(make))
    }

    /// Creates any number of tools.
    pub fn of(tools: Arc<dyn DeferredTools>) -> Self {
        Self(tools)
    }
}

capability!(UseToolFactory, "use_tool_factory", |it, agent| {
    agent.tools.defer(Arc::clone(&it.0));
});

impl fmt::Debug for UseToolFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UseToolFactory")
    }
}
