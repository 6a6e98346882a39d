//! `sessions check`.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use loopwright_sessions::{
    Finding, SessionError, SessionHeader, SessionId, SessionQuery, SessionRepository, SessionStore,
    StoreError,
};
use serde_json::json;

use crate::args::sessions::CheckArgs;
use crate::console;
use crate::display::chain;
use crate::exit::ExitCode;
use crate::render::{count, sanitize_terminal};
use crate::report::SCHEMA_VERSION;
use crate::session::{SessionsError, all, short};

/// How many sessions are read at the same time.
const AT_ONCE: usize = 4;
/// After how many sessions the progress is shown.
const TOLD_EVERY: u64 = 100;

/// Checks the store and every session in it, and tells what was found, and what was found before.
pub(super) async fn check(
    store: &Arc<dyn SessionStore>,
    args: &CheckArgs,
    mut findings: Vec<Finding>,
    doctor: &str,
) -> Result<ExitCode, SessionsError> {
    console::progress(Some("checking the store"));
    let checked = store.check(args.repair).await;
    console::progress(None);
    findings.extend(checked?);
    let known: BTreeSet<SessionId> = findings.iter().filter_map(|it| it.session.clone()).collect();
    let headers = all(&**store, SessionQuery::default(), |_| true).await?;
    let repository = SessionRepository::new(Arc::clone(store));
    let (mut readable, mut seen) = (0, 0_u64);
    let load = async |header: &SessionHeader| {
        (header.id.clone(), repository.load(&header.id).await.map(drop))
    };
    let mut loads = stream::iter(&headers).map(load).buffered(AT_ONCE);
    while let Some((id, loaded)) = loads.next().await {
        seen += 1;
        if seen.is_multiple_of(TOLD_EVERY) {
            let all = count(headers.len() as u64, "session");
            console::progress(Some(&format!("read {seen} of {all}")));
        }
        match loaded {
            Ok(()) => readable += 1,
            // It was deleted in the meantime.
            Err(SessionError::Store(StoreError::NotFound(_))) => {}
            Err(_) if known.contains(&id) => {}
            Err(error) => {
                findings.push(Finding {
                    session: Some(id),
                    problem: chain(&error),
                    repaired: None,
                });
            }
        }
    }
    drop(loads);
    console::progress(None);
    let left = findings.iter().filter(|it| it.repaired.is_none()).count();
    let exit_code = if left == 0 { ExitCode::Done } else { ExitCode::Internal };
    if args.json {
        let printed = console::print_json(&json!({
            "schema_version": SCHEMA_VERSION, "sessions": headers.len(), "readable": readable,
            "findings": findings,
        }));
        return Ok(if printed == ExitCode::Done { exit_code } else { printed });
    }
    for finding in &findings {
        tell(finding);
    }
    console::tell(&format!("{} can be read", count(readable, "session")));
    match (left, args.repair) {
        (0, _) => {}
        (left, false) => console::tell(&format!(
            "{} found; run `{doctor} --repair` to repair the store",
            count(left as u64, "problem")
        )),
        (left, true) => console::tell(&format!(
            "{} cannot be repaired; delete a lost session with `loopwright sessions delete`",
            count(left as u64, "problem")
        )),
    }
    Ok(exit_code)
}

fn tell(finding: &Finding) {
    let of =
        finding.session.as_ref().map_or(String::new(), |id| format!("session {}: ", short(id)));
    console::tell(&format!("{of}{}", sanitize_terminal(&finding.problem)));
    if let Some(repaired) = &finding.repaired {
        console::tell(&format!("  repaired: {}", sanitize_terminal(repaired)));
    }
}
