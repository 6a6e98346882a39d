//! `sessions show`.

use std::fmt::Write as _;
use std::time::Duration;

use loopwright_core::{AgentState, CallState, ChangeRecord};
use loopwright_sessions::{LoadedSession, Salvaged, SessionError, SessionStore, StoreError};
use serde_json::json;

use super::SessionHistory;
use super::history::HistoryEntry;
use crate::args::sessions::ShowArgs;
use crate::console;
use crate::exit::ExitCode;
use crate::render::{count, duration, number, sanitize_terminal, single_line, summary, truncate};
use crate::report::{SCHEMA_VERSION, Tokens};
use crate::session::{SessionsError, address, decisions, find, short, waiting_call};

/// The width that lines of tools keep to.
const WIDTH: usize = 80;

/// How many lines of what a tool returned are shown.
const LINES: usize = 8;

/// Shows what was said and done in a session.
pub(super) async fn show(
    store: &dyn SessionStore,
    args: &ShowArgs,
) -> Result<ExitCode, SessionsError> {
    let header = match find(store, &args.id.id).await {
        // Its name was written as a whole, and its intact steps can be shown.
        Err(SessionsError::Damaged { id, .. }) => id,
        found => found?.id,
    };
    let (salvaged, damage) = match store.load(&header).await {
        Ok(loaded) => (loaded.map(whole), None),
        Err(StoreError::Corrupt { reason, id }) => match store.salvage(&header).await {
            Ok(salvaged) => (salvaged, Some(reason)),
            Err(_) => return Err(SessionsError::Damaged { id, reason }),
        },
        Err(error) => return Err(error.into()),
    };
    let loaded = salvaged.ok_or_else(|| StoreError::NotFound(header.clone()))?;
    let state = if loaded.gaps.is_empty() {
        let replayed = AgentState::new().replay(loaded.changes.iter().cloned());
        replayed.map_err(|source| SessionError::Replay { id: header.clone(), source })?
    } else {
        intact(&loaded)
    };
    let missing = match damage {
        Some(reason) => Some(reason),
        None => store.missing(&header).await?.map(|it| it.problem),
    };
    let told = SessionHistory::of(&loaded.changes);
    let exit_code = if args.json {
        console::print_json(&in_json(&loaded, &state, &told, missing.as_deref()))
    } else {
        let extent = if args.full { Extent::Full } else { Extent::Short };
        console::print(in_words(&loaded, &state, &told, extent).as_bytes())
    };
    if let Some(missing) = &missing {
        tell_missing(&loaded, missing);
    }
    Ok(if loaded.gaps.is_empty() { exit_code } else { ExitCode::Internal })
}

fn whole(loaded: LoadedSession) -> Salvaged {
    Salvaged { header: loaded.header, changes: loaded.changes, gaps: Vec::new() }
}

/// Applies the intact changes of a damaged session, except those that need a missing one.
fn intact(salvaged: &Salvaged) -> AgentState {
    let apply = |state: AgentState, change: &ChangeRecord| {
        state.clone().replay([change.clone()]).unwrap_or(state)
    };
    salvaged.changes.iter().fold(AgentState::new(), apply)
}

/// Says what is missing of a session, and what to do about it.
fn tell_missing(salvaged: &Salvaged, missing: &str) {
    let id = short(&salvaged.header.id);
    console::warn(&format!("session {id} is incomplete: {}", sanitize_terminal(missing)));
    let lost: u64 = salvaged.gaps.iter().map(|it| it.end - it.start).sum();
    if lost > 0 {
        console::tell(&format!(
            "{} of {} cannot be read; `loopwright sessions check --repair` keeps the records before the first damaged record",
            count(lost, "change"),
            salvaged.header.length
        ));
    } else {
        console::tell(&format!(
            "later tool calls may have taken effect; to continue from here: loopwright sessions resume {id}"
        ));
    }
}

fn in_json(
    loaded: &Salvaged,
    state: &AgentState,
    story: &SessionHistory,
    missing: Option<&str>,
) -> serde_json::Value {
    let spent = state.total_spent();
    let pending = state.pending();
    let pending: Vec<_> = pending
        .iter()
        .map(|it| {
            json!({
                "call": it.index, "address": address(it), "kind": it.kind.as_str(), "tool": it.call.name,
                "arguments": it.call.parse_arguments().ok(), "question": it.question.text,
            })
        })
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "session": loaded.header,
        "model": model(state),
        "status": state.status().as_str(),
        "steps": state.total_steps(),
        "usage": Tokens::from(spent.usage),
        "cost_usd": Some(spent.cost.dollars()).filter(|it| *it > 0.0),
        "pending": pending,
        "missing": missing,
        "gaps": loaded.gaps.iter().map(|it| [it.start, it.end]).collect::<Vec<_>>(),
        "entries": story.entries,
    })
}

fn model(state: &AgentState) -> Option<String> {
    let llm = state.llm()?;
    let parts = [&llm.provider, &llm.model];
    Some(parts.into_iter().flatten().map(|it| &**it).collect::<Vec<_>>().join("/"))
}

/// How much of a call is shown.
#[derive(Clone, Copy)]
enum Extent {
    /// One line of its arguments and the first lines of its result.
    Short,
    /// All of both.
    Full,
}

fn in_words(
    loaded: &Salvaged,
    state: &AgentState,
    story: &SessionHistory,
    extent: Extent,
) -> String {
    let mut text = head(loaded, state);
    for told in &story.entries {
        entry(&mut text, &told.entry, extent);
    }
    tail(&mut text, loaded, state);
    text
}

