//! The settings of commands, for each capability that runs them.

/// Defines the settings of [`Bash`](crate::bash::Bash) as methods of a type that has one in its field `bash`.
macro_rules! bash_settings {
    () => {
        /// Sets the sandbox; see [`Bash::with_sandbox`](crate::bash::Bash::with_sandbox).
        pub fn with_sandbox(mut self, sandbox: std::sync::Arc<dyn loopwright_sandbox::Sandbox>) -> Self {
            self.bash = self.bash.with_sandbox(sandbox);
            self
        }

        /// Sets the sandbox policy of commands; see [`Bash::with_policy`](crate::bash::Bash::with_policy).
        pub fn with_policy(mut self, policy: loopwright_sandbox::SandboxPolicy) -> Self {
            self.bash = self.bash.with_policy(policy);
            self
        }

        /// Changes the sandbox policy of commands; see [`Bash::confine`](crate::bash::Bash::confine).
        pub fn confine(mut self, change: impl FnOnce(loopwright_sandbox::SandboxPolicy) -> loopwright_sandbox::SandboxPolicy) -> Self {
            self.bash = self.bash.confine(change);
            self
        }

        /// Sets the maximum timeout that the model can request; see [`Bash::with_max_timeout`](crate::bash::Bash::with_max_timeout).
        pub fn with_max_timeout(mut self, longest: std::time::Duration) -> Self {
            self.bash = self.bash.with_max_timeout(longest);
            self
        }

        /// Selects the sandbox backend; see [`SandboxPolicy::with_backend`](loopwright_sandbox::SandboxPolicy::with_backend).
        pub fn with_backend(mut self, driver: impl Into<loopwright_sandbox::BackendChoice>) -> Self {
            self.bash = self.bash.with_backend(driver);
            self
        }

        /// Sets the limits of the output that the model sees; see [`Bash::with_output_policy`](crate::bash::Bash::with_output_policy).
        pub fn with_output_policy(mut self, display: $crate::bash::BashPolicy) -> Self {
            self.bash = self.bash.with_output_policy(display);
            self
        }

        /// Stages the changes of commands in this folder until they end; see [`Bash::with_staging`](crate::bash::Bash::with_staging).
        pub fn with_staging(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
            self.bash = self.bash.with_staging(folder);
            self
        }

        /// Applies the changes of commands immediately; see [`Bash::write_at_once`](crate::bash::Bash::write_at_once).
        pub fn write_at_once(mut self) -> Self {
            self.bash = self.bash.write_at_once();
            self
        }

        /// Allows changes to a path that are refused by default; see [`Bash::allow`](crate::bash::Bash::allow).
        pub fn allow(mut self, path: impl AsRef<std::path::Path>) -> Self {
            self.bash = self.bash.allow(path);
            self
        }

        /// Sets the journal for changes of commands; see [`Bash::with_journal`](crate::bash::Bash::with_journal).
        pub fn with_journal(mut self, journal: std::sync::Arc<dyn $crate::files::FileJournal>) -> Self {
            self.bash = self.bash.with_journal(journal);
            self
        }

        /// Sets the list in which background commands appear; see [`Bash::with_background_tasks`](crate::bash::Bash::with_background_tasks).
        pub fn with_background_tasks(mut self, tasks: $crate::background::BackgroundTasks) -> Self {
            self.bash = self.bash.with_background_tasks(tasks);
            self
        }

        /// Lets background commands outlive their runs; see [`Bash::with_lasting_commands`](crate::bash::Bash::with_lasting_commands).
        pub fn with_lasting_commands(mut self, commands: $crate::bash::LastingCommands) -> Self {
            self.bash = self.bash.with_lasting_commands(commands);
            self
        }

        /// Has the output of commands watched while they run; see [`Bash::with_output_watch`](crate::bash::Bash::with_output_watch).
        pub fn with_output_watch(mut self, watch: $crate::bash::OutputWatch) -> Self {
            self.bash = self.bash.with_output_watch(watch);
            self
        }

        /// Lets commands request access beyond the sandbox; see [`Bash::allow_needs`](crate::bash::Bash::allow_needs).
        pub fn allow_needs(mut self, home: Option<std::path::PathBuf>) -> Self {
            self.bash = self.bash.allow_needs(home);
            self
        }

        /// Starts each command in the directory where the previous one ended.
        pub fn persist_cwd(mut self) -> Self {
            self.bash = self.bash.persist_cwd();
            self
        }
    };
}

pub(crate) use bash_settings;
