//! `sessions doctor`.

use std::collections::BTreeSet;
use std::sync::Arc;

use loopwright_sessions::{
    Finding, SessionError, SessionId, SessionQuery, SessionRepository, SessionStore, StoreError,
};
use serde_json::json;

use super::{SessionsError, find, short};
use crate::args::sessions::DoctorArgs;
use crate::console;
use crate::exit::ExitCode;
use crate::render::{count, harmless};
use crate::report::SCHEMA_VERSION;
use crate::stage::chain;

/// Checks the store and every session in it, and tells what was found, and what was found before.
pub(super) async fn check(
    store: &Arc<dyn SessionStore>,
    args: &DoctorArgs,
    mut findings: Vec<Finding>,
    doctor: &str,
) -> Result<ExitCode, SessionsError> {
    findings.extend(store.check(args.repair).await?);
    let known: BTreeSet<SessionId> = findings.iter().filter_map(|it| it.session.clone()).collect();
    let headers = find::all(&**store, SessionQuery::default(), |_| true).await?;
    let repository = SessionRepository::new(Arc::clone(store));
    let mut readable = 0;
    for header in &headers {
        match repository.load(&header.id).await {
            Ok(_) => readable += 1,
            // It was deleted in the meantime.
            Err(SessionError::Store(StoreError::NotFound(_))) => {}
            Err(_) if known.contains(&header.id) => {}
            Err(error) => findings.push(Finding {
                session: Some(header.id.clone()),
                problem: chain(&error),
                repaired: None,
            }),
        }
    }
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
            "{} left; `{doctor} --repair` puts right what can be put right",
            count(left as u64, "problem")
        )),
        (left, true) => console::tell(&format!(
            "{} that cannot be repaired; `loopwright sessions delete` removes a session that is of no use",
            count(left as u64, "problem")
        )),
    }
    Ok(exit_code)
}

fn tell(finding: &Finding) {
    let of =
        finding.session.as_ref().map_or(String::new(), |id| format!("session {}: ", short(id)));
    console::tell(&format!("{of}{}", harmless(&finding.problem)));
    if let Some(repaired) = &finding.repaired {
        console::tell(&format!("  repaired: {}", harmless(repaired)));
    }
}
