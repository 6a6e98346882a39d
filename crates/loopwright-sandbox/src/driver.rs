//! The sandboxes of the backends.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::child::SandboxChild;
use crate::command::Command;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::Guarantees;
#[cfg(target_os = "linux")]
use crate::policy::Network;
use crate::policy::{Backend, SandboxPolicy};
use crate::sandbox::Sandbox;

/// Runs commands in one backend, and refuses them if the backend does not work.
#[derive(Clone, Debug)]
#[must_use]
pub struct BackendSandbox {
    backend: Backend,
    program: Option<PathBuf>,
}

/// Where the programs of drivers are looked for, besides `PATH`.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/bin", "/snap/bin"];

impl BackendSandbox {
    /// Creates the sandbox of a backend, with the program that the machine has for it.
    pub const fn new(backend: Backend) -> Self {
        Self { backend, program: None }
    }

    /// Uses this program in place of `bwrap`, `docker` or `podman`.
    pub fn with_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// The backend.
    pub const fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns why commands under this policy cannot have copies of the caches in
    /// [`SandboxPolicy::copied_caches`]: a command of this process has tried it, and later ones do not try it again. `None` means
    /// that no attempt has failed.
    #[cfg(target_os = "linux")]
    pub fn why_not_copied(&self, policy: &SandboxPolicy) -> Option<String> {
        crate::uncopied::refusal(self.backend, policy)
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> Unavailable {
        Unavailable {
            driver: self.backend,
            reason: reason.into(),
            remedy: self.remedy().to_owned(),
        }
    }

    /// Says that hosts cannot be granted by name.
    #[cfg(target_os = "linux")]
    fn no_domains(&self) -> Unavailable {
        Unavailable {
            driver: self.backend,
            reason: "the backend cannot restrict a command to hosts granted by name".to_owned(),
            remedy: "use the backend `namespaces` or `bubblewrap`".to_owned(),
        }
    }

    const fn remedy(&self) -> &'static str {
        match self.backend {
            Backend::Namespaces => {
                "allow unprivileged user namespaces (`kernel.unprivileged_userns_clone=1`, \
                 `kernel.apparmor_restrict_unprivileged_userns=0`, or a container seccomp profile that \
                 permits them), or install bubblewrap"
            }
            Backend::Bubblewrap => {
                "install your distribution's package `bubblewrap`, version 0.8 or newer"
            }
            Backend::Landlock => {
                "use a kernel with Landlock (5.13 or newer, `landlock` in the `lsm=` list of its command line)"
            }
            Backend::Docker => "install Docker, start its daemon and give this user access to it",
            Backend::Podman => "install Podman",
            Backend::Host => "correct the cause",
        }
    }

    /// The program of the backend, if it needs one.
    pub(crate) fn find(&self) -> Result<Option<PathBuf>, Unavailable> {
        let name = match self.backend {
            Backend::Bubblewrap => "bwrap",
            Backend::Docker => "docker",
            Backend::Podman => "podman",
            Backend::Namespaces | Backend::Landlock | Backend::Host => return Ok(None),
        };
        if let Some(program) = &self.program {
            return if is_program(program) {
                Ok(Some(program.clone()))
            } else {
                Err(self.unavailable(format!("{} is not a program", program.display())))
            };
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = FOLDERS.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
        let found = folders.map(|folder| folder.join(name)).find(|path| is_program(path));
        found.map(Some).ok_or_else(|| self.unavailable(format!("program `{name}` not found")))
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.is_absolute()
        && path
            .metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_absolute() && path.is_file()
}

#[async_trait]
impl Sandbox for BackendSandbox {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    async fn probe(&self) -> Result<Guarantees, Unavailable> {
        crate::probe::probe(self).await
    }

    #[cfg(target_os = "linux")]
    async fn spawn(
        &self,
        command: &Command,
        policy: &SandboxPolicy,
    ) -> Result<SandboxChild, SandboxError> {
        use crate::job::Refusal;
        use crate::launch::{self, Failure};
        use crate::uncopied;

        let program =
            self.find().map_err(|unavailable| SandboxError::Unavailable(vec![unavailable]))?;
        if policy.staging.is_some() && self.backend != Backend::Namespaces {
            let reason = format!("the backend `{}` does not support staging", self.backend);
            return Err(SandboxError::NotStaged { reason });
        }
        let is_enforced = matches!(self.backend, Backend::Namespaces | Backend::Bubblewrap);
        if let (Network::Domains(_), false) = (&policy.network, is_enforced) {
            return Err(SandboxError::Unavailable(vec![self.no_domains()]));
        }
        let has_overlays = self.backend == Backend::Namespaces && policy.staging.is_some();
        let known = uncopied::refusal(self.backend, policy).is_some();
        let reduced = match known {
            true => Some(uncopied::without_copies(policy)),
            false if has_overlays => None,
            false => uncopied::without_kept_cache(policy),
        };
        let policy = reduced.as_ref().unwrap_or(policy);
        let job = launch::job(self.backend, program.as_deref(), command, policy)?;
        match launch::launch(&job, command.stdin.clone()).await {
            Ok(live) => Ok(SandboxChild::live(live)),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Refused(Refusal::Policy(reason))) => Err(SandboxError::Policy(reason)),
            Err(Failure::Refused(Refusal::Start { errno })) => {
                let program = command.program.to_string_lossy().into_owned();
                let hidden = policy.hidden_needs();
                let Some(path) = hidden.first() else {
                    return Err(SandboxError::Start { program, errno });
                };
                let error = std::io::Error::from_raw_os_error(errno);
                Err(SandboxError::Policy(format!(
                    "`{program}` cannot start ({error}): `{}` is hidden from commands, and programs need it; remove it \
                        from `sandbox.hide` (your own and the project's)",
                    path.display()
                )))
            }
            Err(Failure::Refused(Refusal::Setup { stage, errno })) => {
                let reason = match errno {
                    0 => format!("{stage} failed"),
                    errno => format!("{stage}: {}", std::io::Error::from_raw_os_error(errno)),
                };
                let has_caches =
                    !policy.copied_caches.is_empty() || uncopied::discards_cache(policy);
                if stage == crate::linux::layers::STAGE && has_caches {
                    uncopied::refuse(self.backend, policy, errno, &reason);
                    return self.spawn(command, &uncopied::without_copies(policy)).await;
                }
                if stage == crate::linux::overlay::STAGE {
                    return Err(SandboxError::NotStaged { reason });
                }
                Err(SandboxError::Unavailable(vec![self.unavailable(reason)]))
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    async fn spawn(&self, _: &Command, _: &SandboxPolicy) -> Result<SandboxChild, SandboxError> {
        self.find().ok();
        let unavailable = self.unavailable("this operating system is not supported yet");
        Err(SandboxError::Unavailable(vec![unavailable]))
    }
}
