//! The settings of commands, for each capability that runs them.

/// Defines the settings of [`Bash`](crate::bash::Bash) as methods of a type that has one in its field `bash`.
macro_rules! bash_settings {
    () => {
        /// Sets the sandbox; see [`Bash::sandbox`](crate::bash::Bash::sandbox).
        pub fn sandbox(mut self, sandbox: std::sync::Arc<dyn loopwright_sandbox::Sandbox>) -> Self {
            self.bash = self.bash.sandbox(sandbox);
            self
        }

        /// Sets what commands may do; see [`Bash::policy`](crate::bash::Bash::policy).
        pub fn policy(mut self, policy: loopwright_sandbox::SandboxPolicy) -> Self {
            self.bash = self.bash.policy(policy);
            self
        }

        /// Changes what commands may do; see [`Bash::confine`](crate::bash::Bash::confine).
        pub fn confine(mut self, change: impl FnOnce(loopwright_sandbox::SandboxPolicy) -> loopwright_sandbox::SandboxPolicy) -> Self {
            self.bash = self.bash.confine(change);
            self
        }

        /// Sets how long a command may take at most; see [`Bash::longest`](crate::bash::Bash::longest).
        pub fn longest(mut self, longest: std::time::Duration) -> Self {
            self.bash = self.bash.longest(longest);
            self
        }

        /// Chooses what commands are run with; see [`SandboxPolicy::backend`](loopwright_sandbox::SandboxPolicy::backend).
        pub fn driver(mut self, driver: impl Into<loopwright_sandbox::BackendChoice>) -> Self {
            self.bash = self.bash.driver(driver);
            self
        }

        /// Sets what is shown of commands; see [`Bash::with_output_policy`](crate::bash::Bash::with_output_policy).
        pub fn with_output_policy(mut self, display: $crate::bash::BashPolicy) -> Self {
            self.bash = self.bash.with_output_policy(display);
            self
        }

        /// Collects what commands change in this folder until they have ended; see [`Bash::staging`](crate::bash::Bash::staging).
        pub fn staging(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
            self.bash = self.bash.staging(folder);
            self
        }

        /// Lets commands make their changes at once; see [`Bash::write_at_once`](crate::bash::Bash::write_at_once).
        pub fn write_at_once(mut self) -> Self {
            self.bash = self.bash.write_at_once();
            self
        }

        /// Lets commands leave behind what is refused otherwise; see [`Bash::allow`](crate::bash::Bash::allow).
        pub fn allow(mut self, path: impl AsRef<std::path::Path>) -> Self {
            self.bash = self.bash.allow(path);
            self
        }

        /// Sets where changes of commands are recorded; see [`Bash::journal`](crate::bash::Bash::journal).
        pub fn journal(mut self, journal: std::sync::Arc<dyn $crate::files::FileJournal>) -> Self {
            self.bash = self.bash.journal(journal);
            self
        }

        /// Lets commands ask for more than the sandbox gives; see [`Bash::allow_needs`](crate::bash::Bash::allow_needs).
        pub fn allow_needs(mut self, home: Option<std::path::PathBuf>) -> Self {
            self.bash = self.bash.allow_needs(home);
            self
        }

        /// Lets each command begin in the directory that the one before ended in.
        pub fn persist_cwd(mut self) -> Self {
            self.bash = self.bash.persist_cwd();
            self
        }
    };
}

pub(crate) use bash_settings;