/// What is known of the session as a whole.
fn head(loaded: &Salvaged, state: &AgentState) -> String {
    let header = &loaded.header;
    let spent = state.total_spent();
    let title = single_line(header.title.as_deref().unwrap_or_default(), WIDTH);
    let mut text = format!("{} · {} · {title}\n", header.id, header.status);
    let model = model(state).map(|it| single_line(&it, WIDTH));
    let workdir = header.workdir.as_deref().map(sanitize_terminal);
    let parts = [Some(single_line(&header.agent_name, WIDTH)), model, workdir];
    writeln!(text, "{}", join(parts)).ok();
    let steps = count(state.total_steps(), "step");
    let tokens = Some(spent.usage.total()).filter(|it| *it > 0);
    let tokens = tokens.map(|it| format!("{} tokens", number(it)));
    let cost = Some(spent.cost.dollars()).filter(|it| *it > 0.0).map(|it| format!("${it:.4}"));
    let created = Some(format!("created {}", header.created_at));
    let written = Some(format!("written {}", header.updated_at));
    writeln!(text, "{}", join([Some(steps), tokens, cost, created, written])).ok();
    if let Some(parent) = &header.parent {
        let what = if header.call.is_some() { "sub-agent" } else { "fork" };
        writeln!(text, "{what} of {parent}").ok();
    }
    text
}

fn join<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn entry(text: &mut String, entry: &HistoryEntry, extent: Extent) {
    match entry {
        HistoryEntry::Said { role: "user", text: said } => {
            let said = sanitize_terminal(said).replace('\n', "\n> ");
            writeln!(text, "\n> {said}\n").ok();
        }
        HistoryEntry::Said { role, text: said } => {
            writeln!(text, "\n[{role}] {}\n", sanitize_terminal(said)).ok();
        }
        HistoryEntry::Began { .. } | HistoryEntry::Ended { status: "completed", .. } => {}
        HistoryEntry::Resumed => {
            text.push_str("(resumed)\n");
        }
        HistoryEntry::Answered { text: said, .. } if said.trim().is_empty() => {}
        HistoryEntry::Answered { text: said, .. } => {
            writeln!(text, "{}", sanitize_terminal(said.trim())).ok();
        }
        HistoryEntry::Called { tool, arguments, success, failure, output, .. } => {
            let mark = if *success && failure.is_none() { '✓' } else { '✗' };
            let arguments = arguments.to_string();
            let asked = match extent {
                Extent::Short => summary(&arguments, WIDTH - 35),
                Extent::Full => sanitize_terminal(&arguments),
            };
            let called = format!("  {mark} {} {asked}", single_line(tool, 30));
            let failure = failure.as_ref().map(|it| format!(" · {it}")).unwrap_or_default();
            writeln!(text, "{}{failure}", called.trim_end()).ok();
            returned(text, output, extent);
        }
        HistoryEntry::Asked { address, tool, question, .. } => {
            let question = sanitize_terminal(question);
            writeln!(text, "  ? call {address}, {}: {question}", single_line(tool, 30)).ok();
        }
        HistoryEntry::Decided { address, decision, .. } => {
            writeln!(text, "  ! call {address}: {decision}").ok();
        }
        HistoryEntry::Step { step, usage, cost_usd, duration_ms, error } => {
            if let Some(error) = error {
                writeln!(text, "  ✗ {}", sanitize_terminal(error)).ok();
            }
            let tokens = Some(usage.total).filter(|it| *it > 0);
            let tokens = tokens.map(|it| format!("{} tokens", number(it)));
            let cost = cost_usd.map(|it| format!("${it:.4}"));
            let took = Some(duration(Duration::from_millis(*duration_ms)));
            let parts = join([Some(format!("step {step}")), tokens, cost, took]);
            writeln!(text, "  — {parts}").ok();
        }
        HistoryEntry::Changed { what } => {
            writeln!(text, "({})", sanitize_terminal(what)).ok();
        }
        HistoryEntry::Paused => text.push_str("(waiting for a decision)\n"),
        HistoryEntry::Ended { status, reason } => {
            let reason = reason.as_deref().map(sanitize_terminal).unwrap_or_default();
            writeln!(text, "({status}: {reason})").ok();
        }
    }
}

fn returned(text: &mut String, output: &str, extent: Extent) {
    if let Extent::Full = extent {
        for line in sanitize_terminal(output).lines() {
            writeln!(text, "    {line}").ok();
        }
        return;
    }
    let lines: Vec<&str> = output.lines().collect();
    for shown in lines.iter().take(LINES) {
        let shown = truncate(&sanitize_terminal(&shown.replace('\t', "  ")), WIDTH - 4);
        writeln!(text, "    {shown}").ok();
    }
    if lines.len() > LINES {
        writeln!(text, "    … {}", count((lines.len() - LINES) as u64, "more line")).ok();
    }
}

/// What waits, and the commands that continue.
fn tail(text: &mut String, loaded: &Salvaged, state: &AgentState) {
    let id = short(&loaded.header.id);
    let pending = state.pending();
    for it in &pending {
        let (call, question) = (address(it), sanitize_terminal(&it.question.text));
        writeln!(text, "\nwaiting: call {call}, {}: {question}", waiting_call(it)).ok();
        let decisions = decisions(it);
        writeln!(text, "  decide with: loopwright sessions decide {id} {call} {decisions}").ok();
    }
    let open = state.execution().and_then(|it| it.open_step());
    if let Some(open) = open.filter(|_| pending.is_empty()) {
        let begun = |it: &&CallState| matches!(it, CallState::Started { .. });
        let begun = open.calls().iter().filter(begun).count() as u64;
        let calls = if begun > 0 {
            format!(" with {} whose outcome is unknown", count(begun, "call"))
        } else {
            String::new()
        };
        let step = state.total_steps() + 1;
        writeln!(text, "\ninterrupted in step {step}{calls}").ok();
        writeln!(text, "  resume with: loopwright run --resume {id}").ok();
    }
}
