//! `loopwright worker`.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use loopwright_broadcast::BroadcastConfig;
use loopwright_sessions::JobOutcome;
use loopwright_worker::{JobCounts, OnIdle, Worker, WorkerEvent, WorkerOptions};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::args::Cli;
use crate::args::jobs::WorkerArgs;
use crate::config::{Config, ConfigSources, Origin, OutputFormat, RestateSettings, Setting};
use crate::console;
use crate::display::RunDisplay;
use crate::exit::ExitCode;
use crate::jobs::no_queue;
use crate::notify::JobNotices;
use crate::permissions;
use crate::render::{sanitize_terminal, single_line};
use crate::report::SCHEMA_VERSION;
use crate::restate::RestateJobs;
use crate::run::with_runtime;
use crate::serve::session_dirs;
use crate::session::{SessionsError, short};
use crate::session_agents::SessionAgents;
use crate::signals::{draining, exit_code};
use crate::snapshots::SessionSnapshots;
use crate::startup::{StartError, Startup};
use crate::store::StoreLocation;
use crate::worker_roots::WorkerRoots;

/// The most characters of a reason that are shown.
const REASON: usize = 200;

/// Does what was submitted, until it is asked to end.
pub fn worker(cli: &Cli, args: &WorkerArgs) -> ExitCode {
    console::set_color(args.agent.surroundings.color);
    with_runtime(async {
        Box::pin(perform(cli, args)).await.unwrap_or_else(|refusal| refusal.fail())
    })
}

async fn perform(cli: &Cli, args: &WorkerArgs) -> Result<ExitCode, StartError> {
    if args.agent.definition.is_some() {
        let text = "each session keeps its agent; choose the agent when you submit a job, as in \
            `loopwright submit --agent`";
        return Err(SessionsError::Usage(text.to_owned()).into());
    }
    let typed = args.session_args();
    let Startup { config, sources, .. } = Startup::load(cli, &args.agent, &typed)?;
    let dirs = args.session_dirs.as_deref().map(session_dirs).transpose()?;
    let snapshots = SessionSnapshots::open(&args.snapshots, dirs.as_deref())?;
    let roots = roots(args, dirs.as_deref(), &config, &sources)?;
    let place = StoreLocation::of(&config, &sources)?;
    let store = place.open().await?;
    let restate = restate_settings(args, config.restate.clone());
    check_options(args, &restate)?;
    let agents = SessionAgents {
        cli: cli.clone(),
        agent: args.agent.clone(),
        typed,
        store: Arc::clone(&store),
        roots: roots.clone(),
    };
    let options = WorkerOptions {
        concurrency: args.concurrency,
        drain_timeout: args.drain_timeout,
        on_idle: if args.exit_when_idle { OnIdle::Exit } else { OnIdle::Wait },
        on_ask: args.agent.on_ask.into(),
        ..WorkerOptions::default()
    };
    let notices = JobNotices::new(config.notify.clone(), Arc::clone(&store));
    let telling = notices.clone();
    let is_json = config.output_format.value != OutputFormat::Text;
    let worker = Worker::with_agents(Arc::clone(&store), agents).map_err(no_queue)?;
    let worker = worker
        .with_options(options)
        .with_labels(args.labels.iter().cloned().collect())
        .with_event_log(BroadcastConfig::standard())
        .with_listener(move |event: &WorkerEvent| {
            tell(event, is_json);
            telling.on_event(event);
        });
    let worker = SessionSnapshots::kept_by(snapshots, worker);
    let is_quiet = args.agent.surroundings.quiet;
    let display = RunDisplay::new(config.output_format.value, is_quiet);
    display.tell_mode(permissions::policy(&config, &sources)?.0.mode());
    if !is_quiet {
        let roots = sanitize_terminal(&roots.names());
        console::tell(&format!(
            "processing sessions from {place} in {roots}; press Ctrl-C to stop"
        ));
    }
    let engine = match restate.url {
        Some(_) => Some(RestateJobs::open(args, store, &restate)?),
        None => None,
    };
    let drain = CancellationToken::new();
    let signals = draining(&drain, "stopping: no new jobs; waiting for running steps");
    let work = async {
        match engine {
            Some(engine) => Box::pin(engine.run(worker, &drain)).await,
            None => Ok(worker.run(&drain).await),
        }
    };
    let tally = match select(pin!(work), pin!(signals)).await {
        Either::Left((tally, _)) => tally?,
        Either::Right((reason, _)) => return Ok(exit_code(reason)),
    };
    notices.finish().await;
    Ok(tell_end(tally, is_json))
}

