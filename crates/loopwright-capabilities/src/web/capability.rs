//! The web as a capability.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use super::fetch::WebFetchTool;
use super::policy::WebPolicy;

/// Adds the tool `web_fetch`, which gives pages of the web as Markdown.
///
/// The agent reaches every machine of the internet with it that the rules of permissions do not deny, such as
/// `WebFetch(domain:example.com)`.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseWeb(WebFetchTool);

impl UseWeb {
    /// Requests pages so.
    pub fn new(policy: WebPolicy) -> Self {
        Self(WebFetchTool::new(policy))
    }

    /// Requests pages as this tool does.
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
