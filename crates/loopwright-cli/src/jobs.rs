//! `loopwright jobs`.

use std::path::Path;
use std::sync::Arc;

use loopwright_sessions::{JobQuery, JobRecord, JobStatus, Scheduler, SessionStore};
use loopwright_worker::NoQueue;
use serde_json::{Map, json};

use crate::args::Cli;
use crate::args::jobs::JobsArgs;
use crate::config::Text;
use crate::console;
use crate::exit::ExitCode;
use crate::load_config::configured;
use crate::render::single_line;
use crate::report::SCHEMA_VERSION;
use crate::restate::scheduled;
use crate::run::with_runtime;
use crate::session::{SessionsError, now, short};
use crate::sessions::age;
use crate::startup::StartError;
use crate::store::StoreLocation;

/// The most characters of a reason that are shown.
const REASON: usize = 60;

/// There is no queue where sessions are kept.
#[derive(Debug, thiserror::Error)]
#[error("{0}, as in `--store sqlite:FILE` or `--store postgres://…`")]
struct NotHere(NoQueue);

/// Refuses what needs a queue.
pub(crate) fn no_queue(error: NoQueue) -> StartError {
    StartError::config(NotHere(error))
}

/// Returns the scheduler of a store.
///
/// # Errors
///
/// Returns an error if the store has none.
pub(crate) fn scheduler(store: &dyn SessionStore) -> Result<&dyn Scheduler, StartError> {
    store.scheduler().ok_or_else(|| no_queue(NoQueue))
}

/// Lists what was submitted.
pub fn jobs(cli: &Cli, args: &JobsArgs) -> ExitCode {
    with_runtime(async { perform(cli, args).await.unwrap_or_else(|refusal| refusal.fail()) })
}

/// Opens the store that the arguments or the configuration name.
pub(crate) async fn opened(
    cli: &Cli,
    store: Option<&Text>,
) -> Result<Arc<dyn SessionStore>, StartError> {
    let (sources, config) = configured(cli, Path::new("."), store)?;
    let store = StoreLocation::of(&config, &sources)?.open().await?;
    Ok(scheduled(store, &config.restate)?)
}

async fn perform(cli: &Cli, args: &JobsArgs) -> Result<ExitCode, StartError> {
    let store = opened(cli, args.store.as_ref()).await?;
    Ok(list(scheduler(&*store)?, args).await?)
}

async fn list(queue: &dyn Scheduler, args: &JobsArgs) -> Result<ExitCode, SessionsError> {
    let (status, limit) = (args.status.map(Into::into), args.limit as usize);
    let records = queue.records(&JobQuery { status, ..JobQuery::last(limit) }).await?;
    let mut counts = Map::new();
    for status in JobStatus::ALL {
        counts.insert(status.to_string(), queue.count(status).await?.into());
    }
    if args.json {
        let told = json!({ "schema_version": SCHEMA_VERSION, "jobs": records, "counts": counts });
        return Ok(console::print_json(&told));
    }
    let exit_code = console::print(table(&records).as_bytes());
    let words: Vec<String> =
        counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    console::tell(&words.join(", "));
    Ok(exit_code)
}

/// Returns the reason for the status of a job. For one that is queued, also what it needs, and its start.
fn reason(record: &JobRecord) -> String {
    let mut parts = Vec::new();
    if record.status == JobStatus::Queued {
        let start = record.job.start_at.filter(|at| *at > record.updated_at);
        parts.extend(start.map(|at| format!("starts at {at}")));
        let needs = &record.job.needs;
        parts.extend((!needs.is_empty()).then(|| format!("needs {needs}")));
    }
    parts.extend(record.reason.as_deref().map(str::to_owned));
    parts.join("; ")
}

fn table(records: &[JobRecord]) -> String {
    let now = now();
    let row = |it: &JobRecord| {
        let reason = single_line(&reason(it), REASON);
        let (age, session) = (age(it.updated_at, now), short(&it.job.session));
        let row =
            format!("{}  {age:>8}  {:11}  {session}  {reason}", it.job.id, it.status.as_str());
        row.trim_end().to_owned() + "\n"
    };
    records.iter().map(row).collect()
}
