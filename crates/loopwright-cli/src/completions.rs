//! Completion of commands, options and names of sessions in shells.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use loopwright_agent::{AgentDefinition, Definitions as _};
use loopwright_models::Providers;

use crate::args::Cli;
use crate::config::ConfigSources;
use crate::definitions::Defined;
use crate::sessions;

/// The variable by which the script of a shell asks this program.
const VARIABLE: &str = "LOOPWRIGHT_COMPLETE";

/// The name of the program.
const PROGRAM: &str = "loopwright";

/// The most names of sessions that are offered.
const NAMES: usize = 500;

/// Answers a shell and ends the process, if it is a shell that asks.
pub fn answer() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// Renders the script of a shell, which asks this very program what fits.
pub fn script(shell: Shell) -> Vec<u8> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
        _ => &Bash,
    };
    let mut script = Vec::new();
    // Writing into memory does not fail.
    completer.write_registration(VARIABLE, PROGRAM, PROGRAM, &this_program(), &mut script).ok();
    script
}

/// Returns how this program was called, so that it is found from any directory.
fn this_program() -> String {
    let called = std::env::args_os().next().unwrap_or_else(|| OsString::from(PROGRAM));
    let called = PathBuf::from(called);
    let is_path = called.components().count() > 1;
    let here = std::env::current_dir().ok().filter(|_| is_path);
    here.map_or(called.clone(), |here| here.join(called)).to_string_lossy().into_owned()
}

/// Returns the sessions whose names begin like this.
pub fn sessions(current: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(beginning), Ok(sources)) = (current.to_str(), ConfigSources::from_process()) else {
        return Vec::new();
    };
    let names = sessions::names(&sources, NAMES).into_iter();
    let fitting = names.filter(|(name, _)| name.starts_with(beginning));
    let candidate =
        |(name, title): (String, String)| CompletionCandidate::new(name).help(Some(title.into()));
    fitting.map(candidate).collect()
}

/// Returns the agents whose names begin like this.
pub fn agents(current: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(beginning), Ok(sources)) = (current.to_str(), ConfigSources::from_process()) else {
        return Vec::new();
    };
    let providers = Providers::default();
    let agents = Defined::in_dir(&sources.cwd, &sources, &providers, BTreeMap::new());
    let agents = agents.agents.all();
    let fitting = agents.iter().filter(|it| it.name.starts_with(beginning));
    let candidate = |it: &Arc<AgentDefinition>| {
        CompletionCandidate::new(&it.name).help(Some(it.description.clone().into()))
    };
    fitting.map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_asks_the_program() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            assert!(script.contains(VARIABLE), "{shell}");
            assert!(script.contains(PROGRAM), "{shell}");
        }
    }
}
