//! The dialog about waiting calls: the call, and the user's answer.

mod anew;
pub(crate) mod elsewhere;
mod show;

use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_capabilities::bash::Bash;
use loopwright_core::{
    AgentState, ApprovalDecision, BoxError, PendingApproval, RequestKind,
    messages::{Cost, ToolCall},
};
use loopwright_permissions::{Call, Decision, Mode, Policy};
use loopwright_sessions::{
    AgentSession, DecideShown, SessionError, SessionId, SessionRuntime, ShownRequest,
};
use serde_json::{Map, Value, json};

use self::anew::decided_anew;
use self::elsewhere::{FINISHED, SETTLED, SUPERSEDED, closed, finished};
use self::show::{expected, explain, show};
use crate::agent::Setup;
use crate::chat_commands::is_command;
use crate::chosen_rules::{self, ChosenRule, deciding};
use crate::commands::are_confined;
use crate::config::{Config, ConfigSources};
use crate::console;
use crate::conversation::{Conversation, UserInput};
use crate::cost_consent::{self, CostAnswer};
use crate::display::RunDisplay;
use crate::exit::ExitCode;
use crate::folders::FoldersError;
use crate::form;
use crate::input::{AskedAbout, Input, InputEvent};
use crate::loops::{FixedLoop, maintenance_runtime};
use crate::notify;
use crate::permissions::{RunPermissions, is_confined};
use crate::report::needed;
use crate::session::{SessionsError, now};
use crate::sessions::{DECLINED, UserDecision, misses_form};
use crate::signals::{Signals, input_exit_code};
use crate::startup::NoopListener;

/// How long a turn takes after which the terminal is told that it is done.
const LONG: Duration = Duration::from_secs(10);

/// How a turn ends.
pub(crate) enum Turned {
    /// So that another turn can follow.
    Ended(ExitCode),
    /// The input has ended, or a signal ends the program.
    Left(ExitCode),
}

/// Takes a turn. Where a user is there to answer, asks about the calls that wait and continues until none waits.
pub(crate) async fn say(
    conversation: &mut Conversation,
    stage: RunDisplay,
    mut signals: Option<&mut Signals>,
    mut said: UserInput,
    mut input: Option<&mut Input>,
) -> Turned {
    conversation.attend(input.is_some());
    conversation.asks_about_cost = input.is_some();
    let whole = conversation.budget;
    let began = Instant::now();
    let notifies = conversation.notifies && input.is_some();
    loop {
        let reader = input.as_deref_mut();
        let exit_code = conversation.say(stage, signals.as_deref_mut(), said, reader).await;
        conversation.budget = whole;
        if let (ExitCode::Limit, Some(input)) = (exit_code, input.as_deref_mut()) {
            match ask_about_cost(conversation, input, signals.as_deref_mut()).await {
                Ok(CostAnswered::Continue(left)) => {
                    conversation.budget.cost = left.or(whole.cost);
                    said = UserInput::default();
                    continue;
                }
                Ok(CostAnswered::Stop) => return Turned::Ended(exit_code),
                Ok(CostAnswered::Left(event)) => {
                    return Turned::Left(input_exit_code(&event, exit_code));
                }
                Err(error) => return Turned::Ended(console::fail(&error, error.exit_code())),
            }
        }
        if std::mem::take(&mut conversation.has_unheard) && exit_code == ExitCode::Done {
            // What was typed as the run ended is heard now.
            said = UserInput::default();
            continue;
        }
        let id = conversation.session.clone().filter(|_| exit_code == ExitCode::NeedsInput);
        if let (Some(id), Some(hooks)) = (&id, conversation.setup.hooks()) {
            hooks.notify(id.as_str()).await;
        }
        if let (Some(id), Some(settings)) = (&id, conversation.setup.permissions.notify())
            && let Ok(session) = maintenance_runtime(&conversation.store).session(id).await
        {
            notify::waiting(settings, id.as_str(), &needed(session.state())).await;
        }
        let (Some(id), Some(input)) = (id, input.as_deref_mut()) else {
            if notifies && began.elapsed() >= LONG {
                console::notify("Loopwright is done");
            }
            return Turned::Ended(exit_code);
        };
        if notifies {
            console::notify("Loopwright is waiting for your answer");
        }
        match decide(conversation, stage, &id, input, signals.as_deref_mut()).await {
            Ok(Decided::All) => match finished(&conversation.store, &id).await {
                Ok(Some(session)) => {
                    console::tell(FINISHED);
                    let ended = conversation.show_ended(&session, stage, signals);
                    return Turned::Ended(ended.await);
                }
                Ok(None) => said = UserInput::default(),
                Err(error) => return Turned::Ended(console::fail(&error, error.exit_code())),
            },
            Ok(Decided::Later) => return Turned::Ended(exit_code),
            Ok(Decided::Left(event)) => return Turned::Left(input_exit_code(&event, exit_code)),
            Err(error) => return Turned::Ended(console::fail(&error, error.exit_code())),
        }
    }
}

