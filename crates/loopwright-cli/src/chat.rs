//! `loopwright chat`.

pub(crate) mod compact;
mod add_dir;
mod choose;
mod command;
mod context;
mod diff;
mod export;
mod help;
mod mode;
mod place;
mod prompts;
mod rewind;
mod servers;
mod shell;
mod status;
mod switch;
mod trust;
mod turns;
mod use_skill;
mod view;

use std::ops::ControlFlow;
use std::sync::Arc;

use loopwright_core::{AgentState, messages::Part};
use tokio::runtime::Handle;

use self::command::ChatCommand;
use self::place::Place;
use self::rewind::{Rewind, Rewound};
use self::status::StatusLine;
use self::switch::Choice;
use self::view::View;
use crate::approval::{self, Turned};
use crate::args::{ChatArgs, Cli};
use crate::chosen_rules::KeptPermissions;
use crate::config::OutputFormat;
use crate::console;
use crate::conversation::{Conversation, SessionTotals, UserInput};
use crate::display::RunDisplay;
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::input::{ChatCompleter, Input, InputEvent, Pastes, is_watched};
use crate::loops::maintenance_runtime;
use crate::mcp_completions;
use crate::mentions;
use crate::model;
use crate::model_hint::guide;
use crate::render::{Verbosity, is_plain, sanitize_terminal, set_plain};
use crate::run::with_runtime;
use crate::session::{SessionsError, short};
use crate::signals::{Signals, exit_code, input_exit_code};
use crate::startup::{StartError, Startup};
use crate::store::state_directory;

/// Runs the chat until the user leaves.
pub fn chat(cli: &Cli, args: &ChatArgs) -> ExitCode {
    let mut opening = match Startup::begin(cli, &args.agent, &args.session) {
        Ok(opening) => opening,
        Err(exit_code) => return exit_code,
    };
    with_runtime(async {
        let done = Box::pin(perform(cli, args, &mut opening)).await;
        done.unwrap_or_else(|refusal| match introduction(&refusal, &opening) {
            Some(introduction) => {
                console::tell(&introduction);
                refusal.exit_code
            }
            None => refusal.tell(opening.stage),
        })
    })
}

/// Explains at a terminal how to set up a model, if none is available and none was named.
fn introduction(refusal: &StartError, opening: &Startup) -> Option<String> {
    let config = &opening.config;
    let is_new = refusal.exit_code == ExitCode::NoModel
        && config.model.is_none()
        && config.base_url.is_none()
        && config.output_format.value == OutputFormat::Text
        && is_watched();
    let providers = model::providers(config, &opening.sources).ok().filter(|_| is_new)?;
    Some(guide(&providers))
}

async fn perform(
    cli: &Cli,
    args: &ChatArgs,
    opening: &mut Startup,
) -> Result<ExitCode, StartError> {
    if args.choose_session && !is_watched() {
        let reason = "without a terminal, `--resume` needs the ID of a session; `loopwright sessions list` lists them";
        return Err(SessionsError::Usage(reason.to_owned()).into());
    }
    let conversation = opening.conversation(cli, &args.agent, &args.session, "chat").await?;
    conversation.refuse_snapshots().await?;
    let stage = opening.stage;
    let is_watched = is_watched();
    if args.plain || opening.config.chat.is_plain() {
        set_plain();
    }
    let place = Place { config: opening.config.clone(), sources: opening.sources.clone() };
    let input = if is_watched && !is_plain() {
        let history = (!args.session.origin.no_session).then(|| state_directory(&opening.sources));
        let defined = place.clone();
        let setup = &conversation.setup;
        let (servers, runtime) = (setup.mcp.clone(), Handle::current());
        let completer = ChatCompleter::new(move || defined.completions(), setup.workdir.path())
            .with_others(move |line| mcp_completions::complete(&servers, &runtime, line));
        let environment = &opening.sources.environment;
        let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|it| environment.get(it));
        Input::terminal(history.flatten().as_deref(), Some(completer), editor.map(|it| &**it))
    } else {
        Input::lines()
    };
    let is_spaced = is_watched && stage.details != Verbosity::Errors;
    let signals = Signals::new().ok();
    let has_status = is_spaced && !is_plain();
    let status = StatusLine::new(&opening.config.chat, has_status);
    let mut talk = ChatSession {
        cli,
        args,
        conversation,
        stage,
        signals,
        is_spaced,
        place,
        status,
        printed: Vec::new(),
        failed: ExitCode::Done,
    };
    if is_watched {
        talk.greet().await;
    }
    if !is_watched || stage.details == Verbosity::Errors {
        stage.tell_mode(talk.conversation.setup.mode());
    }
    let exit_code = talk.listen(input).await;
    talk.conversation.setup.commands.end().await;
    talk.conversation.setup.permissions.tell_shadow();
    talk.conversation.tell_resume(stage);
    // The watcher has reported the error.
    Ok(if is_watched && exit_code == talk.failed { ExitCode::Done } else { exit_code })
}

