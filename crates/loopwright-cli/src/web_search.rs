//! The service or the model that searches the web for agents.

use std::sync::Arc;

use loopwright_agent::UseTools;
use loopwright_capabilities::web::{ModelSearchTool, ProviderSearch, SearchService, WebSearchTool};
use loopwright_core::LlmConfig;
use loopwright_models::Secret;

use crate::config::{Config, ConfigSources, ModelRef, SearchSetting};
use crate::console;
use crate::model;
use crate::render::sanitize_terminal;

/// The tool `web_search`.
#[derive(Clone, Debug)]
pub(crate) enum SearchTool {
    Service(WebSearchTool),
    Model(ModelSearchTool),
}

impl SearchTool {
    /// Returns the capability that adds the tool.
    pub(crate) fn capability(&self) -> UseTools {
        match self {
            Self::Service(tool) => UseTools::new().with_tool(tool.clone()),
            Self::Model(tool) => UseTools::new().with_tool(tool.clone()),
        }
    }
}

/// Returns the configured tool. Warns if it cannot work.
pub(crate) fn tool(config: &Config, sources: &ConfigSources) -> Option<SearchTool> {
    let key = |variable: &str| {
        let key = sources.environment.get(variable).and_then(|it| it.to_str());
        let key = key.filter(|it| !it.is_empty()).map(Secret::new);
        if key.is_none() {
            console::warn(&format!("`web_search` is not available; set {variable}"));
        }
        key
    };
    let service = match &config.web_search.as_ref()?.value {
        SearchSetting::Brave => SearchService::brave(key("BRAVE_API_KEY")?),
        SearchSetting::Tavily => SearchService::tavily(key("TAVILY_API_KEY")?),
        SearchSetting::SearXng(url) => SearchService::searxng(url.as_str().parse().ok()?),
        SearchSetting::Model(name) => return of_model(name, config, sources),
    };
    Some(SearchTool::Service(WebSearchTool::new(service)))
}

/// Returns the tool with a model whose provider searches. No other model takes its place.
fn of_model(name: &ModelRef, config: &Config, sources: &ConfigSources) -> Option<SearchTool> {
    let unavailable = |reason: &str| {
        console::warn(&sanitize_terminal(&format!("`web_search` is not available: {reason}")));
        None
    };
    let providers = match model::providers(config, sources) {
        Ok(providers) => providers.with_fallback([]),
        Err(error) => return unavailable(&error.to_string()),
    };
    let llm = LlmConfig::named(&name.to_string());
    if let Err(error) = providers.check(Some(&llm)) {
        return unavailable(&error.to_string());
    }
    let wire = providers.provider(name.provider()).ok().map(|it| it.wire);
    let Some(search) = wire.and_then(ProviderSearch::of) else {
        let provider = name.provider();
        return unavailable(&format!(
            "the API of `{provider}` has no web search; choose a model of `anthropic`, `openai-responses` or `gemini`"
        ));
    };
    Some(SearchTool::Model(ModelSearchTool::new(Arc::new(providers), llm, search)))
}
