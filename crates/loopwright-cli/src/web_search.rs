//! The service that searches the web for agents.

use loopwright_capabilities::web::{SearchService, WebSearchTool};
use loopwright_models::Secret;

use crate::config::{Config, ConfigSources, SearchSetting};
use crate::console;

/// Returns the tool with the configured service. Warns if the key of the service is missing.
pub(crate) fn tool(config: &Config, sources: &ConfigSources) -> Option<WebSearchTool> {
    let key = |variable: &str| {
        let key = sources.environment.get(variable).and_then(|it| it.to_str());
        let key = key.filter(|it| !it.is_empty()).map(Secret::new);
        if key.is_none() {
            console::warn(&format!("`web_search` is not available: set {variable}"));
        }
        key
    };
    let service = match &config.web_search.as_ref()?.value {
        SearchSetting::Brave => SearchService::brave(key("BRAVE_API_KEY")?),
        SearchSetting::Tavily => SearchService::tavily(key("TAVILY_API_KEY")?),
        SearchSetting::SearXng(url) => SearchService::searxng(url.as_str().parse().ok()?),
    };
    Some(WebSearchTool::new(service))
}
