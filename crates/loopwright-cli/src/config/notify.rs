//! Settings of notifications about waiting runs.

use toml::Value;

use super::base_url::BaseUrl;
use super::origin::Setting;
use super::value::{Mismatch, SettingValue};

/// The keys of the table `notify`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotifySettings {
    /// `notify.command`
    pub command: Option<Setting<CommandLine>>,
    /// `notify.webhook`
    pub webhook: Option<Setting<BaseUrl>>,
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// Returns the program and its arguments.
    pub fn words(&self) -> (&str, &[String]) {
        self.0.split_first().map_or(("", &[]), |(program, arguments)| (program, arguments))
    }
}

impl SettingValue for CommandLine {
    const EXPECTED: &'static str = "an array with a program and its arguments";
    const EXAMPLE: &'static str =
        "[\"notify-send\", \"Loopwright\", \"The agent is waiting for you.\"]";

    fn from_text(text: &str) -> Option<Self> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(Self(words))
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let words = value.as_array().ok_or(Mismatch::Type)?.iter();
        let words = words.map(|it| it.as_str().map(str::to_owned).ok_or(Mismatch::Type));
        let words: Vec<String> = words.collect::<Result<_, _>>()?;
        let has_program = words.first().is_some_and(|it| !it.is_empty());
        has_program.then_some(Self(words)).ok_or(Mismatch::Value)
    }

    fn example() -> &'static str {
        "notify-send Loopwright"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_program_with_arguments() {
        let command = CommandLine::from_toml(&Value::from(vec!["say", "it waits"])).unwrap();
        assert_eq!(command.words(), ("say", &["it waits".to_owned()][..]));
        assert_eq!(CommandLine::from_toml(&Value::from("say")), Err(Mismatch::Type));
        assert_eq!(CommandLine::from_toml(&Value::from(vec![1])), Err(Mismatch::Type));
        assert_eq!(CommandLine::from_toml(&Value::from(vec![""])), Err(Mismatch::Value));
        assert_eq!(CommandLine::from_toml(&Value::Array(Vec::new())), Err(Mismatch::Value));
    }
}
