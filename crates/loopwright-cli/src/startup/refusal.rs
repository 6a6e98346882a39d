//! Reasons why a run cannot start, with exit codes.

use loopwright_core::BoxError;

use crate::added_folders::AddedFolderError;
use crate::answer_checks::OutputError;
use crate::config::ConfigError;
use crate::console;
use crate::display::RunDisplay;
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::folders::FoldersError;
use crate::media::AttachError;
use crate::model::ChoiceError;
use crate::prompt::PromptError;
use crate::selected_agent::AgentError;
use crate::session::SessionsError;
use crate::signals;
use crate::store::StoreLocationError;

/// Why something cannot begin, and what the program says about it.
#[derive(Debug)]
pub struct StartError {
    /// For people.
    pub error: BoxError,
    /// For scripts.
    pub exit_code: ExitCode,
    /// The word for it in results.
    pub stop_reason: &'static str,
}

impl StartError {
    /// Refuses a command line that cannot be used.
    pub(crate) fn usage(error: impl Into<BoxError>) -> Self {
        Self { error: error.into(), exit_code: ExitCode::Usage, stop_reason: "usage" }
    }

    /// Refuses a configuration that cannot be used.
    pub(crate) fn config(error: impl Into<BoxError>) -> Self {
        Self { error: error.into(), exit_code: ExitCode::Config, stop_reason: "configuration" }
    }

    /// Reports what neither the command line nor the configuration causes.
    pub(crate) fn internal(error: impl Into<BoxError>) -> Self {
        Self { error: error.into(), exit_code: ExitCode::Internal, stop_reason: "other" }
    }

    /// Says so to people alone, and returns the exit status.
    pub(crate) fn fail(&self) -> ExitCode {
        console::fail(&*self.error, self.exit_code)
    }

    /// Says so, and returns the exit status.
    pub fn tell(&self, stage: RunDisplay) -> ExitCode {
        stage.refuse(&*self.error, self.exit_code, self.stop_reason)
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        let is_typed = match &error {
            ConfigError::Workdir { .. } => true,
            ConfigError::UnknownModel { origin, .. } => origin.is_typed(),
            _ => false,
        };
        if is_typed { Self::usage(error) } else { Self::config(error) }
    }
}

impl From<Interruption> for StartError {
    fn from(reason: Interruption) -> Self {
        let (text, stop_reason) = match reason {
            Interruption::Terminate => ("terminated before the run started", "terminated"),
            _ => ("interrupted before the run started", "user_requested"),
        };
        Self { error: text.into(), exit_code: signals::exit_code(reason), stop_reason }
    }
}

impl From<AgentError> for StartError {
    fn from(error: AgentError) -> Self {
        let (exit_code, stop_reason) = (error.exit_code(), error.stop_reason());
        Self { error: error.into(), exit_code, stop_reason }
    }
}

impl From<ChoiceError> for StartError {
    fn from(error: ChoiceError) -> Self {
        let (exit_code, stop_reason) = (error.exit_code(), error.stop_reason());
        Self { error: error.into(), exit_code, stop_reason }
    }
}

impl From<FoldersError> for StartError {
    fn from(error: FoldersError) -> Self {
        Self::config(error)
    }
}

impl From<AddedFolderError> for StartError {
    fn from(error: AddedFolderError) -> Self {
        Self::usage(error)
    }
}

impl From<AttachError> for StartError {
    fn from(error: AttachError) -> Self {
        Self::usage(error)
    }
}

impl From<OutputError> for StartError {
    fn from(error: OutputError) -> Self {
        Self::usage(error)
    }
}

impl From<PromptError> for StartError {
    fn from(error: PromptError) -> Self {
        Self::usage(error)
    }
}

impl From<SessionsError> for StartError {
    fn from(error: SessionsError) -> Self {
        let (exit_code, stop_reason) = (error.exit_code(), error.stop_reason());
        Self { error: error.into(), exit_code, stop_reason }
    }
}

impl From<StoreLocationError> for StartError {
    fn from(error: StoreLocationError) -> Self {
        SessionsError::from(error).into()
    }
}