/// Returns where Restate runs: as typed, or else as configured.
fn restate_settings(args: &WorkerArgs, configured: RestateSettings) -> RestateSettings {
    let url = args.restate.clone().map(|it| Setting::new(it, Origin::Flag));
    let service = args.restate_service.clone().map(|it| Setting::new(it, Origin::Flag));
    let key = args.restate_identity_key.clone().map(|it| Setting::new(it, Origin::Flag));
    RestateSettings { url, service, identity_key: key }.or(configured)
}

/// Refuses options that have no meaning for the jobs that Restate delivers, also if it is configured and not typed.
fn check_options(args: &WorkerArgs, restate: &RestateSettings) -> Result<(), SessionsError> {
    let Some(url) = &restate.url else { return Ok(()) };
    let (option, remedy) = if !args.labels.is_empty() {
        (
            "--label",
            "start a worker with a different `--restate-service`, and submit labeled jobs to that service",
        )
    } else if args.exit_when_idle {
        ("--exit-when-idle", "stop the worker with Ctrl-C")
    } else {
        return Ok(());
    };
    let url = sanitize_terminal(url.value.as_str());
    let text = format!("Restate at {url} delivers jobs, so `{option}` has no effect; {remedy}");
    Err(SessionsError::Usage(text))
}

/// Returns where it may work: in the folders that were typed, else in those that are configured, else in the one
/// that it was started in; and always in the directory of the sessions' own directories.
fn roots(
    args: &WorkerArgs,
    dirs: Option<&Path>,
    config: &Config,
    sources: &ConfigSources,
) -> Result<WorkerRoots, SessionsError> {
    let home = sources.home.as_deref();
    let typed: Vec<PathBuf> = args.roots.iter().map(|it| sources.cwd.join(it)).collect();
    if !typed.is_empty() {
        return WorkerRoots::new(typed.iter().map(PathBuf::as_path).chain(dirs), home);
    }
    match &config.worker_roots {
        Some(configured) => WorkerRoots::new(configured.value.iter().chain(dirs), home),
        None => WorkerRoots::new([config.workdir.as_path()].into_iter().chain(dirs), home),
    }
}

fn tell(event: &WorkerEvent, is_json: bool) {
    match event {
        WorkerEvent::JobFinished { job, outcome } if is_json => {
            console::print_json(&json!({
                "type": "job", "job": job.id, "session_id": job.session,
                "status": outcome.status(), "reason": outcome.reason(),
            }));
        }
        WorkerEvent::JobFinished { job, outcome } => {
            let word = if *outcome == JobOutcome::Released {
                "released"
            } else {
                outcome.status().as_str()
            };
            let reason = outcome
                .reason()
                .map_or(String::new(), |reason| format!("  {}", single_line(reason, REASON)));
            let row = format!("{word:7}  {}  {}{reason}\n", short(&job.session), job.id);
            let _told = console::print(row.as_bytes());
        }
        WorkerEvent::JobLost(job) => {
            console::warn(&format!("job {} was taken over by another worker", job.id));
        }
        WorkerEvent::JobsTakenOver { jobs, .. } => {
            console::warn(&format!("{jobs} jobs of a worker that died were requeued"));
        }
        WorkerEvent::ScheduleSkipped { schedule, reason } => {
            console::warn(&format!("schedule `{schedule}` was skipped: {reason}"));
        }
        WorkerEvent::QueueUnavailable(reason) => console::warn(reason),
        _ => {}
    }
}

fn tell_end(tally: JobCounts, is_json: bool) -> ExitCode {
    if is_json {
        return console::print_json(
            &json!({ "type": "result", "schema_version": SCHEMA_VERSION, "jobs": tally }),
        );
    }
    let JobCounts { completed, needs_input, stopped, failed, released, .. } = tally;
    console::tell(&format!(
        "{completed} completed, {needs_input} need input, {stopped} stopped, {failed} failed, {released} released"
    ));
    ExitCode::Done
}
