//! A stored conversation with an agent.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anstyle::Style;
use futures::future::{Either, join, select};
use loopwright_agent::AgentDefinition;
use loopwright_broadcast::BroadcastConfig;
use loopwright_core::{
    AgentState, Budget, OnInterrupted, Step,
    messages::{Message, Usage},
};
use loopwright_permissions::Mode;
use loopwright_sessions::{
    AgentSession, SessionError, SessionFactory, SessionFiles, SessionId, SessionRuntime,
    SessionStore, snapshot_owner,
};

use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use crate::agent::Setup;
use crate::answer_checks::EndedRun;
use crate::chosen_rules::{self, KeptPermissions, TypedPermissions};
use crate::console;
use crate::cost_consent;
use crate::display::{LiveRun, RunDisplay, beginning, chain};
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::input::{Input, Typed};
use crate::loops::{FixedLoop, maintenance_runtime};
use crate::mode_change::change_mode;
use crate::render::{Scope, UiEvent, UiSender, Verbosity, sanitize_terminal};
use crate::report::Report;
use crate::selected_agent::AGENT;
use crate::session::{SessionsError, now, short};
use crate::session_folder::SessionFolder;
use crate::signals::{CancelSwitch, Signals};
use crate::snapshots::refuse_snapshots_of;
use crate::steering::{LiveLines, Steered};
use crate::task_command::TaskLines;
use crate::turn::Turn;
use crate::typed_text::{planning, typed_text};
use crate::untrusted::{REVIEW, REVIEW_IN_CHAT};

/// What the agent is for.
pub(crate) const ABOUT: &str = "Works on the files in one directory.";

const FAINT: Style = Style::new().dimmed();

/// The most characters of a title.
const TITLE: usize = 80;

/// A conversation with an agent that is kept, from the moment at which something is said.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub struct Conversation {
    /// Where it is kept.
    pub store: Arc<dyn SessionStore>,
    /// The agent.
    pub setup: Setup,
    /// Instructions that the session is to have from now on, if they change.
    pub system: Option<Arc<str>>,
    /// Instructions of sessions that begin in this conversation.
    pub own_system: Option<Arc<str>>,
    /// What each turn may use up.
    pub budget: Budget,
    /// How interrupted calls that may have taken effect are handled; `None` means that an attended conversation asks about
    /// them, and an unattended one reports to the model that their outcome is unknown.
    pub interrupted: Option<OnInterrupted>,
    /// The session, once there is one.
    pub session: Option<SessionId>,
    /// The ID of the session that the first message creates; `None` generates one.
    pub new_id: Option<SessionId>,
    /// Whether a user is there to answer what calls ask.
    pub is_attended: bool,
    /// Whether a turn that has nearly reached its cost limit stops to ask.
    pub(crate) asks_about_cost: bool,
    /// Whether the last run ended before it heard everything that was sent to it.
    pub has_unheard: bool,
    /// Whether the last turn was refused with an error that names what to do instead of resuming the session.
    pub(crate) is_refused: bool,
    /// Cancelled when the run of a turn has begun: what is typed from then on is for this run.
    pub(crate) has_begun: CancellationToken,
    /// Whether the terminal is told when a run waits for the user, or is done after a while.
    pub notifies: bool,
    /// Reads what is typed while the agent works; `None` knows `/tasks` only.
    pub(crate) live: Option<Arc<dyn LiveLines>>,
    /// What the session has used, as of its last run in this conversation.
    pub(crate) totals: Option<(SessionId, SessionTotals)>,
    /// Whether the user named the folder, so that open calls of the session may run in another one that stands there now.
    pub(crate) names_folder: bool,
    /// The permissions that the user chose with options. The session keeps those that restrict.
    pub(crate) typed: TypedPermissions,
    /// How the program is called to resume it, without the session's name.
    pub command: Command,
}

/// What becomes of a message while calls wait.
const KEPT: &str =
    "your message is kept: the agent reads it after the decision about the waiting call";

/// What a session has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SessionTotals {
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
    /// Tokens of all requests and answers.
    pub(crate) usage: Usage,
    /// US dollars, as far as prices are known.
    pub(crate) cost: f64,
}