/// A running chat.
struct ChatSession<'a> {
    cli: &'a Cli,
    args: &'a ChatArgs,
    conversation: Conversation,
    stage: RunDisplay,
    signals: Option<Signals>,
    /// Whether an empty line separates turns.
    is_spaced: bool,
    /// The search path for agents and skills.
    place: Place,
    /// The line above the prompt.
    status: StatusLine,
    /// The output of the user's commands since the last message.
    printed: Vec<String>,
    /// The outcome of the last turn, if it did not complete.
    failed: ExitCode,
}

/// A message, and the part of it that the user typed. Only that part attaches files, and resources of servers.
#[derive(Default)]
struct Said {
    text: String,
    typed: String,
    /// The skill that the message carries, whose hooks run in the turn.
    skill: Option<String>,
}

impl Said {
    fn typed(text: String) -> Self {
        Self { typed: text.clone(), text, skill: None }
    }
}

impl ChatSession<'_> {
    /// Names the agent, if it is not the program's own, the model and the permission mode.
    fn heading(&self) -> String {
        let setup = &self.conversation.setup;
        let agent = setup.applied.as_ref().map(|it| format!("agent {} · ", it.definition.name));
        let (model, mode) = (setup.model(), setup.mode());
        sanitize_terminal(&format!("{}{model} · mode {mode}", agent.unwrap_or_default()))
    }

    async fn greet(&self) {
        if self.stage.details == Verbosity::Errors {
            return;
        }
        let workdir = self.conversation.setup.workdir.path().display().to_string();
        console::tell(&format!(
            "{} · {} · /help for help",
            self.heading(),
            sanitize_terminal(&workdir)
        ));
        if let Some(id) = &self.conversation.session {
            console::tell(&format!("session {}", short(id)));
            if let Err(error) = switch::show_last(&*self.conversation.store, id).await {
                tell(Err(error));
            }
        }
    }

    /// Runs turns until the user leaves, and returns the exit status.
    async fn listen(&mut self, mut input: Input) -> ExitCode {
        let mut first = self.args.prompt.clone().filter(|it| !it.trim().is_empty());
        if let Some(ends) = self.begin(&mut first, &mut input).await {
            return ends;
        }
        let mut wants_to_leave = false;
        let mut changed = None;
        loop {
            self.fill_totals().await;
            let status = self.status.line(&self.conversation).await;
            input.set_status(mode::with_change(status, changed.take()));
            let heard = match first.take() {
                Some(line) => {
                    console::tell(&sanitize_terminal(&format!("> {line}")));
                    InputEvent::Text(line)
                }
                None => input.next(self.signals.as_mut()).await,
            };
            let is_second =
                std::mem::replace(&mut wants_to_leave, matches!(heard, InputEvent::Nothing));
            let text = match heard {
                InputEvent::Text(text) => text,
                InputEvent::NextMode => {
                    changed = Some(self.next_mode());
                    continue;
                }
                InputEvent::NoEffect(reason) => {
                    changed = Some(reason);
                    continue;
                }
                InputEvent::Nothing if is_second => return self.failed,
                InputEvent::Nothing => {
                    console::tell("press Ctrl-C again, or Ctrl-D, to exit");
                    continue;
                }
                InputEvent::Expired | InputEvent::Discarded => continue,
                event @ (InputEvent::End | InputEvent::Signal(_) | InputEvent::Broken(_)) => {
                    return input_exit_code(&event, self.failed);
                }
            };
            let ends = match ChatCommand::of(&text) {
                ChatCommand::Nothing => None,
                ChatCommand::Quit => Some(self.failed),
                ChatCommand::Say(text) => self.say(Some(Said::typed(text)), &mut input).await,
                ChatCommand::Use(named) => self.use_skill(named, &mut input).await,
                ChatCommand::Init => {
                    let said = Said { text: prompts::init(), ..Said::default() };
                    self.say(Some(said), &mut input).await
                }
                ChatCommand::Review(what) => {
                    let said = Said { text: prompts::review(&what), typed: what, skill: None };
                    self.say(Some(said), &mut input).await
                }
                ChatCommand::Continue if self.conversation.session.is_some() => {
                    self.say(None, &mut input).await
                }
                ChatCommand::Compact => self.compact().await,
                ChatCommand::Rewind(back) => self.go_back(back, &mut input).await.err(),
                ChatCommand::Turns(draft) => self.turns(draft, &mut input).await,
                ChatCommand::Resume(text) => {
                    self.resume(&text, &mut input).await.break_value().flatten()
                }
                ChatCommand::Trust => self.trust(&mut input).await,
                ChatCommand::Run(command) => {
                    self.run(&command, &mut input).await;
                    None
                }
                other => {
                    self.answer(other).await;
                    None
                }
            };
            if let Some(exit_code) = ends {
                return exit_code;
            }
        }
    }

    /// Lets the user choose a session if that was asked for. Then opens the dialog about calls that wait since the last run, or sends the
    /// initial prompt of the agent's definition, with the message of the command line, which it takes. Returns an exit status if that
    /// was the last turn.
    async fn begin(&mut self, typed: &mut Option<String>, input: &mut Input) -> Option<ExitCode> {
        let resumed = if self.args.choose_session {
            self.resume("", input).await
        } else {
            self.ask_again(input).await
        };
        if let ControlFlow::Break(ends) = resumed {
            return ends;
        }
        let applied = self.conversation.setup.applied.as_ref()?;
        applied.first_message(None)?;
        let typed = typed.take();
        let first = applied.first_message(typed.clone())?;
        console::tell(&sanitize_terminal(&format!("› {first}")));
        let typed = typed.unwrap_or_default();
        self.say(Some(Said { text: first, typed, skill: None }), input).await
    }

    /// Opens the dialog about the calls that wait in the resumed session, and breaks with the exit status if that was the last turn.
    /// If none waits, says so of a last run without an answer.
    async fn ask_again(&mut self, input: &mut Input) -> ControlFlow<Option<ExitCode>> {
        let Some(id) = self.conversation.session.as_ref().filter(|_| is_watched()) else {
            return ControlFlow::Continue(());
        };
        let session = maintenance_runtime(&self.conversation.store).session(id).await;
        // The first turn reports a session that cannot be read.
        let Ok(session) = session else { return ControlFlow::Break(None) };
        if !session.state().pending().is_empty() {
            return ControlFlow::Break(self.say(None, input).await);
        }
        if session.is_unfinished() && self.stage.details != Verbosity::Errors {
            console::tell("the last run has no answer; send a message, or type /continue");
        }
        ControlFlow::Continue(())
    }

    /// Handles commands that need no turn and no input.
    async fn answer(&mut self, command: ChatCommand) {
        if let Some(shown) = self.view().show(&command, self.conversation.session.as_ref()).await {
            return tell(shown);
        }
        match command {
            ChatCommand::Continue => console::tell("no messages yet"),
            ChatCommand::Clear => self.clear(),
            ChatCommand::Fork => tell(self.fork().await),
            ChatCommand::Export(name) => tell(self.export(name.as_deref()).await),
            ChatCommand::Mode(Some(name)) => self.mode(&name),
            ChatCommand::AddDir(folder) => self.add_dir(&folder),
            ChatCommand::Model(Some(name)) => self.model(&name),
            ChatCommand::Effort(Some(effort)) => self.effort(effort),
            _ => {}
        }
    }

    /// Returns what the commands show that change nothing.
    fn view(&self) -> View {
        let store = Arc::clone(&self.conversation.store);
        let (setup, place) = (self.conversation.setup.clone(), self.place.clone());
        View { setup, store, place, pastes: Pastes::default() }
    }

    /// Runs a turn; returns an exit status if it was the last one.
    async fn say(&mut self, said: Option<Said>, input: &mut Input) -> Option<ExitCode> {
        let Some(said) = said else { return self.send(UserInput::default(), input).await };
        match self.attached(&said.typed).await {
            Ok(mut attached) => {
                let (text, media) = self.complete(&said);
                let pasted = input.pastes().media(&said.typed);
                pasted.warnings().for_each(|warning| console::warn(&warning));
                for part in pasted.parts.into_iter().chain(media) {
                    attached.attach(part);
                }
                self.conversation.setup.tell_unseen(attached.media());
                let message = Some(attached.to_message(&text));
                self.send(UserInput { message, skill: said.skill, steers: false }, input).await
            }
            Err(ends) => ends,
        }
    }

    async fn send(&mut self, said: UserInput, input: &mut Input) -> Option<ExitCode> {
        let input = is_watched().then_some(input);
        let pastes = input.as_ref().map(|it| it.pastes()).unwrap_or_default();
        self.conversation.live = Some(Arc::new(View { pastes, ..self.view() }));
        let turn =
            approval::say(&mut self.conversation, self.stage, self.signals.as_mut(), said, input);
        let exit_code = match turn.await {
            Turned::Ended(exit_code) => exit_code,
            Turned::Left(exit_code) => return Some(exit_code),
        };
        self.conversation.setup.mcp.tell_failures();
        if self.is_spaced {
            console::tell("");
        }
        match exit_code {
            ExitCode::Terminated => return Some(exit_code),
            ExitCode::Done => {}
            _ => self.failed = exit_code,
        }
        None
    }

    /// Prepends the output of commands to a message, and appends the text files that the user names in it. Also returns the
    /// named images and documents.
    fn complete(&mut self, said: &Said) -> (String, Vec<Part>) {
        let attached = mentions::attach(&said.text, &said.typed, &self.conversation.setup.workdir);
        if !attached.files.is_empty() {
            console::tell(&format!("attached: {}", attached.files.join(", ")));
        }
        for note in attached.notes {
            console::warn(&note);
        }
        let mut parts = std::mem::take(&mut self.printed);
        parts.push(attached.text);
        (parts.join("\n\n"), attached.media)
    }

    /// Runs a command of the user, and reports it to the agent with the next message.
    async fn run(&mut self, command: &str, input: &mut Input) {
        let signals = self.signals.as_mut();
        let printed = shell::run(&self.conversation, self.stage, command, signals, input).await;
        self.printed.extend(printed);
    }

    /// Starts another session with the next message.
    fn clear(&mut self) {
        self.printed.clear();
        self.conversation.system.clone_from(&self.conversation.own_system);
        let typed = self.conversation.typed.tools.clone();
        self.conversation.setup.tools = typed.into_iter().collect();
        if let Err(error) =
            self.conversation.setup.permissions.use_chosen(KeptPermissions::default())
        {
            console::warn(&error);
        }
        match self.conversation.session.take() {
            Some(id) => {
                console::tell(&format!("new session; /resume goes back to {}", short(&id)));
            }
            None => console::tell("no messages yet"),
        }
    }

    /// Switches to another session, and opens the dialog about the calls that wait in it. Breaks after a turn, and with an exit
    /// status if the user leaves.
    async fn resume(&mut self, text: &str, input: &mut Input) -> ControlFlow<Option<ExitCode>> {
        let store = Arc::clone(&self.conversation.store);
        let workdir = self.conversation.setup.workdir.path().to_owned();
        let signals = self.signals.as_mut();
        match switch::choose(&*store, &workdir, text, input, signals).await {
            Ok(Choice::Session(id)) => {
                let switched = Startup::switch(self.cli, self.args, &self.conversation, id.clone());
                match switched.await {
                    Ok((opening, conversation)) => {
                        self.place = Place { config: opening.config, sources: opening.sources };
                        self.conversation = conversation;
                        self.printed.clear();
                    }
                    Err(refusal) => {
                        refusal.fail();
                        return ControlFlow::Continue(());
                    }
                }
                console::tell(&format!("session {} · {}", short(&id), self.heading()));
                if let Err(error) = switch::show_last(&*store, &id).await {
                    tell(Err(error));
                }
                return self.ask_again(input).await;
            }
            Ok(Choice::None(reason)) => console::tell(reason),
            Ok(Choice::Left(event)) => {
                return ControlFlow::Break(Some(input_exit_code(&event, self.failed)));
            }
            Err(error) => tell(Err(error)),
        }
        ControlFlow::Continue(())
    }

    /// Finds what a session has used that was resumed and has not run in this chat.
    async fn fill_totals(&mut self) {
        let Some(id) = self.conversation.session.clone() else { return };
        if self.conversation.totals().is_none()
            && let Ok(state) = self.state().await
        {
            self.conversation.totals = Some((id, SessionTotals::of(&state)));
        }
    }

    /// Returns the state of the session.
    async fn state(&self) -> Result<AgentState, SessionsError> {
        let Some(id) = &self.conversation.session else { return Err(SessionsError::NoMessages) };
        let session = maintenance_runtime(&self.conversation.store).session(id).await?;
        Ok(session.state().clone())
    }

    /// Changes how much the model reasons.
    fn effort(&mut self, effort: model::Effort) {
        let setup = &mut self.conversation.setup;
        setup.llm.options.reasoning_effort = effort;
        console::tell(&view::effort(setup));
    }

    fn model(&mut self, name: &str) {
        let setup = &mut self.conversation.setup;
        let Place { config, sources } = &self.place;
        match model::named(name, &setup.llm, &*setup.models, config, sources) {
            Ok(llm) => setup.use_model(llm, config, sources),
            Err(error) => drop(console::fail(&error, ExitCode::NoModel)),
        }
    }

    /// Compacts the conversation; returns an exit status if the program must exit.
    async fn compact(&mut self) -> Option<ExitCode> {
        let done = compact::compact(&self.conversation, self.signals.as_mut()).await;
        tell(done.told);
        let ends = |reason: &Interruption| matches!(reason, Interruption::Terminate);
        done.interruption.filter(ends).map(exit_code)
    }

    async fn fork(&mut self) -> Result<String, SessionsError> {
        let Some(id) = self.conversation.session.clone() else {
            return Err(SessionsError::NoMessages);
        };
        let fork = maintenance_runtime(&self.conversation.store).fork(&id, None, None).await?;
        let told = format!(
            "continuing in session {}; session {} is unchanged",
            short(&fork.id),
            short(&id)
        );
        self.conversation.session = Some(fork.id);
        Ok(told)
    }

    /// Rewinds, and returns whether it did, or an exit status if the user leaves instead.
    async fn go_back(&mut self, back: Rewind, input: &mut Input) -> Result<bool, ExitCode> {
        let Some(id) = self.conversation.session.clone() else {
            tell(Err(SessionsError::NoMessages));
            return Ok(false);
        };
        let signals = self.signals.as_mut();
        match rewind::rewind(&self.conversation, &id, back, input, signals).await {
            Ok(Rewound::To(told)) => {
                console::tell(&told);
                return Ok(true);
            }
            Ok(Rewound::FilesOnly) => {
                console::tell("file changes undone; the conversation is unchanged");
            }
            Ok(Rewound::Not(reason)) => console::tell(reason),
            Ok(Rewound::Left(event)) => return Err(input_exit_code(&event, self.failed)),
            Err(error) => tell(Err(error)),
        }
        Ok(false)
    }
}

fn tell(done: Result<String, SessionsError>) {
    match done {
        Ok(told) => console::tell(&told),
        Err(error @ SessionsError::NoMessages) => console::tell(&error.to_string()),
        Err(error) => drop(console::fail(&error, error.exit_code())),
    }
}
