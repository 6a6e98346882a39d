//! `sessions list`.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum as _;
use loopwright_core::Timestamp;
use loopwright_sessions::{
    SessionCursor, SessionHeader, SessionList, SessionQuery, SessionRelation, SessionStatus,
    SessionStore,
};
use serde_json::{Value, json};

use super::last_run::last_runs;
use crate::args::sessions::{LIMIT, ListArgs};
use crate::console;
use crate::exit::ExitCode;
use crate::render::{quoted, single_line};
use crate::report::SCHEMA_VERSION;
use crate::session::{SessionsError, now, short};

/// The most characters of a title that are shown.
const TITLE: usize = 50;

/// Lists sessions, the latest first.
pub(super) async fn list(
    store: &dyn SessionStore,
    args: &ListArgs,
    workdir: &Path,
    of_store: &impl Fn(&str) -> String,
) -> Result<ExitCode, SessionsError> {
    let query = SessionQuery {
        status: args.status.map(Into::into),
        agent_name: args.agent.as_deref().map(Into::into),
        workdir: (!args.all).then(|| workdir.to_string_lossy().into()),
        kinship: if args.all { SessionRelation::Any } else { SessionRelation::TopLevel },
        after: args.cursor.as_deref().map(cursor).transpose()?,
        limit: args.limit as usize,
        ..SessionQuery::default()
    };
    let page = store.list(&query).await?;
    let next = page.next.as_ref().map(ToString::to_string);
    let runs = last_runs(store, &page.sessions).await;
    if args.json {
        let session = |(header, run): (&SessionHeader, Option<&str>)| {
            let mut session = json!(header);
            session["last_run"] = json!(run);
            session
        };
        let sessions: Vec<Value> =
            page.sessions.iter().zip(runs.iter().copied()).map(session).collect();
        return Ok(console::print_json(&json!({
            "schema_version": SCHEMA_VERSION, "sessions": sessions, "next": next,
            "unreadable": page.unreadable,
        })));
    }
    let exit_code = console::print(table(&page, &runs, args.all).as_bytes());
    for id in &page.unreadable {
        console::warn(&format!("session {} is damaged and cannot be read", short(id)));
    }
    if !page.unreadable.is_empty() {
        console::tell(&format!("run `{}` for the cause and the remedy", of_store("check")));
    }
    if page.is_empty() {
        let where_else = if args.all {
            ""
        } else {
            " in this directory; --all lists the sessions of all directories"
        };
        console::tell(&format!("no sessions{where_else}"));
    }
    if let Some(next) = next {
        console::tell(&format!("more with: {} --cursor {next}", of_store(&typed(args))));
    }
    Ok(exit_code)
}

/// Returns what was typed to list these, but for the page.
fn typed(args: &ListArgs) -> String {
    let mut words = vec!["list".to_owned()];
    if args.all {
        words.push("--all".to_owned());
    }
    if args.limit != LIMIT {
        words.push(format!("--limit {}", args.limit));
    }
    if let Some(status) = args.status.and_then(|it| it.to_possible_value()) {
        words.push(format!("--status {}", status.get_name()));
    }
    if let Some(agent) = &args.agent {
        words.push(format!("--agent {}", quoted(agent)));
    }
    words.join(" ")
}

/// Returns names with titles, the latest first; nothing if the store fails.
pub(super) async fn names(store: &dyn SessionStore, most: usize) -> Vec<(String, String)> {
    let page = store.list(&SessionQuery::first(most)).await.unwrap_or_default();
    let name = |it: SessionHeader| (it.id.to_string(), title(&it, TITLE));
    page.sessions.into_iter().map(name).collect()
}

fn table(page: &SessionList, runs: &[Option<&'static str>], with_workdir: bool) -> String {
    let now = now();
    let width = page.sessions.iter().map(|it| short(&it.id).len()).max().unwrap_or_default();
    let row = |(it, run): (&SessionHeader, Option<&'static str>)| {
        let (id, age) = (short(&it.id), age(it.updated_at, now));
        let status = status(it, run);
        let workdir = it.workdir.as_deref().filter(|_| with_workdir);
        let workdir = workdir.map_or(String::new(), |it| format!("  {}", single_line(it, 200)));
        let row = format!("{id:width$}  {age:>8}  {status:10}  {}{workdir}", title(it, TITLE));
        row.trim_end().to_owned() + "\n"
    };
    page.sessions.iter().zip(runs.iter().copied()).map(row).collect()
}

/// Returns how the last run ended; for a session that takes no messages, why it does not.
fn status(header: &SessionHeader, run: Option<&'static str>) -> &'static str {
    match header.status {
        SessionStatus::Active => run.unwrap_or(header.status.as_str()),
        status => status.as_str(),
    }
}

fn title(header: &SessionHeader, most: usize) -> String {
    single_line(header.title.as_deref().unwrap_or_default(), most)
}

/// Says in a few characters how long ago something was.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let gone: Duration = now.since(then);
    match gone.as_secs() {
        seconds @ 0..MINUTE => format!("{seconds} s"),
        seconds @ MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        seconds @ HOUR..DAY => format!("{} h", seconds / HOUR),
        seconds => format!("{} d", seconds / DAY),
    }
}

fn cursor(text: &str) -> Result<SessionCursor, SessionsError> {
    text.parse::<SessionCursor>().map_err(|error| {
        SessionsError::Usage(format!(
            "{error}; use the cursor printed at the end of the previous page"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_for_people() {
        let age =
            |seconds: u64| age(Timestamp::from_millis(0), Timestamp::from_millis(seconds * 1000));
        assert_eq!([0, 59, 60, 3599].map(age), ["0 s", "59 s", "1 min", "59 min"]);
        assert_eq!([3600, 86_399, 86_400, 8_640_000].map(age), ["1 h", "23 h", "1 d", "100 d"]);
    }
}