/// How the question about a cost limit ends.
enum CostAnswered {
    /// The turn continues, up to a limit if it is another than before.
    Continue(Option<Cost>),
    /// The turn is over, or stopped for another reason.
    Stop,
    /// The input has ended, or a signal ends the program.
    Left(InputEvent),
}

/// Asks whether a turn continues that has nearly reached its cost limit, and records the answer.
async fn ask_about_cost(
    conversation: &Conversation,
    input: &mut Input,
    mut signals: Option<&mut Signals>,
) -> Result<CostAnswered, SessionsError> {
    let Some(id) = &conversation.session else { return Ok(CostAnswered::Stop) };
    let runtime = maintenance_runtime(&conversation.store);
    let session = runtime.session(id).await?;
    let Some(asked) = cost_consent::question(session.state()) else {
        return Ok(CostAnswered::Stop);
    };
    let (used, limit) = asked;
    let session_budget = conversation.setup.session_budget;
    loop {
        console::tell(&format!("? {used} of the {limit} cost limit used"));
        console::tell(&format!("  1 continue up to the limit  2 allow {limit} more  3 stop"));
        let text = match input.answer(signals.as_deref_mut()).await {
            InputEvent::Text(text) => text,
            InputEvent::Nothing => return Ok(CostAnswered::Stop),
            other => return Ok(CostAnswered::Left(other)),
        };
        let answer = match text.trim().to_lowercase().as_str() {
            "1" | "y" | "yes" | "continue" => CostAnswer::Continue,
            "2" | "more" => CostAnswer::More,
            "3" | "n" | "no" | "stop" => CostAnswer::Stop,
            "" => continue,
            _ => {
                input.add_draft(&text);
                console::tell("answer with 1, 2 or 3; your text is kept for the next prompt");
                continue;
            }
        };
        let left = cost_consent::record(&runtime, id, asked, answer, session_budget, now()).await?;
        return Ok(match answer {
            CostAnswer::Stop => CostAnswered::Stop,
            CostAnswer::Continue | CostAnswer::More => CostAnswered::Continue(left),
        });
    }
}

/// How a dialog ends.
enum Decided {
    /// Every call is decided about; the run can continue.
    All,
    /// The user leaves the calls waiting.
    Later,
    /// The input has ended, or a signal ends the program.
    Left(InputEvent),
}

/// What a user answers about a call.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Decide(UserDecision),
    /// Approve, and allow calls like it from now on.
    Always(Scope),
    /// Deny, and deny calls like it from now on.
    Never(Scope),
    /// Not an answer: all of the call is shown.
    View,
    /// Not an answer: the answers are explained.
    Help,
    /// The permission mode changes, and the call is decided about anew. Without a name, the mode is shown.
    Mode(String),
    /// Not an answer: the reason is shown, and the question again.
    Unclear(&'static str),
}

/// How long a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Session,
    Project,
}

