//! The second layer: the environment variables of the program.

use loopwright_permissions::Mode;

use super::layer::Layer;
use super::value::SettingValue;
use super::{
    ConfigError, ConfigSources, Limits, Origin, PermissionSettings, RestateSettings, SessionLimits,
    Setting,
};

impl Layer {
    /// Reads the variables that are set and not empty.
    pub(super) fn from_environment(sources: &ConfigSources) -> Result<Self, ConfigError> {
        Ok(Self {
            model: variable(sources, "LOOPWRIGHT_MODEL")?,
            fallback: variable(sources, "LOOPWRIGHT_FALLBACK")?,
            base_url: variable(sources, "LOOPWRIGHT_BASE_URL")?,
            system_prompt: variable(sources, "LOOPWRIGHT_SYSTEM_PROMPT")?,
            output_format: variable(sources, "LOOPWRIGHT_OUTPUT_FORMAT")?,
            limits: Limits {
                steps: variable(sources, "LOOPWRIGHT_MAX_STEPS")?,
                tokens: variable(sources, "LOOPWRIGHT_MAX_TOKENS")?,
                seconds: variable(sources, "LOOPWRIGHT_MAX_SECONDS")?,
                cost: variable(sources, "LOOPWRIGHT_MAX_COST")?,
                session: SessionLimits {
                    steps: variable(sources, "LOOPWRIGHT_MAX_SESSION_STEPS")?,
                    tokens: variable(sources, "LOOPWRIGHT_MAX_SESSION_TOKENS")?,
                    seconds: variable(sources, "LOOPWRIGHT_MAX_SESSION_SECONDS")?,
                    cost: variable(sources, "LOOPWRIGHT_MAX_SESSION_COST")?,
                },
            },
            permissions: PermissionSettings {
                mode: mode(sources, "LOOPWRIGHT_PERMISSION_MODE")?,
                ..PermissionSettings::default()
            },
            store_url: variable(sources, "LOOPWRIGHT_STORE")?,
            restate: RestateSettings {
                url: variable(sources, "LOOPWRIGHT_RESTATE")?,
                ..RestateSettings::default()
            },
            ..Self::default()
        })
    }
}

/// Reads a permission mode. Running without confinement has to be typed.
fn mode(sources: &ConfigSources, name: &'static str) -> Result<Option<Setting<Mode>>, ConfigError> {
    match variable(sources, name)? {
        Some(Setting { value: Mode::Unconfined, .. }) => Err(ConfigError::Unconfined { name }),
        mode => Ok(mode),
    }
}

fn variable<T: SettingValue>(
    sources: &ConfigSources,
    name: &'static str,
) -> Result<Option<Setting<T>>, ConfigError> {
    let Some(text) = sources.variable(name) else { return Ok(None) };
    let value = text.to_str().and_then(T::from_text);
    let error = ConfigError::Variable { name, expected: T::EXPECTED, example: T::example() };
    value.map(|value| Some(Setting::new(value, Origin::Env(name)))).ok_or(error)
}
