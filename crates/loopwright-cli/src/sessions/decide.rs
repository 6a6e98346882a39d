//! `sessions decide`: decisions about waiting calls, and answers to their questions.

mod lasting;

use std::collections::BTreeSet;
use std::sync::Arc;

use loopwright_core::{
    AgentState, ApprovalDecision, Arguments, PendingApproval, RequestKind, ToolOutput,
};
use loopwright_sessions::{
    AgentSession, DecideCall, DecideShown, InvalidRequestAddress, JobQuery, JobRecord, JobStatus,
    Owner, RequestAddress, SessionHeader, SessionId, SessionStatus, SessionStore, ShownRequest,
    snapshot_owner,
};
use serde_json::{Map, Value};

use self::lasting::{LastingDecision, Waiting};
use super::change::owner;
use crate::approval::Scope;
use crate::args::Cli;
use crate::args::sessions::DecideArgs;
use crate::chosen_rules::deciding;
use crate::console;
use crate::exit::ExitCode;
use crate::loops::maintenance_runtime;
use crate::session::{SessionsError, address, decisions, find, now, short};

/// The result for the model of a question that was denied without a reason.
pub(crate) const DECLINED: &str = "the user declined to answer";

/// How many of a session's latest jobs are looked at.
const MAX_JOBS: usize = 50;

/// The reason for the model why an interrupted call is not repeated, if the user gave none.
const NOT_AGAIN: &str = "the user decided not to repeat the call";

/// What was typed: a call, and a decision about it.
#[derive(Clone, Debug, PartialEq)]
struct Typed {
    /// The address of the call. `None` means the only one that waits.
    address: Option<RequestAddress>,
    /// The word for the decision.
    word: String,
    decision: UserDecision,
}

/// A decision as it is typed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UserDecision {
    /// Run the call, with these arguments if there are any.
    Approve(Option<String>),
    /// Do not run it, for this reason if there is one.
    Deny(Option<String>),
    /// Do not run it, for this reason if there is one, and stop the run.
    Stop(Option<String>),
    /// It was done, with this result if there is one.
    MarkDone(Option<String>),
    /// Answer what the tool asks, or give the result of a tool that runs elsewhere.
    Reply(String),
    /// The tool that runs elsewhere failed.
    Fail(String),
    /// Leave the question unanswered.
    Cancel,
}

/// Decides about a call that waits.
pub(super) async fn decide(
    cli: &Cli,
    store: &Arc<dyn SessionStore>,
    args: &DecideArgs,
    store_option: &str,
) -> Result<ExitCode, SessionsError> {
    let header = find(&**store, &args.id.id).await?;
    let Typed { address: typed, word, decision } = Typed::read(&args.what)?;
    let session = maintenance_runtime(store).session(&header.id).await?;
    let pending = session.state().pending();
    let is_clear = typed.is_some() || pending.len() == 1;
    let asked = match &typed {
        Some(address) => address.find(&session)?,
        None => pending.into_iter().next(),
    };
    let asked = asked.as_ref();
    if let Some(asked) = asked.filter(|_| is_clear) {
        check_word(&word, asked)?;
    }
    let scope = match (args.always, args.session) {
        (true, _) => Some(Scope::Project),
        (false, true) => Some(Scope::Session),
        (false, false) => None,
    };
    let lasting = match (asked, scope) {
        (Some(asked), Some(scope)) => {
            let waiting = Waiting { header: &header, state: session.state(), asked };
            Some(LastingDecision::of(cli, waiting, &decision, scope)?)
        }
        _ => None,
    };
    if let Some(lasting) = lasting.as_ref().filter(|_| !args.yes)
        && !lasting.is_confirmed()?
    {
        console::tell("nothing decided");
        return Ok(ExitCode::Done);
    }
    let resolution = decision.of(asked, session.state());
    let runtime = maintenance_runtime(store);
    let run = root(&**store, &header).await?;
    // A worker can continue the job as soon as the decision is recorded.
    let had_job = has_job(&**store, &run.id).await;
    let path = typed.map(|it| it.path);
    let shown = |it| ShownRequest::of(&header.id, session.state(), it);
    let decided = match asked.filter(|_| is_clear).map(shown) {
        Some(request) => {
            let decide = DecideShown { request, resolution };
            let rules = lasting.as_ref().map(LastingDecision::of_session).unwrap_or_default();
            runtime.execute(&header.id, &deciding(decide, rules)).await
        }
        // Why there is no such request is said.
        None => runtime.execute(&header.id, &DecideCall { path, resolution }).await,
    };
    let session = decided?;
    let unsaved = lasting.and_then(|it| it.keep().err());
    // The decision is on record, even if the store does not respond any more.
    match next(&**store, &session, &run, had_job, store_option).await {
        Ok(next) => console::tell(&format!("decided; {next}")),
        Err(_) => console::tell("decided"),
    }
    let Some(error) = unsaved else { return Ok(ExitCode::Done) };
    let reason = console::chain(&error);
    console::warn(&format!("the decision is recorded, but its rule is not saved: {reason}"));
    Ok(error.exit_code())
}

