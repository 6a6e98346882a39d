//! The format of standard output.

use clap::ValueEnum;

use super::value::SettingValue;

/// What standard output carries; everything else goes to standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum OutputFormat {
    /// The answer as text, while it is written
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object per line for every event
    StreamJson,
    /// One readable line for every event, and the answer
    Events,
}

impl OutputFormat {
    /// Returns `true` if people read it; standard error then shows more.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Text | Self::Events)
    }
}

impl SettingValue for OutputFormat {
    const EXPECTED: &'static str = "`text`, `json`, `stream-json` or `events`";
    const EXAMPLE: &'static str = "\"json\"";

    fn from_text(text: &str) -> Option<Self> {
        Self::from_str(text, false).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_flag() {
        assert_eq!(OutputFormat::from_text("text"), Some(OutputFormat::Text));
        assert_eq!(OutputFormat::from_text("json"), Some(OutputFormat::Json));
        assert_eq!(OutputFormat::from_text("stream-json"), Some(OutputFormat::StreamJson));
        assert_eq!(OutputFormat::from_text("events"), Some(OutputFormat::Events));
        assert_eq!(OutputFormat::from_text("JSON"), None);
        assert_eq!(OutputFormat::from_text("yaml"), None);
    }
}
