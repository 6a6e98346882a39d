//! `sessions follow`: what the agent of a session does, seen from another terminal.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use loopwright_broadcast::{BroadcastEnvelope, BroadcastStatus, envelope_types};
use loopwright_core::{Clock, SystemClock};
use loopwright_sessions::{
    EventFollower, FollowEvent, JobQuery, LogEntry, SessionId, SessionLog, SessionStore,
};
use serde_json::Value;

use super::change::holder;
use crate::args::sessions::FollowArgs;
use crate::console;
use crate::exit::ExitCode;
use crate::loops::maintenance_runtime;
use crate::render::{duration, sanitize_terminal, single_line};
use crate::session::{SessionsError, find, short};
use crate::signals::{self, Signals};

/// How long is waited at a time.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many jobs of a session are looked at, those submitted last first.
const OPEN: usize = 20;

/// How much of a line is shown of what a tool was asked.
const WIDTH: usize = 60;

/// Shows the events of a session until the run has ended. A signal ends only the output, not the
/// run.
pub(super) async fn follow(
    store: &Arc<dyn SessionStore>,
    args: &FollowArgs,
) -> Result<ExitCode, SessionsError> {
    let header = find(&**store, &args.id.id).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (store_of, id) = (Arc::clone(store), header.id.clone());
    let mut following = match args.after {
        Some(after) => {
            check_told(&**store, &id, after).await?;
            EventFollower::of(store_of, clock, id, after).await?
        }
        None => EventFollower::latest(store_of, clock, id).await?,
    };
    let mut signals = Signals::new().ok();
    let mut screen = Screen::new(args.json);
    let mut told_of_waiting = args.json;
    loop {
        let next = match &mut signals {
            None => following.next(PATIENCE).await?,
            Some(signals) => {
                match select(pin!(following.next(PATIENCE)), pin!(signals.next())).await {
                    Either::Left((next, _)) => next?,
                    Either::Right((reason, _)) => return Ok(signals::exit_code(reason)),
                }
            }
        };
        let shown = match next {
            FollowEvent::Entry(note) => screen.show(&note),
            FollowEvent::Timeout => {
                check_goes_on(store, &header.id).await?;
                if !std::mem::replace(&mut told_of_waiting, true) {
                    let id = short(&header.id);
                    console::tell(&format!("session {id} is idle; press Ctrl-C to stop following"));
                }
                Ok(())
            }
            FollowEvent::Ended => break,
        };
        if let Err(error) = shown {
            return Ok(of_writing(&error));
        }
    }
    if screen.lacks_answer() {
        let session = maintenance_runtime(store).session(&header.id).await?;
        let text = sanitize_terminal(session.state().text().trim());
        return Ok(console::print(format!("{text}\n").as_bytes()));
    }
    Ok(ExitCode::Done)
}

/// Checks that there is an event to continue after.
async fn check_told(
    store: &dyn SessionStore,
    id: &SessionId,
    after: u64,
) -> Result<(), SessionsError> {
    let Some(before) = after.checked_sub(1) else { return Ok(()) };
    if store.read_log(id, SessionLog::Events, before, 1).await?.is_empty() {
        let text = format!(
            "unknown event {after} of session {}; pass `--after 0` to start at the beginning, or omit \
             `--after` to start at the latest run",
            short(id)
        );
        return Err(SessionsError::Usage(text));
    }
    Ok(())
}

/// Checks that more may be told of a session: that it was not deleted, and that the process that runs it is there or
/// that a worker is to resume it.
async fn check_goes_on(store: &Arc<dyn SessionStore>, id: &SessionId) -> Result<(), SessionsError> {
    let header = find(&**store, id).await?;
    if holder(&**store, &header).await?.is_some() {
        return Ok(());
    }
    if let Some(queue) = store.jobs() {
        let of_session = JobQuery { session: Some(id.clone()), ..JobQuery::last(OPEN) };
        if queue.records(&of_session).await?.iter().any(|it| !it.status.is_over()) {
            return Ok(());
        }
    }
    let session = maintenance_runtime(store).session(id).await?;
    // A caller that takes it up at this moment tells of that.
    let is_left = session.state().is_interrupted() && holder(&**store, &header).await?.is_none();
    if is_left { Err(SessionsError::Left(id.clone())) } else { Ok(()) }
}

/// A reader that hung up has read enough.
fn of_writing(error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::Done,
        _ => console::fail(error, ExitCode::Internal),
    }
}