impl SessionTotals {
    pub(crate) fn of(state: &AgentState) -> Self {
        let last = state.last_step().map(Step::usage).unwrap_or_default();
        let spent = state.total_spent();
        Self { context: last.input + last.output, usage: spent.usage, cost: spent.cost.dollars() }
    }
}

/// How the program is called to resume a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The name of the command.
    pub name: &'static str,
    /// Options that were typed and that it does not work without.
    pub options: Vec<String>,
}

/// What is said, and what becomes of it if another process runs the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserInput {
    /// The message; nothing to resume what was interrupted.
    pub message: Option<Message>,
    /// Whether they are left to the process that runs the session.
    pub steers: bool,
    /// The skill that the message carries, whose hooks run in the turn.
    pub skill: Option<String>,
}

impl Conversation {
    /// Creates a conversation without a session and without a user.
    pub(crate) fn new(store: Arc<dyn SessionStore>, setup: Setup, budget: Budget) -> Self {
        Self {
            store,
            setup,
            system: None,
            own_system: None,
            budget,
            interrupted: None,
            session: None,
            new_id: None,
            is_attended: false,
            asks_about_cost: false,
            has_unheard: false,
            is_refused: false,
            has_begun: CancellationToken::new(),
            notifies: false,
            live: None,
            totals: None,
            names_folder: false,
            typed: TypedPermissions::default(),
            command: Command::default(),
        }
    }

    /// Sets whether a user is there to answer what calls and servers ask.
    pub(crate) fn attend(&mut self, is_attended: bool) {
        self.is_attended = is_attended;
        self.setup.mcp.set_attended(is_attended);
    }

    /// Returns how interrupted calls that may have taken effect are handled.
    fn interrupted(&self) -> OnInterrupted {
        let default = if self.is_attended {
            OnInterrupted::RequireApproval
        } else {
            OnInterrupted::default()
        };
        self.interrupted.unwrap_or(default)
    }

    /// Takes a turn and shows how it goes. Meanwhile, lines that are typed at `input` are sent to the agent, and Esc stops
    /// it. Needs a tokio runtime.
    pub(crate) async fn say(
        &mut self,
        stage: RunDisplay,
        signals: Option<&mut Signals>,
        said: UserInput,
        mut input: Option<&mut Input>,
    ) -> ExitCode {
        let scene = LiveRun::new(stage.format, self.setup.workdir.clone());
        let live = input.as_mut().and_then(|it| it.live(scene.feed.clone()));
        let (live, mut typed) = live.unzip();
        let given = self.session.clone().or_else(|| self.new_id.clone());
        let id = given.unwrap_or_else(SessionId::generate);
        self.new_id = Some(id.clone());
        let (feed, brake) = (scene.feed.clone(), scene.brake.clone());
        let (store, steered) = (Arc::clone(&self.store), Steered::default());
        let tasks = self.setup.commands.tasks.clone();
        let lines = self.live.clone().unwrap_or_else(|| Arc::new(TaskLines(tasks)));
        self.has_begun = CancellationToken::new();
        let has_begun = self.has_begun.clone();
        let (line_sender, mut waiting) = unbounded_channel();
        let permissions = self.setup.permissions.clone();
        let listening = async {
            let Some(typed) = &mut typed else { return pending::<Infallible>().await };
            while let Some(typed) = typed.recv().await {
                match typed {
                    Typed::Stop => {
                        brake.cancel(Interruption::Interrupt);
                        feed.tell(UiEvent::Interrupted);
                    }
                    Typed::NextMode => {
                        let changed = change_mode(&permissions, "next", |event| feed.tell(event));
                        feed.tell(UiEvent::Told(match changed {
                            Ok(mode) => format!("mode {mode}"),
                            Err(error) => sanitize_terminal(&error.to_string()),
                        }));
                    }
                    Typed::Line(text) => drop(line_sender.send(text)),
                }
            }
            pending().await
        };
        // A line can wait for the run or for a server. Esc does not wait for the line.
        let taking = async {
            while let Some(line) = waiting.recv().await {
                steered.take(&*lines, &*store, (&id, &has_begun), line, &feed).await;
            }
        };
        let steering = join(listening, taking);
        let is_refused = AtomicBool::new(false);
        let work = async {
            let turn = Box::pin(self.take_turn(&feed, &brake, said));
            let done = match select(turn, pin!(steering)).await {
                Either::Left((done, _)) => done,
                Either::Right(((never, ()), _)) => match never {},
            };
            let report = done.unwrap_or_else(|error| {
                let names_command = matches!(
                    error,
                    SessionsError::NothingLeft(_)
                        | SessionsError::HasSnapshots(_)
                        | SessionsError::ReplacedFolder { .. }
                );
                is_refused.store(names_command, Relaxed);
                console::fail(&error, error.exit_code());
                Report::refused(error.exit_code(), error.stop_reason(), chain(&error))
            });
            ((), report)
        };
        let ((), exit_code) = stage.watch(signals, scene, Box::pin(work)).await;
        self.new_id = None;
        self.is_refused = is_refused.into_inner();
        let (sent, mut unsent) = steered.into_lines();
        if let (Some(input), Some(live), Some(typed)) = (input, live, &mut typed) {
            unsent.extend(std::iter::from_fn(|| waiting.try_recv().ok()));
            input.end_live(live, typed, unsent);
        }
        self.has_unheard = !sent.is_empty() && self.lacks(&sent).await;
        exit_code
    }

