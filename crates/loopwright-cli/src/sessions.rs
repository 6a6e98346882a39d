//! `loopwright sessions`.

mod approvals;
mod change;
mod check;
mod decide;
mod follow;
mod last_run;
mod list;
mod open;
mod prune;
mod show;
mod history;
mod transfer;

use std::path::Path;
use std::sync::Arc;

use loopwright_sessions::SessionStore;

use crate::args::Cli;
use crate::args::sessions::{ApprovalsArgs, SessionsArgs, SessionsCommand};
use crate::config::{Config, ConfigSources, Flags, Text};
use crate::console;
use crate::exit::ExitCode;
use crate::load_config::configured;
use crate::render::quoted;
use crate::run::with_runtime;
use crate::session::{SessionsError, find};
use crate::startup::StartError;
use crate::store::StoreLocation;

pub(crate) use self::change::{tell_undone, tell_unknown, tell_unrecorded};
pub(crate) use self::decide::{DECLINED, UserDecision, misses_form};
pub use self::history::{HistoryEntry, SessionHistory};
pub(crate) use self::last_run::{RUNNING, last_runs};
pub(crate) use self::list::age;

/// Does what was asked of sessions.
pub fn sessions(cli: &Cli, args: &SessionsArgs) -> ExitCode {
    configured_for(cli, args.store.as_ref(), async |sources, config| {
        perform(cli, args, &config, &sources).await
    })
}

/// Lists what waits for an answer, in all sessions.
pub fn approvals(cli: &Cli, args: &ApprovalsArgs) -> ExitCode {
    configured_for(cli, args.store.as_ref(), async |sources, config| {
        let store = StoreLocation::of(&config, &sources)?.open().await?;
        approvals::approvals(&store, args).await
    })
}

/// Reads the configuration, works with it, and reports what goes wrong.
fn configured_for(
    cli: &Cli,
    store: Option<&Text>,
    work: impl AsyncFnOnce(ConfigSources, Config) -> Result<ExitCode, SessionsError>,
) -> ExitCode {
    let (sources, config) = match configured(cli, Path::new("."), store) {
        Ok(loaded) => loaded,
        Err(error) => return StartError::from(error).fail(),
    };
    with_runtime(async {
        match work(sources, config).await {
            Ok(exit_code) => exit_code,
            Err(error) => console::fail(&error, error.exit_code()),
        }
    })
}

/// Returns the names of the sessions that are kept, the latest first, with their titles. Nothing is
/// made for it, and what cannot be read is left out.
pub fn names(sources: &ConfigSources, most: usize) -> Vec<(String, String)> {
    let flags = Flags { workdir: ".".into(), ..Flags::default() };
    let Ok(loaded) = Config::load(flags, sources) else { return Vec::new() };
    let Some(place) =
        StoreLocation::of(&loaded.config, sources).ok().filter(StoreLocation::is_there)
    else {
        return Vec::new();
    };
    let mut names = Vec::new();
    with_runtime(async {
        if let Ok(store) = place.open().await {
            names = list::names(&*store, most).await;
        }
        ExitCode::Done
    });
    names
}

async fn perform(
    cli: &Cli,
    args: &SessionsArgs,
    config: &Config,
    sources: &ConfigSources,
) -> Result<ExitCode, SessionsError> {
    let SessionsArgs { store: typed, command } = args;
    let of_store = |command: &str| again(command, typed.as_ref());
    let check_command = of_store("check");
    let place = StoreLocation::of(config, sources)?;
    let salvaged = match command {
        // What is damaged cannot be opened, or not be checked while it is open.
        SessionsCommand::Check(args) if args.repair => place.salvage().await?,
        _ => Vec::new(),
    };
    let store: Arc<dyn SessionStore> = place.open().await?;
    let workdir = &config.workdir;
    match command {
        SessionsCommand::List(args) => list::list(&*store, args, workdir, &of_store).await,
        SessionsCommand::Show(args) => show::show(&*store, args).await,
        SessionsCommand::Open(args) => open::open(&*store, args).await,
        SessionsCommand::Follow(args) => follow::follow(&store, args).await,
        SessionsCommand::Export(args) => transfer::export(&*store, args).await,
        SessionsCommand::Import(args) => transfer::import(&*store, args, workdir).await,
        SessionsCommand::Fetch(args) => transfer::fetch(&*store, args, &sources.cwd).await,
        SessionsCommand::Fork(args) => change::fork(&store, &args.from).await,
        SessionsCommand::Rewind(args) => change::rewind(&store, args).await,
        SessionsCommand::Decide(args) if args.what.is_empty() => {
            approvals::tell_waiting(&store, find(&*store, &args.id.id).await?).await?;
            Err(SessionsError::Usage("the decision is missing".to_owned()))
        }
        SessionsCommand::Decide(args) => {
            decide::decide(cli, &store, args, &store_option(typed.as_ref())).await
        }
        SessionsCommand::Stop(args) => change::each(&store, args, change::Task::Stop).await,
        SessionsCommand::Cancel(args) => change::each(&store, args, change::Task::Cancel).await,
        SessionsCommand::Suspend(args) => change::each(&store, args, change::Task::Suspend).await,
        SessionsCommand::Resume(args) => change::each(&store, args, change::Task::Resume).await,
        SessionsCommand::Delete(args) => change::delete(&store, args).await,
        SessionsCommand::Check(args) => check::check(&store, args, salvaged, &check_command).await,
        SessionsCommand::Backup(args) => backup(&*store, &sources.cwd.join(&args.to)).await,
        SessionsCommand::Prune(args) => prune::prune(&*store, args).await,
    }
}

/// Copies all sessions.
async fn backup(store: &dyn SessionStore, to: &Path) -> Result<ExitCode, SessionsError> {
    store.back_up(to).await?;
    console::tell(&format!("copied all sessions to {}", to.display()));
    Ok(ExitCode::Done)
}

/// Returns how another command is called for the same store.
fn again(command: &str, store: Option<&Text>) -> String {
    format!("loopwright sessions {command}{}", store_option(store))
}

/// Returns the option that selects the same store, after a blank; empty if none was typed.
fn store_option(store: Option<&Text>) -> String {
    store.map_or(String::new(), |it| format!(" --store {}", quoted(&it.to_string())))
}