/// Asks about each call of a session that waits, and records the answers.
///
/// # Errors
///
/// Returns an error if the session cannot be read or written.
async fn decide(
    conversation: &Conversation,
    display: RunDisplay,
    id: &SessionId,
    input: &mut Input,
    mut signals: Option<&mut Signals>,
) -> Result<Decided, SessionsError> {
    let setup = &conversation.setup;
    let agent = setup.build(NoopListener).map_err(SessionError::from)?;
    let runtime = SessionRuntime::new(Arc::clone(&conversation.store), FixedLoop(agent));
    let mut is_whole = false;
    loop {
        let version = conversation.store.header(id).await?.map(|it| it.version);
        let session = runtime.session(id).await?;
        let state: &AgentState = session.state();
        let pending = state.pending();
        let now = now();
        let waits = |it: &&PendingApproval<'_>| !it.question.is_expired(now);
        let Some(asked) = pending.iter().find(waits) else { return Ok(Decided::All) };
        let rules = suggested(setup, state, asked);
        show(setup, asked, &rules, std::mem::take(&mut is_whole));
        let request = ShownRequest::of(id, state, asked);
        let closed = closed(&conversation.store, id, &request, version, asked.question.deadline);
        let about = match asked.kind {
            RequestKind::Approval => AskedAbout::Call,
            _ => AskedAbout::Question,
        };
        let text = match input.answer_until(signals.as_deref_mut(), closed, about).await {
            InputEvent::Text(text) => text,
            InputEvent::Expired => {
                let has_time = !asked.question.is_expired(self::now());
                console::tell(if has_time { SETTLED } else { "the time for an answer has passed" });
                continue;
            }
            InputEvent::Nothing => return Ok(Decided::Later),
            other => return Ok(Decided::Left(other)),
        };
        let (resolution, lasting) = match answer(&text, asked, !rules.is_empty()) {
            Answer::Decide(decision) => (decision.of(Some(asked), state), None),
            Answer::View => {
                is_whole = true;
                continue;
            }
            Answer::Help => {
                explain();
                continue;
            }
            Answer::Mode(name) => match decided_anew(conversation, display, &name, state, asked) {
                Some(resolution) => (resolution, None),
                None => continue,
            },
            Answer::Unclear(hint) => {
                console::tell(hint);
                continue;
            }
            Answer::Always(scope) => (ApprovalDecision::Approve, Some((scope, Decision::Allow))),
            Answer::Never(scope) => {
                let denied = UserDecision::Deny(None).of(Some(asked), state);
                (denied, Some((scope, Decision::Deny)))
            }
        };
        let decide = DecideShown { request, resolution };
        let in_session = session_rules(lasting, &rules);
        match runtime.execute(id, &deciding(decide, in_session)).await {
            // A rule is kept only with the decision that it comes from.
            Ok(session) => keep(&setup.permissions, &session, lasting, &rules),
            Err(SessionError::Superseded { .. }) => console::tell(SUPERSEDED),
            // An answer that does not fit is not recorded, and the question stands.
            Err(SessionError::Decision(error)) => match expected(&options(asked)) {
                Some(expected) => console::tell(&expected),
                None => console::warn(&error),
            },
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the rules that are recorded in the session, together with the decision.
pub(crate) fn session_rules(
    lasting: Option<(Scope, Decision)>,
    rules: &[String],
) -> Vec<ChosenRule> {
    match lasting {
        Some((Scope::Session, decision)) => ChosenRule::list(decision, rules),
        Some((Scope::Project, _)) | None => Vec::new(),
    }
}

/// Puts the rules in force that the user answered with about a call of a session, and stores those for the project. Those for
/// the session are recorded.
pub(crate) fn keep(
    permissions: &RunPermissions,
    session: &AgentSession,
    lasting: Option<(Scope, Decision)>,
    rules: &[String],
) {
    let kept: Result<(), BoxError> = match lasting {
        None => Ok(()),
        Some((Scope::Project, decision)) => {
            permissions.decide_always(decision, rules).map_err(BoxError::from)
        }
        Some((Scope::Session, _)) => {
            permissions.use_chosen(chosen_rules::of(session.state())).map_err(BoxError::from)
        }
    };
    if let Err(error) = kept {
        let reason = console::chain(&*error);
        console::warn(&format!("your answer is recorded, but its rule is not saved: {reason}"));
    }
}

/// Returns the rules that would allow a call from now on.
pub(crate) fn suggested(
    setup: &Setup,
    state: &AgentState,
    asked: &PendingApproval<'_>,
) -> Vec<String> {
    rules_for(&setup.permissions.policy(), state, asked, is_confined_in(setup, asked))
}

/// Returns `true` if nothing that a call does leaves the sandbox of the run.
fn is_confined_in(setup: &Setup, asked: &PendingApproval<'_>) -> bool {
    setup.mcp.is_confined(&asked.call.name)
        || is_confined(&asked.call.name, setup.commands.are_confined())
}

/// Returns the rules that would decide about a call of a stored session from now on, and the permissions that keep them.
///
/// # Errors
///
/// Returns an error if the user's decisions about folders cannot be read.
pub(crate) fn lasting_rules(
    config: &Config,
    sources: &ConfigSources,
    state: &AgentState,
    asked: &PendingApproval<'_>,
) -> Result<(RunPermissions, Vec<String>), FoldersError> {
    let permissions = RunPermissions::of(config, sources)?;
    let confined = is_confined(&asked.call.name, are_confined(&config.sandbox));
    // The run may have asked in a stricter mode than the one that is configured.
    let policy = permissions.policy();
    let policy = policy.with_mode(Mode::Ask).unwrap_or(policy);
    let rules = rules_for(&policy, state, asked, confined);
    Ok((permissions, rules))
}

/// Returns the rules with which a policy would allow a call that waits for approval.
pub(crate) fn rules_for(
    policy: &Policy,
    state: &AgentState,
    asked: &PendingApproval<'_>,
    is_confined: bool,
) -> Vec<String> {
    if !matches!(asked.kind, RequestKind::Approval) || asked.question.is_recovery() {
        return Vec::new();
    }
    with_call(state, asked, is_confined, |call| {
        policy.suggest(call).into_iter().map(|suggested| suggested.rule).collect()
    })
}

/// Does something with a call that waits, as rules see it.
fn with_call<T>(
    state: &AgentState,
    asked: &PendingApproval<'_>,
    is_confined: bool,
    use_call: impl FnOnce(&Call<'_>) -> T,
) -> T {
    let arguments = asked.call.parse_arguments().unwrap_or(Value::Null);
    let directory = match asked.directory {
        Some(directory) => Some(directory.to_string()).filter(|it| !it.is_empty()),
        None => Bash::last_directory(state).filter(|_| asked.path.is_empty()),
    };
    let call = Call::new(&asked.call.name, &arguments);
    let call = if is_confined { call.confined() } else { call };
    let call = match &directory {
        Some(directory) => call.with_last_dir(directory),
        None if !asked.path.is_empty() && asked.directory.is_none() => call.with_unknown_dir(),
        None => call,
    };
    use_call(&call)
}

fn command_of(call: &ToolCall) -> Option<String> {
    let arguments = call.parse_arguments().ok()?;
    let command = arguments.get("command")?.as_str()?;
    Some(command.to_owned())
}

/// Returns the schema of the answer to a question.
fn schema_of<'a>(asked: &PendingApproval<'a>) -> Option<&'a Value> {
    asked.kind.answer_schema().map(|it| &**it)
}

/// Returns `true` if texts answer a question, among them the text `no`.
fn is_text_answer(asked: &PendingApproval<'_>) -> bool {
    schema_of(asked).is_some_and(|it| it["type"] == "string" || it["anyOf"].is_array())
}

/// Returns the texts that a question gives to choose from.
fn options<'a>(asked: &PendingApproval<'a>) -> Vec<&'a str> {
    let Some(schema) = schema_of(asked) else { return Vec::new() };
    let listed = schema.get("enum").or_else(|| schema.pointer("/anyOf/0/enum"));
    listed.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the option whose number was typed; any other text as it is, and each one if an option is a number itself.
fn chosen<'a>(text: &'a str, asked: &PendingApproval<'a>) -> &'a str {
    let options = options(asked);
    if options.iter().any(|it| it.parse::<f64>().is_ok()) {
        return text;
    }
    let number = text.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
    number.and_then(|it| options.get(it).copied()).unwrap_or(text)
}

/// Reads an answer.
fn answer(text: &str, asked: &PendingApproval<'_>, has_rules: bool) -> Answer {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (word, rest) = (word.trim_end_matches([',', '.', ':']).to_lowercase(), rest.trim());
    let is_alone = rest.is_empty();
    let deny = |reason: &str| {
        Answer::Decide(UserDecision::Deny(Some(reason.to_owned()).filter(|it| !it.is_empty())))
    };
    if !matches!(asked.kind, RequestKind::Approval) {
        let is_result = matches!(asked.kind, RequestKind::External { .. });
        return match &*word {
            "/stop" => {
                Answer::Decide(UserDecision::Stop(Some(rest.to_owned()).filter(|_| !is_alone)))
            }
            "/error" if is_result && !is_alone => {
                Answer::Decide(UserDecision::Fail(rest.to_owned()))
            }
            "" => Answer::Unclear(
                "type the answer, `/decline` or `/cancel`; press Ctrl-C to decide later",
            ),
            "/decline" if is_alone => deny(DECLINED),
            "/cancel" if is_alone && !is_result => Answer::Decide(UserDecision::Cancel),
            "no" if is_alone && !is_text_answer(asked) => deny(DECLINED),
            "/mode" => Answer::Mode(rest.to_owned()),
            _ if is_command(text) => Answer::Unclear(
                "a question is waiting; answer it, or type `/decline` or `/cancel`, then enter the command; for text \
                 that begins with a slash, type a backslash before it",
            ),
            _ if text.strip_prefix('\\').is_some_and(is_command) => {
                Answer::Decide(UserDecision::Reply(text[1..].to_owned()))
            }
            _ if misses_form(text, asked) => Answer::Unclear(form::NOT_FILLED_IN),
            _ => Answer::Decide(UserDecision::Reply(chosen(text, asked).to_owned())),
        };
    }
    match &*word {
        "" => Answer::Unclear("type 1 to approve or 3 to deny; press Ctrl-C to decide later"),
        "1" | "y" | "yes" if is_alone => Answer::Decide(UserDecision::Approve(None)),
        "2" | "a" | "always" if is_alone && has_rules => Answer::Always(Scope::Project),
        "s" | "session" if is_alone && has_rules => Answer::Always(Scope::Session),
        "2" | "a" | "always" | "s" | "session" if is_alone => {
            Answer::Unclear("no rule can allow this call; type 1 to approve it once")
        }
        "d" | "done" if asked.question.is_recovery() => {
            Answer::Decide(UserDecision::MarkDone(Some(rest.to_owned()).filter(|_| !is_alone)))
        }
        "3" | "n" | "no" => deny(rest),
        "q" | "stop" if word == "q" || is_alone => {
            Answer::Decide(UserDecision::Stop(Some(rest.to_owned()).filter(|_| !is_alone)))
        }
        "n!" | "never" if is_alone && has_rules => Answer::Never(Scope::Project),
        "ns!" if is_alone && has_rules => Answer::Never(Scope::Session),
        // The arguments as a whole; an answer that does not fit is not recorded.
        "e" | "edit" if serde_json::from_str::<Map<String, Value>>(rest).is_ok() => {
            Answer::Decide(UserDecision::Approve(Some(rest.to_owned())))
        }
        "e" | "edit" if command_of(asked.call).is_none() => Answer::Unclear(
            "type `e` and all arguments as JSON, such as `e {\"path\": \"b.txt\", \"content\": \"…\"}`",
        ),
        "e" | "edit" if is_alone => Answer::Unclear("type `e` and the command to run instead"),
        "e" | "edit" => {
            let mut arguments = asked.call.parse_arguments().unwrap_or(Value::Null);
            arguments["command"] = json!(rest);
            Answer::Decide(UserDecision::Approve(Some(arguments.to_string())))
        }
        "v" | "view" if is_alone => Answer::View,
        "?" | "help" | "/help" if is_alone => Answer::Help,
        "/mode" => Answer::Mode(rest.to_owned()),
        // Commands of `chat` are no answers.
        command if command.starts_with('/') => Answer::Unclear(
            "a call is waiting; type 1 to approve or 3 to deny it, then enter the command",
        ),
        // Any other text tells the model what to do instead.
        _ => deny(text),
    }
}