    /// Takes a turn, tells the feed how it goes, and reports how it ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the session cannot be used.
    pub(crate) async fn take_turn(
        &mut self,
        feed: &UiSender,
        brake: &CancelSwitch,
        mut said: UserInput,
    ) -> Result<Report, SessionsError> {
        self.reload_rules()?;
        // A new session records its folder as it is created.
        let folder =
            self.session.as_ref().and_then(|_| SessionFolder::of(self.setup.workdir.path()));
        let (kept, waiting) = self.use_chosen_rules(folder.as_ref()).await?;
        if self.setup.mode() == Mode::Plan {
            said.message = said.message.map(planning);
        }
        let given = self.session.clone().or_else(|| self.new_id.clone());
        let id = given.unwrap_or_else(SessionId::generate);
        let mut setup = noting_files(&self.setup, &self.store, &id);
        setup.asks_about_cost = self.asks_about_cost;
        setup.commands.output = feed.output_watch();
        let agent = setup.build(feed.clone());
        let agent = agent.map_err(SessionError::from)?;
        let runtime = SessionRuntime::new(Arc::clone(&self.store), FixedLoop(agent.clone()))
            .with_interrupted(self.interrupted())
            .with_on_ask(self.setup.on_ask)
            .with_event_log(BroadcastConfig::standard())
            .with_event_sink(Arc::new(feed.clone()));
        let has_begun = AtomicBool::new(false);
        let first_request = self.has_begun.clone();
        let begins = |session: &AgentSession| {
            has_begun.store(true, Relaxed);
            first_request.cancel();
            let mut beginning = beginning(&self.setup, &agent, session.state());
            beginning.session_id = Some(session.id().to_string());
            feed.tell(UiEvent::Began(beginning));
        };
        let turn = Turn {
            said: if self.session.is_some() { said.message.clone() } else { None },
            steers: said.steers,
            skill: said.skill,
            llm: self.setup.llm.clone(),
            system: self.system.clone(),
            budget: self.budget,
            session_budget: self.setup.session_budget,
            kept,
            folder,
            begins,
        };
        let began = Instant::now();
        let mut is_created = false;
        let done = async {
            if self.session.is_none() {
                // Nothing names a session before it is there with what was said first.
                runtime.create(self.session(&id, said.message.as_ref())).await?;
                is_created = true;
            }
            runtime.execute_until(&id, &turn, brake.token()).await
        };
        let done = done.await.map_err(|error: SessionError| SessionsError::from(error));
        let did_begin = has_begun.load(Relaxed);
        let report = match done {
            Ok(_) if !did_begin => Ok(Report::left(&id)),
            Ok(session) => {
                let mut report = self.ended(&session, began.elapsed(), feed, brake).await;
                tell_kept(said.message.as_ref(), waiting, session.state());
                let asks_about_cost = cost_consent::question(session.state()).is_some();
                if asks_about_cost || self.is_attended && report.exit_code == ExitCode::NeedsInput {
                    // The dialog that follows says what is asked.
                    report.remark = None;
                }
                Ok(report)
            }
            Err(SessionsError::Unknown(id)) if did_begin => {
                Err(SessionsError::DeletedMeanwhile(id))
            }
            Err(error) => Err(error),
        };
        if is_created || report.is_ok() {
            self.session = Some(id);
        }
        report
    }

