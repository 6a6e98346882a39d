//! The configuration for a command line.

use std::path::Path;

use crate::args::Cli;
use crate::claude_keys;
use crate::config::{Config, ConfigError, ConfigSources, Flags, Loaded, Text};
use crate::console;

/// Reads the configuration for a directory, with the store that was typed, and says what is odd about it.
pub(crate) fn configured(
    cli: &Cli,
    workdir: &Path,
    store: Option<&Text>,
) -> Result<(ConfigSources, Config), ConfigError> {
    let flags = Flags {
        workdir: workdir.into(),
        config: cli.config.clone(),
        store: store.cloned(),
        ..Flags::default()
    };
    load_and_warn(flags)
}

/// Reads the configuration with what was typed, and says what is odd about it.
pub(crate) fn load_and_warn(flags: Flags) -> Result<(ConfigSources, Config), ConfigError> {
    let (sources, Loaded { config, warnings }) = load(flags)?;
    for warning in &warnings {
        console::warn(warning);
    }
    Ok((sources, config))
}

/// Reads the configuration with what was typed.
pub(crate) fn load(flags: Flags) -> Result<(ConfigSources, Loaded), ConfigError> {
    let mut sources = ConfigSources::from_process()
        .map_err(|source| ConfigError::Workdir { path: ".".into(), source })?;
    sources.discovery = flags.discovery;
    sources.named_servers.clone_from(&flags.mcp_servers);
    sources.only_named_servers = flags.only_named_servers;
    let mut loaded = Config::load(flags, &sources)?;
    claude_keys::apply(&mut loaded, &sources);
    Ok((sources, loaded))
}