/// Shows envelopes: words on standard output, everything else on standard error.
struct Screen {
    form: Form,
    is_mid_line: bool,
    /// Whether words have been shown since a tool was at work.
    has_spoken: bool,
    status: BroadcastStatus,
    /// What tools were asked, by the ids of the calls.
    asked: HashMap<String, String>,
}

/// What standard output is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    /// Words, of which nothing but words reaches the terminal.
    Terminal,
    Text,
}

impl Screen {
    fn new(is_json: bool) -> Self {
        Self {
            form: match is_json {
                true => Form::Json,
                false if io::stdout().is_terminal() => Form::Terminal,
                false => Form::Text,
            },
            is_mid_line: false,
            has_spoken: false,
            status: BroadcastStatus::Idle,
            asked: HashMap::new(),
        }
    }

    /// Returns `true` if the answer came as a whole, and was not told in fragments.
    fn lacks_answer(&self) -> bool {
        self.form != Form::Json && !self.has_spoken && self.status == BroadcastStatus::Completed
    }

    fn show(&mut self, note: &LogEntry) -> io::Result<()> {
        let mut output = io::stdout().lock();
        if self.form == Form::Json {
            let json = String::from_utf8_lossy(&note.body);
            let rest = json.strip_prefix('{').unwrap_or(&json);
            writeln!(output, "{{\"seq\":{},{rest}", note.number)?;
            return output.flush();
        }
        // What cannot be read is of a later form: there is more to follow.
        let Ok(envelope) = serde_json::from_slice::<BroadcastEnvelope>(&note.body) else {
            return Ok(());
        };
        if envelope.parent_agent_id.is_none() {
            self.show_own(&envelope, &mut output)?;
        }
        Ok(())
    }

    fn show_own(&mut self, it: &BroadcastEnvelope, output: &mut impl Write) -> io::Result<()> {
        let text = |name: &str| it.payload.get(name).and_then(Value::as_str).unwrap_or_default();
        match it.kind.as_str() {
            envelope_types::STREAM_CHUNK => return self.say(text("content"), output),
            envelope_types::TOOL_STARTED => {
                let asked = text("args_summary").to_owned();
                self.asked.insert(text("tool_call_id").to_owned(), asked);
            }
            envelope_types::TOOL_COMPLETED => {
                self.end_line(output)?;
                self.has_spoken = false;
                let asked = self.asked.remove(text("tool_call_id")).unwrap_or_default();
                let is_good = it.payload.get("success") == Some(&Value::Bool(true));
                let mark = if is_good { '✓' } else { '✗' };
                let took =
                    it.payload.get("duration_ms").and_then(Value::as_u64).unwrap_or_default();
                let took = duration(Duration::from_millis(took));
                let (name, asked) =
                    (single_line(text("tool_name"), WIDTH), single_line(&asked, WIDTH));
                console::tell(format!("  {mark} {name} {asked} · {took}").as_str());
            }
            envelope_types::DROPPED => {
                console::tell("  (some events were dropped because too many arrived at once)");
            }
            envelope_types::STATUS => {
                self.end_line(output)?;
                self.status = it.status().unwrap_or_default();
                let reason = text("error_message");
                match self.status {
                    BroadcastStatus::Processing | BroadcastStatus::Completed => (),
                    BroadcastStatus::Idle => console::tell("waiting for a decision"),
                    status if reason.is_empty() => console::tell(status.as_str()),
                    status => {
                        console::tell(&format!("{status}: {}", single_line(reason, WIDTH * 2)));
                    }
                }
            }
            envelope_types::STEP_STARTED => self.end_line(output)?,
            _ => (),
        }
        Ok(())
    }

    fn say(&mut self, words: &str, output: &mut impl Write) -> io::Result<()> {
        if words.is_empty() {
            return self.end_line(output);
        }
        self.has_spoken = true;
        self.is_mid_line = !words.ends_with('\n');
        let harmless =
            if self.form == Form::Terminal { sanitize_terminal(words) } else { words.to_owned() };
        output.write_all(harmless.as_bytes())?;
        output.flush()
    }

    fn end_line(&mut self, output: &mut impl Write) -> io::Result<()> {
        if !std::mem::take(&mut self.is_mid_line) {
            return Ok(());
        }
        output.write_all(b"\n")?;
        output.flush()
    }
}