/// Checks that a word is for this kind of request: `retry` for a call that never ran would run it, and `done` would
/// report that it ran.
fn check_word(word: &str, asked: &PendingApproval<'_>) -> Result<(), SessionsError> {
    let (fits, kind) = match word {
        "retry" | "done" | "mark-done" | "skip" => {
            (asked.question.is_recovery(), "an interrupted call")
        }
        "decline" => (matches!(asked.kind, RequestKind::Question { .. }), "a question"),
        _ => return Ok(()),
    };
    if fits {
        return Ok(());
    }
    let available: Vec<String> = decisions(asked).split('|').map(|it| format!("`{it}`")).collect();
    Err(SessionsError::Usage(format!(
        "`{word}` applies only to {kind}, but this request is not one; available: {}",
        available.join(", ")
    )))
}

/// Returns what continues the run of a session after a decision, or the command that does.
async fn next(
    store: &dyn SessionStore,
    session: &AgentSession,
    run: &SessionHeader,
    had_job: bool,
    store_option: &str,
) -> Result<String, SessionsError> {
    let (pending, now) = (session.state().pending(), now());
    let waiting = pending.iter().filter(|it| !it.question.is_expired(now));
    let rest: Vec<String> = waiting.map(address).collect();
    if !rest.is_empty() {
        return Ok(format!("calls still waiting: {}", rest.join(", ")));
    }
    let id = short(&run.id);
    if run.status != SessionStatus::Active {
        return Ok(format!(
            "the session accepts no messages; change that with: loopwright sessions resume {id}{store_option}"
        ));
    }
    if had_job || has_job(store, &run.id).await {
        return Ok("a worker continues the job".to_owned());
    }
    let me = Owner::this_process().to_string();
    if let Some(owner) = owner(store, run).await?.filter(|it| **it != *me) {
        return Ok(format!("the run continues in {}", Owner::describe(&owner)));
    }
    if snapshot_owner(store, run).await?.is_some() {
        return Ok(format!("resume with: loopwright submit --session {id}{store_option}"));
    }
    Ok(format!("resume with: loopwright run --resume {id}{store_option}"))
}

/// Returns the session whose run a session belongs to: its own, or that of the agent that started a sub-agent.
async fn root(
    store: &dyn SessionStore,
    header: &SessionHeader,
) -> Result<SessionHeader, SessionsError> {
    let mut header = header.clone();
    // Imported sessions can name each other as parents.
    let mut seen = BTreeSet::from([header.id.clone()]);
    while let Some(parent) = header.works_for() {
        match store.header(parent).await? {
            Some(parent) if seen.insert(parent.id.clone()) => header = parent,
            _ => break,
        }
    }
    Ok(header)
}

/// Returns `true` if a job of the session waits for its decisions, or continues after them: workers continue it.
async fn has_job(store: &dyn SessionStore, id: &SessionId) -> bool {
    let Some(queue) = store.jobs() else { return false };
    let query = JobQuery { session: Some(id.clone()), ..JobQuery::last(MAX_JOBS) };
    let is_continued = |it: &JobRecord| !it.status.is_over() || it.status == JobStatus::NeedsInput;
    queue.records(&query).await.is_ok_and(|it| it.iter().any(is_continued))
}

impl Typed {
    fn read(what: &[String]) -> Result<Self, SessionsError> {
        let usage = |it: InvalidRequestAddress| SessionsError::Usage(it.to_string());
        let (address, rest) = match what.split_first() {
            Some((first, rest)) if first.starts_with(|it: char| it.is_ascii_digit()) => {
                (Some(first.parse().map_err(usage)?), rest)
            }
            _ => (None, what),
        };
        let (word, decision) = match rest {
            [word] => (word, UserDecision::read(word, None)?),
            [word, text] => (word, UserDecision::read(word, Some(text.clone()))?),
            _ => return Err(SessionsError::Usage("pass one decision at a time".to_owned())),
        };
        Ok(Self { address, word: word.clone(), decision })
    }
}

