//! The settings of commands, for each capability that runs them.

/// Defines the settings of [`Bash`](crate::bash::Bash) as methods of a type that has one in its field `bash`.
macro_rules! bash_settings {
    () => {
        /// Sets the sandbox; see [`Bash::with_sandbox`](crate::bash::Bash::with_sandbox).
        pub fn with_sandbox(mut self, sandbox: std::sync::Arc<dyn loopwright_sandbox::Sandbox>) -> Self {
            self.bash = self.bash.with_sandbox(sandbox);
            self
        }

        /// Sets what commands may do; see [`Bash::with_policy`](crate::bash::Bash::with_policy).
        pub fn with_policy(mut self, policy: loopwright_sandbox::SandboxPolicy) -> Self {
            self.bash = self.bash.with_policy(policy);
            self
        }

        /// Changes what commands may do; see [`Bash::confine`](crate::bash::Bash::confine).
        pub fn confine(mut self, change: impl FnOnce(loopwright_sandbox::SandboxPolicy) -> loopwright_sandbox::SandboxPolicy) -> Self {
            self.bash = self.bash.confine(change);
            self
        }

        /// Sets how long a command may take at most; see [`Bash::with_max_timeout`](crate::bash::Bash::with_max_timeout).
        pub fn with_max_timeout(mut self, longest: std::time::Duration) -> Self {
            self.bash = self.bash.with_max_timeout(longest);
            self
        }

        /// Chooses what commands are run with; see [`SandboxPolicy::with_backend`](loopwright_sandbox::SandboxPolicy::with_backend).
        pub fn with_backend(mut self, driver: impl Into<loopwright_sandbox::BackendChoice>) -> Self {
            self.bash = self.bash.with_backend(driver);
            self
        }

        /// Sets what is shown of commands; see [`Bash::with_output_policy`](crate::bash::Bash::with_output_policy).
        pub fn with_output_policy(mut self, display: $crate::bash::BashPolicy) -> Self {
            self.bash = self.bash.with_output_policy(display);
            self
        }

        /// Collects what commands change in this folder until they have ended; see [`Bash::with_staging`](crate::bash::Bash::with_staging).
        pub fn with_staging(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
            self.bash = self.bash.with_staging(folder);
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

        /// Sets where changes of commands are recorded; see [`Bash::with_journal`](crate::bash::Bash::with_journal).
        pub fn with_journal(mut self, journal: std::sync::Arc<dyn $crate::files::FileJournal>) -> Self {
            self.bash = self.bash.with_journal(journal);
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
