//! Trials of backends: a harmless command attempts what the backend claims to prevent.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::command::Command;
use crate::driver::BackendSandbox;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::{Guarantee, Guarantees};
use crate::output::{ExitOutcome, Output};
use crate::policy::{Backend, SandboxPolicy};
use crate::sandbox::Sandbox;

/// What must not be seen, and is printed if it is.
const SECRET: &str = "canary";

/// Says `read` or `seen` for an attempt that succeeds.
const ATTEMPTS: &str = "\
test -r ../secret && cat ../secret >/dev/null && echo read
(echo x > ../written) 2>/dev/null
test -d /proc/\"$AGENT\" && echo seen
echo done";

pub(crate) async fn probe(driver: &BackendSandbox) -> Result<Guarantees, Unavailable> {
    if matches!(driver.backend(), Backend::Docker | Backend::Podman) {
        return probe_daemon(driver).await;
    }
    let folder = Canary::new().map_err(|error| {
        driver.unavailable(format!("no folder could be created for a trial command: {error}"))
    })?;
    let policy = SandboxPolicy::in_dir(folder.0.join("work"))
        .with_env("AGENT", std::process::id().to_string())
        .with_timeout(Duration::from_secs(10));
    let command = Command::new("/bin/sh").args(["-c", ATTEMPTS]);
    let sandbox: &dyn Sandbox = driver;
    match sandbox.run(&command, &policy, &mut |_, _| {}, &CancellationToken::new()).await {
        Ok(output) => judge(driver, &folder, output),
        Err(SandboxError::Unavailable(unavailable)) => {
            Err(unavailable.into_iter().next().unwrap_or_else(|| driver.unavailable("unknown")))
        }
        Err(error) => Err(driver.unavailable(error.to_string())),
    }
}

/// Checks whether containers can be started. Starts none, because its image might have to be
/// downloaded.
#[cfg(target_os = "linux")]
async fn probe_daemon(driver: &BackendSandbox) -> Result<Guarantees, Unavailable> {
    let Some(program) = driver.find()? else {
        return Err(driver.unavailable("the program of this backend is unknown"));
    };
    let answer = tokio::process::Command::new(program)
        .arg("version")
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(Duration::from_secs(10), answer).await {
        Ok(Ok(answer)) if answer.status.success() => {
            Ok(crate::linux::guarantees::by(driver.backend(), &SandboxPolicy::in_dir(".")))
        }
        Ok(Ok(answer)) => {
            let said = String::from_utf8_lossy(&answer.stderr);
            let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed");
            Err(driver.unavailable(said))
        }
        Ok(Err(error)) => Err(driver.unavailable(error.to_string())),
        Err(_) => Err(driver.unavailable("the container daemon does not respond")),
    }
}

#[cfg(not(target_os = "linux"))]
async fn probe_daemon(driver: &BackendSandbox) -> Result<Guarantees, Unavailable> {
    Err(driver.unavailable("this operating system is not supported yet"))
}

/// A driver that does not prevent what it says it enforces is not available.
fn judge(
    driver: &BackendSandbox,
    folder: &Canary,
    output: Output,
) -> Result<Guarantees, Unavailable> {
    let said = output.stdout.to_text();
    if output.outcome != ExitOutcome::Exited(0) || !said.ends_with("done\n") {
        return Err(driver.unavailable(format!("the trial command {}", output.outcome)));
    }
    let claims = [
        (said.contains("read\n"), Guarantee::FileReads),
        // A private folder of the same name may be writable.
        (folder.0.join("written").exists(), Guarantee::FileWrites),
        (said.contains("seen\n"), Guarantee::ProcessView),
    ];
    for (succeeded, guarantee) in claims {
        if succeeded && output.enforced.enforces(guarantee) {
            return Err(
                driver.unavailable(format!("the trial command bypassed: {}", guarantee.name()))
            );
        }
    }
    Ok(output.enforced)
}

/// A private folder with a working folder in it, removed at the end.
struct Canary(PathBuf);

impl Canary {
    fn new() -> std::io::Result<Self> {
        let mark = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mark = mark.map_or(0, |time| time.as_nanos());
        let path =
            std::env::temp_dir().join(format!("loopwright-canary-{}-{mark:x}", std::process::id()));
        std::fs::create_dir(&path)?;
        let canary = Self(path);
        std::fs::create_dir(canary.0.join("work"))?;
        std::fs::write(canary.0.join("secret"), SECRET)?;
        Ok(canary)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
