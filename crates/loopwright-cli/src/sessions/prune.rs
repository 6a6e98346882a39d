//! `sessions prune`.

use std::collections::BTreeSet;

use loopwright_core::Timestamp;
use loopwright_sessions::{SessionHeader, SessionQuery, SessionStore, StoreError};
use serde_json::json;

use super::change::hold;
use super::list::age;
use crate::args::sessions::PruneArgs;
use crate::console;
use crate::exit::ExitCode;
use crate::render::{count, single_line};
use crate::report::SCHEMA_VERSION;
use crate::session::{SessionsError, all, now, short};

/// Deletes sessions that were not used for long, and frees unreachable data.
pub(super) async fn prune(
    store: &dyn SessionStore,
    args: &PruneArgs,
) -> Result<ExitCode, SessionsError> {
    let now = now();
    let since = u64::try_from(args.older_than.as_millis()).unwrap_or(u64::MAX);
    let limit = Timestamp::from_millis(now.millis().saturating_sub(since));
    let is_old = |it: &SessionHeader| it.updated_at < limit;
    let old = all(store, SessionQuery::default(), is_old).await?;
    let pruned = if args.dry_run { old } else { deleted(store, old, limit).await? };
    let jobs = match store.jobs().filter(|_| !args.dry_run) {
        Some(queue) => queue.delete_finished(limit).await?,
        None => 0,
    };
    console::progress((!args.dry_run).then_some("freeing their space"));
    let reclaimed = if args.dry_run { None } else { Some(store.reclaim(args.unreachable).await?) };
    console::progress(None);
    if args.json {
        let ids: Vec<_> = pruned.iter().map(|it| &it.id).collect();
        return Ok(console::print_json(&json!({
            "schema_version": SCHEMA_VERSION, "dry_run": args.dry_run, "sessions": ids,
            "jobs": jobs, "reclaimed": reclaimed,
        })));
    }
    let done = if args.dry_run { "would be deleted" } else { "deleted" };
    for header in &pruned {
        let (id, age) = (short(&header.id), age(header.updated_at, now));
        let title = single_line(header.title.as_deref().unwrap_or_default(), 50);
        console::tell(format!("  {id}  {age:>8}  {title}").trim_end());
    }
    console::tell(&format!("{} {done}", count(pruned.len() as u64, "session")));
    if jobs > 0 {
        console::tell(&format!("{} deleted", count(jobs, "job")));
    }
    if let Some(reclaimed) = reclaimed {
        console::tell(&format!("{} freed", count(reclaimed.batches, "piece")));
    }
    Ok(ExitCode::Done)
}

/// Deletes sessions unless some process works with them by now, or did in the meantime. Returns those that were
/// deleted.
async fn deleted(
    store: &dyn SessionStore,
    old: Vec<SessionHeader>,
    limit: Timestamp,
) -> Result<Vec<SessionHeader>, SessionsError> {
    let (mut pruned, all) = (Vec::with_capacity(old.len()), old.len());
    for headers in old.chunks(AT_ONCE) {
        let ids: Vec<_> = headers.iter().map(|it| it.id.clone()).collect();
        let deleted: BTreeSet<_> =
            store.delete_unused(&ids, limit, now()).await?.into_iter().collect();
        for header in headers {
            // A caller that has the right to write it may be gone.
            if deleted.contains(&header.id) || is_deleted(store, header, limit).await? {
                pruned.push(header.clone());
            }
        }
        console::progress(Some(&format!(
            "deleted {} of {}",
            pruned.len(),
            count(all as u64, "session")
        )));
    }
    console::progress(None);
    Ok(pruned)
}

/// How many sessions are deleted at once.
const AT_ONCE: usize = 500;

/// Deletes a session unless it is in use by now, or was used in the meantime.
async fn is_deleted(
    store: &dyn SessionStore,
    header: &SessionHeader,
    limit: Timestamp,
) -> Result<bool, SessionsError> {
    let lease = match hold(store, header).await {
        Ok(lease) => lease,
        Err(StoreError::Busy { .. } | StoreError::NotFound(_)) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let current = store.header(&header.id).await?;
    if current.is_some_and(|it| it.updated_at < limit) {
        store.delete(&header.id, now()).await?;
        return Ok(true);
    }
    store.release(&lease).await?;
    Ok(false)
}
