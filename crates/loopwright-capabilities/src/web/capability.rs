//! The capability for web access.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use super::fetch::WebFetchTool;
use super::policy::WebPolicy;

/// Adds the tool `web_fetch`, which returns web pages as Markdown.
///
/// With it, the agent can reach every public host that permission rules, such as
/// `WebFetch(domain:example.com)`, do not deny.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseWeb(WebFetchTool);

impl UseWeb {
    /// Creates the capability with a policy.
    pub fn new(policy: WebPolicy) -> Self {
        Self(WebFetchTool::new(policy))
    }

    /// Creates the capability from a configured tool.
    pub fn from_tool(tool: WebFetchTool) -> Self {
        Self(tool)
    }
}

impl Capability for UseWeb {
    fn name(&self) -> Cow<'static, str> {
        "use_web".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(self.0.clone());
        Ok(())
    }
}