impl UserDecision {
    fn read(word: &str, text: Option<String>) -> Result<Self, SessionsError> {
        let refused = |text: String| Err(SessionsError::Usage(text));
        match (word, text) {
            ("approve" | "retry", arguments) => Ok(Self::Approve(arguments)),
            ("deny" | "decline" | "skip", reason) => Ok(Self::Deny(reason)),
            ("stop", reason) => Ok(Self::Stop(reason)),
            ("mark-done" | "done", result) => Ok(Self::MarkDone(result)),
            ("reply" | "result", Some(answer)) => Ok(Self::Reply(answer)),
            ("error", Some(message)) => Ok(Self::Fail(message)),
            ("cancel", None) => Ok(Self::Cancel),
            ("reply", None) => refused("the answer is missing; write `reply ANSWER`".to_owned()),
            ("result", None) => refused("the result is missing; write `result JSON`".to_owned()),
            ("error", None) => refused("the message is missing; write `error TEXT`".to_owned()),
            (other, _) => refused(format!(
                "unknown decision `{other}`; available: `approve`, `deny`, `stop`, `reply`, `decline`, `cancel`, \
                 `result`, `error`, `retry`, `done`, `skip`"
            )),
        }
    }

    /// Returns the decision as it is recorded, about this call if it waits.
    pub(crate) fn of(
        self,
        asked: Option<&PendingApproval<'_>>,
        state: &AgentState,
    ) -> ApprovalDecision {
        let default = match asked {
            Some(it) if matches!(it.kind, RequestKind::Question { .. }) => DECLINED,
            Some(it) if it.question.is_recovery() => NOT_AGAIN,
            _ => "the user denied the call",
        };
        match self {
            Self::Approve(None) => ApprovalDecision::Approve,
            Self::Approve(Some(json)) => {
                ApprovalDecision::ApproveWith { arguments: Arguments::new(json) }
            }
            Self::Deny(reason) => {
                ApprovalDecision::Deny { reason: reason.unwrap_or_else(|| default.to_owned()) }
            }
            Self::Stop(reason) => {
                let reason = reason.unwrap_or_else(|| default.to_owned());
                ApprovalDecision::DenyAndStop { reason }
            }
            Self::Fail(message) => ApprovalDecision::Fail { message },
            Self::Cancel => ApprovalDecision::Cancel,
            Self::MarkDone(None) => ApprovalDecision::Answer(ToolOutput::text(
                "The user reports that this was done; its result is unknown.",
            )),
            Self::MarkDone(Some(result)) => ApprovalDecision::Answer(ToolOutput::text(result)),
            Self::Reply(answer) => reply(answer, asked, state),
        }
    }
}

/// Takes an answer as JSON, as what is filled into a form, or as the text that it is: the first of them that fits.
fn reply(
    answer: String,
    asked: Option<&PendingApproval<'_>>,
    state: &AgentState,
) -> ApprovalDecision {
    let fits = |it: &ApprovalDecision| {
        asked.is_some_and(|asked| state.try_decide(&asked.address(), it.clone()).is_ok())
    };
    let json = serde_json::from_str(&answer).ok().map(ApprovalDecision::Reply);
    let filled = asked.and_then(|it| filled(&answer, it)).map(ApprovalDecision::Reply);
    let text = ApprovalDecision::Reply(Value::String(answer));
    let readings = [json.as_ref(), filled.as_ref(), Some(&text)];
    let fitting = readings.into_iter().flatten().find(|it| fits(it)).cloned();
    fitting.or(filled).or(json).unwrap_or(text)
}

/// Returns the fields of a form that a question asks for, with their schemas.
fn form_fields<'a>(asked: &PendingApproval<'a>) -> Option<&'a Map<String, Value>> {
    match asked.kind {
        RequestKind::Question { schema } => schema.as_deref()?.get("properties")?.as_object(),
        _ => None,
    }
}

/// Returns `true` if a question is a form of several fields, and an answer is neither JSON nor the value of one of them.
pub(crate) fn misses_form(answer: &str, asked: &PendingApproval<'_>) -> bool {
    form_fields(asked).is_some_and(|it| it.len() > 1)
        && filled(answer, asked).is_none()
        && !serde_json::from_str(answer).is_ok_and(|it: Value| it.is_object())
}

