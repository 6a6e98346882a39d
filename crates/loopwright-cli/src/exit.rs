//! Exit codes.

/// Names every exit status of the program; the numbers are a contract with scripts and do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// The agent finished its work and the answer is complete.
    Done = 0,
    /// Something broke that neither the user nor the provider can be blamed for.
    Internal = 1,
    /// The command line cannot be understood or asks for something impossible; nothing was started.
    Usage = 2,
    /// A configuration file or variable is wrong; nothing was started.
    Config = 3,
    /// No model is chosen, or the chosen one has no key; nothing was sent.
    NoModel = 4,
    /// The provider failed or refused, after the retries that are allowed.
    Provider = 5,
    /// A limit on steps, tokens, seconds, cost, retries or the length of an answer ended the run; what it
    /// did so far stands.
    Limit = 6,
    /// Another process uses the session; nothing was started.
    Busy = 7,
    /// A tool, a hook, the model or its provider did not permit the run to continue.
    Denied = 8,
    /// The run waits for an answer or an approval that no user is there to give.
    NeedsInput = 9,
    /// The model ended without an answer.
    NoAnswer = 10,
    /// No answer of the model matches the schema that was asked for.
    SchemaMismatch = 11,
    /// The command that verifies the work failed.
    VerifyFailed = 12,
    /// The user interrupted the run (`SIGINT`).
    Interrupted = 130,
    /// A user asked the process to end (`SIGTERM` or `SIGHUP`).
    Terminated = 143,
}

impl ExitCode {
    /// The status as the operating system reports it.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(exit_code: ExitCode) -> Self {
        Self::from(exit_code.code())
    }
}

impl serde::Serialize for ExitCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::ExitCode::{
        Busy, Config, Denied, Done, Internal, Interrupted, Limit, NeedsInput, NoAnswer, NoModel,
        Provider, SchemaMismatch, Terminated, Usage, VerifyFailed,
    };

    const ALL: [super::ExitCode; 15] = [
        Done,
        Internal,
        Usage,
        Config,
        NoModel,
        Provider,
        Limit,
        Busy,
        Denied,
        NeedsInput,
        NoAnswer,
        SchemaMismatch,
        VerifyFailed,
        Interrupted,
        Terminated,
    ];

    #[test]
    fn the_numbers_are_those_that_scripts_rely_on() {
        let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 130, 143];
        assert_eq!(ALL.map(super::ExitCode::code), numbers);
    }

    #[test]
    fn the_process_ends_with_the_same_number() {
        for exit_code in ALL {
            let converted = std::process::ExitCode::from(exit_code);
            assert_eq!(converted, std::process::ExitCode::from(exit_code.code()));
        }
    }
}
