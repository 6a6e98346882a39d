//! The command that serves editors.

use clap::Args;

use super::agent::AgentArgs;
use super::session::{OnInterruptedArg, ResumeArgs, SessionArgs};
use super::values::StoreParser;
use crate::config::Text;

/// Arguments of `acp`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct AcpArgs {
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser, help_heading = "Session")]
    pub store: Option<Text>,
    /// Choose how to handle an interrupted call that may have taken effect [default: require-decision]
    #[arg(long, value_name = "POLICY", value_enum, help_heading = "Session")]
    pub on_interrupted: Option<OnInterruptedArg>,
    /// The agent, its limits and its output.
    #[command(flatten)]
    pub agent: AgentArgs,
}

impl AcpArgs {
    /// Returns the session options as those of a run with this starting point.
    pub fn session_args(&self, origin: ResumeArgs) -> SessionArgs {
        let (store, on_interrupted) = (self.store.clone(), self.on_interrupted);
        SessionArgs { origin, store, on_interrupted, ..SessionArgs::default() }
    }
}
