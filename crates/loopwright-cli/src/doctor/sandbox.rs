//! The guarantees of each sandbox backend.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use loopwright_sandbox::transaction::{Transaction, staging_for};
use loopwright_sandbox::{
    Backend, BackendSandbox, BroadPaths, Command, CopiedCache, Enforcement, Guarantee, Guarantees,
    Output, Sandbox, SandboxError, SandboxPolicy, Unavailable,
};
use tokio_util::sync::CancellationToken;

use crate::config::ConfigSources;
use crate::console;
use crate::exit::ExitCode;
use crate::project::plain;
use crate::render::sanitize_terminal;
use crate::store::state_directory;

/// Tries every backend.
pub(super) async fn show() -> ExitCode {
    let mut found = Vec::new();
    for backend in Backend::ALL {
        found.push((backend, BackendSandbox::new(backend).probe().await));
    }
    let mut text = table(&found);
    if let Some(backend) = used(&found) {
        let changes = match collected(Path::new("."), backend).await {
            Ok(place) => format!(
                "Changes in this folder are staged in {} and applied when a command exits.\n",
                plain(&place)
            ),
            Err(reason) => format!(
                "Changes in this folder are applied immediately and cannot be undone: {}.\n",
                sanitize_terminal(&reason)
            ),
        };
        text.push_str(&copied(backend).await);
        text.push_str(&changes);
    }
    console::print(text.as_bytes())
}

/// The backend that commands run in by default.
fn used(found: &[(Backend, Result<Guarantees, Unavailable>)]) -> Option<Backend> {
    let works = |wanted| found.iter().any(|(backend, it)| *backend == wanted && it.is_ok());
    [Backend::Namespaces, Backend::Bubblewrap].into_iter().find(|backend| works(*backend))
}

/// Finds where changes of commands in a folder are collected, by collecting those of a command in a folder beside that
/// place. The error says why they are not.
async fn collected(folder: &Path, backend: Backend) -> Result<PathBuf, String> {
    let place = staging_for(folder).map_err(|reason| reason.to_string())?;
    let tried = place.join(format!("doctor-{}", std::process::id()));
    let result = collects(&tried, backend).await;
    // What is left is empty.
    fs::remove_dir_all(&tried).ok();
    result.map(|()| place)
}

async fn collects(tried: &Path, backend: Backend) -> Result<(), String> {
    let folder = tried.join("folder");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let transaction = Transaction::begin(&tried.join("changes"), &folder);
    let transaction = transaction.map_err(|error| error.to_string())?;
    let policy = policy(&folder, backend).with_transaction(&transaction);
    let result = run(&Command::new("true"), &policy, &BackendSandbox::new(backend)).await;
    transaction.discard();
    result.map(drop).map_err(|error| error.to_string())
}

/// Describes how commands use caches here, by letting a command change a copy-on-write.
async fn copied(backend: Backend) -> String {
    let state = ConfigSources::from_process().ok().and_then(|it| state_directory(&it));
    let tried = state.map(|state| state.join(format!("doctor-{}", std::process::id())));
    let result = match &tried {
        Some(tried) => copies(tried, backend).await,
        None => Err("no state directory".to_owned()),
    };
    // What is left is what was made for this.
    tried.and_then(|it| fs::remove_dir_all(it).ok());
    match result {
        Ok(()) => "Commands change copies of your cargo, npm, pip, uv and Go caches.\n".to_owned(),
        Err(reason) => format!(
            "Commands have read-only access to your cargo and Go caches, and do not use your npm, pip and uv caches: {}.\n",
            sanitize_terminal(&reason)
        ),
    }
}

