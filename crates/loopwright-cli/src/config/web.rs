//! The service that searches the web.

use std::fmt;

use super::value::SettingValue;
use super::{BaseUrl, ModelRef};

/// The service that searches the web.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchSetting {
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// A server of `SearXNG` at this base URL.
    SearXng(BaseUrl),
    /// This model, whose provider searches.
    Model(ModelRef),
}

impl SettingValue for SearchSetting {
    const EXPECTED: &'static str =
        "`brave`, `tavily`, the base URL of a SearXNG server, or PROVIDER/MODEL";
    const EXAMPLE: &'static str = "\"brave\"";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "brave" => Some(Self::Brave),
            "tavily" => Some(Self::Tavily),
            text if text.contains("://") => BaseUrl::from_text(text).map(Self::SearXng),
            model => ModelRef::from_text(model).map(Self::Model),
        }
    }
}

impl fmt::Display for SearchSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brave => f.write_str("brave"),
            Self::Tavily => f.write_str("tavily"),
            Self::SearXng(url) => url.fmt(f),
            Self::Model(model) => model.fmt(f),
        }
    }
}