    /// Checks the answer of a run that has ended in this process or another one, and reports how it ended.
    pub(crate) async fn ended(
        &mut self,
        session: &AgentSession,
        took: Duration,
        feed: &UiSender,
        brake: &CancelSwitch,
    ) -> Report {
        let (id, state) = (session.id(), session.state());
        self.totals = Some((id.clone(), SessionTotals::of(state)));
        let report = Report::of(Some(id), state, brake.reason(), took);
        let report = report.within(&self.budget, state);
        let report = report.under(self.setup.mode());
        let report = report.expecting(&self.setup.model());
        let run = EndedRun { setup: &self.setup, state, session: Some((&self.store, id)) };
        let report = self.setup.checks.complete(report, run, feed, brake.token()).await;
        report.of_session(id)
    }

    /// Shows how a run ended that another process finished, with its answer. Returns the exit code.
    pub(crate) async fn show_ended(
        &mut self,
        session: &AgentSession,
        stage: RunDisplay,
        signals: Option<&mut Signals>,
    ) -> ExitCode {
        // This process has shown no part of the answer.
        let stage = RunDisplay { scope: Scope::Answer, ..stage };
        let scene = LiveRun::new(stage.format, self.setup.workdir.clone());
        let (feed, brake) = (scene.feed.clone(), scene.brake.clone());
        let work = async { ((), self.ended(session, Duration::ZERO, &feed, &brake).await) };
        let ((), exit_code) = stage.watch(signals, scene, Box::pin(work)).await;
        exit_code
    }

    /// Reads rules again whose files have changed since, and tells what is different.
    fn reload_rules(&self) -> Result<(), SessionsError> {
        let review = if self.command.name == "chat" { REVIEW_IN_CHAT } else { REVIEW };
        let reloaded = self.setup.permissions.reload(review);
        reloaded.map_err(|error| SessionsError::Settings(error.into()))?.tell();
        Ok(())
    }

    /// Puts the rules and the mode in force that the session keeps, with those of this command, and no others. Returns them, and
    /// the number of the step whose calls wait, if there is one.
    async fn use_chosen_rules(
        &self,
        folder: Option<&SessionFolder>,
    ) -> Result<(KeptPermissions, Option<u32>), SessionsError> {
        let (kept, waiting) = match &self.session {
            Some(id) => {
                let session = maintenance_runtime(&self.store).session(id).await?;
                // A folder that workers restore is a new one each time, and the turn itself is refused.
                let has_snapshots = snapshot_owner(&*self.store, session.header()).await?.is_some();
                if let Some(folder) = folder.filter(|_| !has_snapshots) {
                    folder.check(&session, self.names_folder)?;
                }
                let state = session.state();
                (chosen_rules::of(state), waiting_step(state))
            }
            None => (KeptPermissions::default(), None),
        };
        let permissions = &self.setup.permissions;
        let mode = permissions.chosen_mode().or(self.typed.mode);
        let kept = kept.with_typed(&TypedPermissions { mode, ..self.typed.clone() });
        let used = permissions.use_chosen(kept.clone());
        used.map_err(|error| SessionsError::Settings(error.into()))?;
        Ok((kept, waiting))
    }

    /// Returns what the session has used; `None` if that is not known yet.
    pub(crate) fn totals(&self) -> Option<SessionTotals> {
        let (id, totals) = self.totals.as_ref()?;
        (Some(id) == self.session.as_ref()).then_some(*totals)
    }

    /// Returns `true` if the run has not heard something that was sent to it.
    async fn lacks(&self, sent: &[String]) -> bool {
        let Some(id) = &self.session else { return false };
        let Ok(session) = maintenance_runtime(&self.store).session(id).await else { return false };
        let said: HashSet<String> =
            session.state().transcript().iter().map(|it| it.message().text()).collect();
        sent.iter().any(|it| !said.contains(it))
    }

    /// Refuses a session whose turns are refused because of its snapshots, before the user types one.
    pub(crate) async fn refuse_snapshots(&self) -> Result<(), SessionsError> {
        match &self.session {
            Some(id) => refuse_snapshots_of(&*self.store, id).await,
            None => Ok(()),
        }
    }