/// Lets a command change a copy of a cache. The error says why that is not possible.
async fn copies(tried: &Path, backend: Backend) -> Result<(), String> {
    let (folder, cache, layer) = (tried.join("folder"), tried.join("cache"), tried.join("layer"));
    for folder in [&folder, &cache] {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let policy = policy(&folder, backend).with_copied_cache(CopiedCache::new(&cache, &layer));
    let command = Command::new("touch").args([cache.join("file")]);
    let driver = BackendSandbox::new(backend);
    let output = run(&command, &policy, &driver).await.map_err(|error| error.to_string())?;
    if output.copied_caches && output.outcome.is_success() && !cache.join("file").exists() {
        return Ok(());
    }
    Err(why_not_copied(backend, driver.why_not_copied(&policy)))
}

/// Says why a command has changed no copy of a cache. `known` is the reason if copies are impossible.
fn why_not_copied(backend: Backend, known: Option<String>) -> String {
    known.unwrap_or_else(|| match backend {
        Backend::Namespaces => "an attempt to copy a cache failed".to_owned(),
        _ => format!("the backend `{backend}` has no overlays"),
    })
}

/// Returns the policy of a command in a folder of this program, which is in a hidden folder of the home.
fn policy(folder: &Path, backend: Backend) -> SandboxPolicy {
    SandboxPolicy::in_dir(folder).with_broad_paths(BroadPaths::Allowed).with_backend(backend)
}

async fn run(
    command: &Command,
    policy: &SandboxPolicy,
    sandbox: &dyn Sandbox,
) -> Result<Output, SandboxError> {
    sandbox.run(command, policy, &mut |_, _| {}, &CancellationToken::new()).await
}

/// A column for each backend that works, and the reason for each that does not.
fn table(found: &[(Backend, Result<Guarantees, Unavailable>)]) -> String {
    let working: Vec<(Backend, &Guarantees)> = found
        .iter()
        .filter_map(|(backend, result)| Some((*backend, result.as_ref().ok()?)))
        .collect();
    let mut text = format!("{:20}", "");
    for (backend, _) in &working {
        write!(text, "{:>12}", backend.name()).ok();
    }
    for guarantee in Guarantee::ALL {
        write!(text, "\n{:20}", guarantee.name()).ok();
        for (_, guarantees) in &working {
            write!(text, "{:>12}", word(guarantees.strength(guarantee))).ok();
        }
    }
    text.push('\n');
    for (backend, result) in found {
        if let Err(unavailable) = result {
            write!(
                text,
                "\n{backend} does not work here: {}\n  {}\n",
                unavailable.reason, unavailable.remedy
            )
            .ok();
        }
    }
    match used(found) {
        Some(backend) => write!(text, "\nCommands run in {backend}.\n").ok(),
        None => write!(
            text,
            "\nCommands are disabled; to use a weaker backend, set `sandbox.backend`.\n"
        )
        .ok(),
    };
    text
}

const fn word(strength: Option<Enforcement>) -> &'static str {
    match strength {
        Some(Enforcement::Enforced) => "yes",
        Some(Enforcement::BestEffort) => "tries",
        None => "no",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_that_does_not_work_is_named_with_its_remedy() {
        let unavailable = Unavailable {
            driver: Backend::Bubblewrap,
            reason: "there is no program".to_owned(),
            remedy: "install it".to_owned(),
        };
        let text = table(&[
            (Backend::Namespaces, Ok(Guarantees::all())),
            (Backend::Bubblewrap, Err(unavailable)),
        ]);
        assert!(
            text.starts_with(
                "                      namespaces\nfile writes                  yes\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with(
                "\nbubblewrap does not work here: there is no program\n  install it\n\nCommands run in namespaces.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_backend_with_overlays_is_not_said_to_have_none() {
        let why = [
            why_not_copied(Backend::Namespaces, Some("no space".to_owned())),
            why_not_copied(Backend::Namespaces, None),
            why_not_copied(Backend::Bubblewrap, None),
        ];
        let expect = [
            "no space",
            "an attempt to copy a cache failed",
            "the backend `bubblewrap` has no overlays",
        ];
        assert_eq!(why, expect);
    }

    #[test]
    fn without_a_strong_tier_commands_are_refused() {
        let text = table(&[(Backend::Landlock, Ok(Guarantees::default()))]);
        assert!(
            text.ends_with(
                "Commands are disabled; to use a weaker backend, set `sandbox.backend`.\n"
            ),
            "{text}"
        );
    }
}
