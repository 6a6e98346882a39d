//! Option values in the types of the configuration.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};

use crate::config::{BaseUrl, SettingValue, Text};

/// Parses a value or reports what was expected; clap adds the option and the input.
pub(super) fn parsed<T: SettingValue>(text: &str) -> Result<T, String> {
    T::from_text(text).ok_or_else(|| format!("must be {}, such as `{}`", T::EXPECTED, T::example()))
}

/// Parses a base URL without echoing an invalid one, which may contain a password.
#[derive(Clone, Copy, Debug)]
pub(super) struct BaseUrlParser;

/// Parses a session store URL without echoing an invalid one.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreParser;

impl TypedValueParser for BaseUrlParser {
    type Value = BaseUrl;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<BaseUrl, clap::Error> {
        unrepeated(command, "--base-url <URL>", value)
    }
}

impl TypedValueParser for StoreParser {
    type Value = Text;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Text, clap::Error> {
        unrepeated(command, "--store <URL>", value)
    }
}

fn unrepeated<T: SettingValue>(
    command: &Command,
    option: &str,
    value: &OsStr,
) -> Result<T, clap::Error> {
    value.to_str().ok_or_else(String::new).and_then(parsed).map_err(|problem| {
        let message = format!("invalid value for '{option}': {problem}");
        command.clone().error(ErrorKind::ValueValidation, message)
    })
}