    /// Keeps the session, new or not, before anything is said in it, and returns its name. The first message
    /// gives it its title.
    pub(crate) async fn begin(&mut self) -> Result<SessionId, SessionError> {
        if let Some(id) = &self.session {
            return Ok(id.clone());
        }
        let id = SessionId::generate();
        maintenance_runtime(&self.store).create(self.session(&id, None)).await?;
        self.session = Some(id.clone());
        Ok(id)
    }

    /// Makes the session of which nothing is kept yet, with what is said first.
    pub(crate) fn session(&self, id: &SessionId, said: Option<&Message>) -> AgentSession {
        let system = self.system.as_deref().unwrap_or_default();
        let mut definition = match &self.setup.applied {
            Some(applied) => (*applied.definition).clone(),
            None => AgentDefinition::new(AGENT, ABOUT, system),
        };
        definition.llm = Some(self.setup.llm.clone());
        let state = AgentState::new().with_budget(self.budget);
        let state = self.setup.session_budget.keep(state);
        let state = match SessionFolder::of(self.setup.workdir.path()) {
            Some(folder) => folder.keep(state),
            None => state,
        };
        let workdir = self.setup.workdir.path().to_string_lossy().into_owned();
        let factory = SessionFactory::new();
        let session =
            factory.create_from(definition, state, id.clone(), now()).with_workdir(workdir);
        let Some(said) = said else { return session };
        let state = session.state().clone().with_message(said.clone());
        session.with_state(state).with_title(title(said))
    }

    /// Says how to resume the session, if there is one and people are to know.
    pub fn tell_resume(&self, stage: RunDisplay) {
        // The error names another command.
        let is_refused = self.is_refused && self.command.name == "run";
        let is_told =
            stage.details != Verbosity::Errors && stage.format.is_for_people() && !is_refused;
        let command =
            self.session.as_ref().filter(|_| is_told).and_then(|id| self.command.resume(id));
        if let Some(command) = command {
            console::tell(&format!("{FAINT}resume with: {}{FAINT:#}", sanitize_terminal(&command)));
        }
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Command {
    fn resume(&self, id: &SessionId) -> Option<String> {
        if self.name.is_empty() {
            return None;
        }
        let line = format!("loopwright {} --resume {}", self.name, short(id));
        Some(self.options.iter().fold(line, |line, option| line + " " + option))
    }
}

/// Says that a message is kept if the calls of a step waited before it and still do.
fn tell_kept(said: Option<&Message>, waiting: Option<u32>, state: &AgentState) {
    if said.is_some() && waiting.is_some() && waiting == waiting_step(state) {
        console::interrupt(KEPT);
    }
}

/// Returns the number of the step whose calls wait for a decision or an answer.
fn waiting_step(state: &AgentState) -> Option<u32> {
    let open = state.execution()?.open_step()?;
    (!state.pending().is_empty()).then(|| open.number())
}

/// Returns what an agent of a session is made of, with tools that note what they do to files.
pub(crate) fn noting_files(setup: &Setup, store: &Arc<dyn SessionStore>, id: &SessionId) -> Setup {
    let files = SessionFiles::new(Arc::clone(store), id.clone());
    let files = files.with_folder(setup.workdir.path());
    let workdir = setup.workdir.clone().with_journal(Arc::new(files));
    let mut setup = Setup { workdir, ..setup.clone() };
    setup.commands.session = Some(id.clone());
    setup
}

/// Makes a title of what is said first.
pub(crate) fn title(said: &Message) -> String {
    let text = said.text();
    let words: Vec<&str> = typed_text(&text).typed.split_whitespace().collect();
    words.join(" ").chars().take(TITLE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_text::typed_command;

    #[test]
    fn a_title_is_the_beginning_of_what_is_said_in_one_line() {
        let title = |said: &str| title(&Message::user(said));
        assert_eq!(title(" a\n b\tc "), "a b c");
        assert_eq!(title(&"ä".repeat(100)), "ä".repeat(80));
        let command = typed_command("/review the parser");
        assert_eq!(title(&format!("{command}\n\nReview it.")), "/review the parser");
    }
}