/// Reads what is filled into a form: the value of its only field, or `NAME=WORDS` for each one. Commas separate
/// the texts of a list.
fn filled(answer: &str, asked: &PendingApproval<'_>) -> Option<Value> {
    let fields = form_fields(asked)?;
    let mut given: Vec<(&str, String)> = Vec::new();
    for word in answer.split_whitespace() {
        match word.split_once('=').filter(|(name, _)| fields.contains_key(*name)) {
            Some((name, value)) => given.push((name, value.to_owned())),
            None => match given.last_mut() {
                Some((_, value)) => value.extend([" ", word]),
                None => break,
            },
        }
    }
    let mut names = fields.keys();
    if let (true, Some(only), None) = (given.is_empty(), names.next(), names.next()) {
        given.push((only, answer.trim().to_owned()));
    }
    let value = |name: &str, text: String| match fields[name]["type"].as_str() {
        Some("string") => Value::String(text),
        Some("array") if !text.trim_start().starts_with('[') => {
            text.split(',').map(|it| Value::String(it.trim().to_owned())).collect()
        }
        _ => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    };
    let members: Map<String, Value> =
        given.into_iter().map(|(name, text)| (name.to_owned(), value(name, text))).collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use loopwright_agent::AgentDefinition;
    use loopwright_sessions::{MemoryStore, NewSession, SessionFactory};

    use super::*;

    /// Keeps the session of a sub-agent.
    async fn keep(store: &MemoryStore, name: &str, parent: &str) -> SessionHeader {
        let id = |name: &str| SessionId::new(name).unwrap();
        let definition = AgentDefinition::new("agent", "Works.", "");
        let session =
            SessionFactory::new().create_from(definition, AgentState::new(), id(name), now());
        let (parent, call) = (Some(id(parent)), Some("call".into()));
        let header = SessionHeader { parent, call, ..session.header().clone() };
        let new = NewSession { header: &header, definition: session.definition(), changes: &[] };
        store.create(new).await.unwrap()
    }

    #[tokio::test]
    async fn the_run_of_imported_sessions_that_name_each_other_as_parents_is_found() {
        let store = MemoryStore::new();
        let (first, second) = (keep(&store, "a", "b").await, keep(&store, "b", "a").await);
        let own = keep(&store, "c", "c").await;
        let mut found = Vec::new();
        for header in [&first, &second, &own] {
            found.push(root(&store, header).await.unwrap().id);
        }
        assert_eq!(found, [second.id, first.id, own.id]);
    }

    fn read(what: &[&str]) -> Option<(Option<RequestAddress>, UserDecision)> {
        let typed = Typed::read(&what.iter().map(ToString::to_string).collect::<Vec<_>>()).ok()?;
        Some((typed.address, typed.decision))
    }

    #[test]
    fn a_decision_is_a_word_and_perhaps_a_call_before_it_and_a_text_behind_it() {
        let of = |path: Option<&[u16]>, decision| {
            let address = path.map(|it| RequestAddress { path: it.to_vec(), tag: None });
            Some((address, decision))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read(&["approve"]), of(None, UserDecision::Approve(None)));
        assert_eq!(read(&["1", "approve"]), of(Some(&[1]), UserDecision::Approve(None)));
        assert_eq!(read(&["0.2.1", "deny"]), of(Some(&[0, 2, 1]), UserDecision::Deny(None)));
        assert_eq!(read(&["deny", "no"]), of(None, UserDecision::Deny(text("no"))));
        assert_eq!(read(&["approve", "{}"]), of(None, UserDecision::Approve(text("{}"))));
        assert_eq!(read(&["0", "mark-done"]), of(Some(&[0]), UserDecision::MarkDone(None)));
        assert_eq!(read(&["0", "reply", "7"]), of(Some(&[0]), UserDecision::Reply("7".to_owned())));
        assert_eq!(
            read(&["0", "result", "7"]),
            of(Some(&[0]), UserDecision::Reply("7".to_owned()))
        );
        assert_eq!(read(&["error", "x"]), of(None, UserDecision::Fail("x".to_owned())));
        assert_eq!(read(&["stop"]), of(None, UserDecision::Stop(None)));
        assert_eq!(read(&["retry"]), read(&["approve"]));
        assert_eq!(read(&["skip", "no"]), read(&["deny", "no"]));
        assert_eq!(read(&["decline"]), read(&["deny"]));
        assert_eq!(read(&["0", "cancel"]), of(Some(&[0]), UserDecision::Cancel));
        assert_eq!(read(&["done", "ok"]), read(&["mark-done", "ok"]));
        for wrong in [
            &["maybe"][..],
            &["x", "done"],
            &["-1", "done"],
            &["done", "1", "2"],
            &["result"],
            &["error"],
            &["0."],
            &["0.", "deny"],
            &["reply"],
            &["0"],
            &["1", "deny", "a", "b"],
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
