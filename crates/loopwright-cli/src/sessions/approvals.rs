//! `loopwright approvals`: waiting calls of all sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use loopwright_sessions::{SessionHeader, SessionQuery, SessionRelation, SessionStore};
use serde_json::{Value, json};

use super::last_run::last_runs;
use super::list::age;
use crate::args::sessions::ApprovalsArgs;
use crate::console;
use crate::exit::ExitCode;
use crate::loops::maintenance_runtime;
use crate::render::{json_line, sanitize_terminal, single_line, summary};
use crate::report::{PendingCall, SCHEMA_VERSION};
use crate::session::{SessionsError, decisions_of, now, short};
use crate::signals::{self, Signals};

/// How many sessions are looked at together.
const PAGE: usize = 100;

/// How long `--follow` waits before it looks again.
const PAUSE: Duration = Duration::from_secs(2);

/// The most characters of arguments in a line.
const WIDTH: usize = 100;

/// A session with the calls that wait in it.
struct Waiting {
    header: SessionHeader,
    calls: Vec<PendingCall>,
}

/// Lists the calls that wait for a decision or an answer.
pub(super) async fn approvals(
    store: &Arc<dyn SessionStore>,
    args: &ApprovalsArgs,
) -> Result<ExitCode, SessionsError> {
    let mut waiting = find(store, args.limit as usize).await?;
    if !args.follow {
        if args.json {
            let sessions: Vec<Value> = waiting.iter().map(Waiting::in_json).collect();
            let told = json!({ "schema_version": SCHEMA_VERSION, "sessions": sessions });
            return Ok(console::print_json(&told));
        }
        if waiting.is_empty() {
            console::tell("no calls are waiting");
        }
        return Ok(console::print(
            waiting.iter().map(Waiting::in_words).collect::<String>().as_bytes(),
        ));
    }
    let mut signals = Signals::new().ok();
    let mut told: BTreeSet<(String, u64)> = BTreeSet::new();
    loop {
        for session in &waiting {
            // A session that waits again has been written since.
            if told.insert((session.header.id.to_string(), session.header.length)) {
                let text = if args.json {
                    json_line(&session.in_json()).unwrap_or_default() + "\n"
                } else {
                    session.in_words()
                };
                if console::print(text.as_bytes()) != ExitCode::Done {
                    return Ok(ExitCode::Done);
                }
            }
        }
        let pause = tokio::time::sleep(PAUSE);
        match &mut signals {
            None => pause.await,
            Some(signals) => tokio::select! {
                () = pause => {}
                reason = signals.next() => return Ok(signals::exit_code(reason)),
            },
        }
        waiting = find(store, args.limit as usize).await?;
    }
}

/// Looks through the sessions that were written last.
async fn find(store: &Arc<dyn SessionStore>, limit: usize) -> Result<Vec<Waiting>, SessionsError> {
    let runtime = maintenance_runtime(store);
    let mut query =
        SessionQuery { kinship: SessionRelation::TopLevel, ..SessionQuery::first(PAGE) };
    let (mut found, mut left) = (Vec::new(), limit);
    while left > 0 {
        query.limit = PAGE.min(left);
        let page = store.list(&query).await?;
        left -= page.sessions.len().min(left);
        let runs = last_runs(&**store, &page.sessions).await;
        for (header, run) in page.sessions.into_iter().zip(runs) {
            if run != Some("paused") {
                continue;
            }
            let session = runtime.session(&header.id).await?;
            let calls = PendingCall::unexpired(session.id(), session.state(), now());
            // A request whose deadline has passed takes no answer.
            if !calls.is_empty() {
                found.push(Waiting { header, calls });
            }
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Ok(found)
}

/// Tells which calls of a session wait, and the decisions that each of them takes.
///
/// # Errors
///
/// Returns an error if the session cannot be read, or no call waits.
pub(super) async fn tell_waiting(
    store: &Arc<dyn SessionStore>,
    header: SessionHeader,
) -> Result<(), SessionsError> {
    let session = maintenance_runtime(store).session(&header.id).await?;
    let calls = PendingCall::unexpired(session.id(), session.state(), now());
    if calls.is_empty() {
        let nothing = format!("session {} has no waiting calls", short(&header.id));
        return Err(SessionsError::Usage(nothing));
    }
    for line in (Waiting { header, calls }).in_words().lines() {
        console::tell(line);
    }
    Ok(())
}

impl Waiting {
    fn in_json(&self) -> Value {
        json!({ "session": self.header, "pending": self.calls })
    }

    fn in_words(&self) -> String {
        let id = short(&self.header.id);
        let title = single_line(self.header.title.as_deref().unwrap_or_default(), WIDTH);
        let now = now();
        let mut lines = vec![format!("{id}  {}  {title}", age(self.header.updated_at, now))];
        lines.extend(self.header.workdir.as_ref().map(|it| format!("  in {it}")));
        lines.extend(self.calls.iter().map(|call| {
            let agents: String = call.agents.iter().flat_map(|it| [it, " › "]).collect();
            let asked = summary(&call.arguments.to_string(), WIDTH);
            let question = single_line(&call.question, WIDTH);
            let deadline = call.deadline.map(|at| {
                format!(", {} left", format_duration(Duration::from_secs(at.since(now).as_secs())))
            });
            let deadline = deadline.unwrap_or_default();
            format!("  {}  {agents}{} {asked}  ({question}{deadline})", call.call, call.tool)
        }));
        let address = |call: &PendingCall| match &self.calls[..] {
            [_] => String::new(),
            _ => format!(" {}", call.call),
        };
        lines.extend(self.calls.iter().map(|call| {
            let (address, words) = (address(call), decisions_of(call.kind));
            format!("  decide with: loopwright sessions decide {id}{address} {words}")
        }));
        lines.iter().map(|line| sanitize_terminal(line) + "\n").collect()
    }
}
