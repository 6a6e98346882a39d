//! The service that searches the web.

use std::fmt;

use super::BaseUrl;
use super::value::SettingValue;

/// The service that searches the web.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchSetting {
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// A server of `SearXNG` at this base URL.
    SearXng(BaseUrl),
}

impl SettingValue for SearchSetting {
    const EXPECTED: &'static str = "`brave`, `tavily`, or the base URL of a SearXNG server";
    const EXAMPLE: &'static str = "\"brave\"";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "brave" => Some(Self::Brave),
            "tavily" => Some(Self::Tavily),
            url => BaseUrl::from_text(url).map(Self::SearXng),
        }
    }
}

impl fmt::Display for SearchSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brave => f.write_str("brave"),
            Self::Tavily => f.write_str("tavily"),
            Self::SearXng(url) => url.fmt(f),
        }
    }
}
