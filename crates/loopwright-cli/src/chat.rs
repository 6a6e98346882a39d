//! `loopwright chat`.

pub(crate) mod compact;
mod command;
mod rewind;

use loopwright_core::{BoxError, LlmConfig};
use loopwright_permissions::Mode;

use self::command::ChatCommand;
use self::rewind::{Asked, Rewind, Rewound};
use crate::approval::{self, Turned};
use crate::args::{ChatArgs, Cli};
use crate::config::OutputFormat;
use crate::console;
use crate::conversation::{Conversation, UserInput};
use crate::display::RunDisplay;
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::input::{Input, InputEvent, is_watched};
use crate::loops::maintenance_runtime;
use crate::mcp;
use crate::model;
use crate::model_hint::guide;
use crate::render::{Verbosity, sanitize_terminal};
use crate::run::with_runtime;
use crate::session::{SessionsError, short};
use crate::signals::{Signals, exit_code};
use crate::startup::{StartError, Startup};
use crate::store::state_directory;

const HELP: &str = "\
/help           show this help
/model [NAME]   show the model, or use PROVIDER/NAME from now on
/mode [MODE]    show the permission mode, or change it; Shift-Tab selects the next one
/permissions    show the permission rules
/mcp            show the MCP servers and whether they work
/continue       resume what was interrupted
/compact        summarize older messages and report the tokens saved
/fork           continue in a copy; the original session stays unchanged
/rewind [STEP] [files]
                rewind to the end of a step, or to before the last message; `files` also
                undoes file changes
/quit           exit, like Ctrl-D
Alt-Enter, or a backslash before Enter, starts a new line. Ctrl-C stops the agent.";

/// Talks until the user leaves.
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

/// Says at a terminal how to get a model, if there is none and none was named.
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
    let conversation = opening.conversation(cli, &args.agent, &args.session, "chat").await?;
    let stage = opening.stage;
    let is_watched = is_watched();
    let input = if is_watched {
        let history = (!args.session.origin.no_session).then(|| state_directory(&opening.sources));
        Input::terminal(history.flatten().as_deref())
    } else {
        Input::lines()
    };
    let is_spaced = is_watched && stage.details != Verbosity::Errors;
    let signals = Signals::new().ok();
    let mut talk = ChatSession { conversation, stage, signals, is_spaced, failed: ExitCode::Done };
    if is_watched {
        talk.greet().await;
    }
    let exit_code = talk.listen(input).await;
    talk.conversation.tell_resume(stage);
    // The watcher has seen what went wrong.
    Ok(if is_watched && exit_code == talk.failed { ExitCode::Done } else { exit_code })
}

/// A conversation under way.
struct ChatSession {
    conversation: Conversation,
    stage: RunDisplay,
    signals: Option<Signals>,
    /// Whether a free line stands between turns.
    is_spaced: bool,
    /// How the last turn ended that did not end well.
    failed: ExitCode,
}

impl ChatSession {
    async fn greet(&self) {
        if self.stage.details == Verbosity::Errors {
            return;
        }
        let setup = &self.conversation.setup;
        let (model, workdir) = (setup.model(), setup.workdir.path().display().to_string());
        console::tell(&format!(
            "{} · mode {} · {} · /help for help",
            sanitize_terminal(&model),
            setup.permissions.policy().mode(),
            sanitize_terminal(&workdir)
        ));
        let Some(id) = &self.conversation.session else { return };
        console::tell(&format!("session {}", short(id)));
        let session = maintenance_runtime(&self.conversation.store).session(id).await;
        if session.is_ok_and(|it| it.is_unfinished()) {
            console::tell("the last run has no answer; send a message, or /continue");
        }
    }

    /// Takes turns until the user leaves, and returns the exit status.
    async fn listen(&mut self, mut input: Input) -> ExitCode {
        let mut wants_to_leave = false;
        loop {
            let heard = input.next(self.signals.as_mut()).await;
            let is_second =
                std::mem::replace(&mut wants_to_leave, matches!(heard, InputEvent::Nothing));
            let text = match heard {
                InputEvent::TextOrSecret(text) => text,
                InputEvent::Nothing if is_second => return self.failed,
                InputEvent::Nothing => {
                    console::tell("press Ctrl-C again or Ctrl-D to exit");
                    continue;
                }
                InputEvent::End => return self.failed,
                InputEvent::Signal(reason) => return exit_code(reason),
                InputEvent::Broken(error) => return console::fail(&error, ExitCode::Internal),
            };
            match ChatCommand::of(&text) {
                ChatCommand::Nothing => {}
                ChatCommand::Quit => return self.failed,
                ChatCommand::Help => console::tell(HELP),
                ChatCommand::Unknown(word) => {
                    console::tell(&format!(
                        "unknown command {}; /help lists the commands",
                        sanitize_terminal(&word)
                    ));
                }
                ChatCommand::Say(text) => {
                    if let Some(exit_code) = self.say(Some(text), &mut input).await {
                        return exit_code;
                    }
                }
                ChatCommand::Continue if self.conversation.session.is_some() => {
                    if let Some(exit_code) = self.say(None, &mut input).await {
                        return exit_code;
                    }
                }
                ChatCommand::Continue => console::tell("no messages yet"),
                ChatCommand::Mode(name) => self.mode(name.as_deref()),
                ChatCommand::Permissions => self.permissions(),
                ChatCommand::Mcp => mcp::tell_status(&self.conversation.setup.mcp),
                ChatCommand::Model(name) => self.model(name.as_deref()),
                ChatCommand::Compact => {
                    if let Some(exit_code) = self.compact().await {
                        return exit_code;
                    }
                }
                ChatCommand::Fork => tell(self.fork().await),
                ChatCommand::Rewind(back) => {
                    if let Some(exit_code) = self.rewind(back, &mut input).await {
                        return exit_code;
                    }
                }
            }
        }
    }

    /// Takes a turn; returns an exit status if it was the last one.
    async fn say(&mut self, text: Option<String>, input: &mut Input) -> Option<ExitCode> {
        let said = UserInput { text: text.map(Into::into), steers: false };
        let input = is_watched().then_some(input);
        let turn =
            approval::say(&mut self.conversation, self.stage, self.signals.as_mut(), said, input);
        let exit_code = match turn.await {
            Turned::Ended(exit_code) => exit_code,
            Turned::Left(exit_code) => return Some(exit_code),
        };
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

    /// Shows or changes the permission mode.
    fn mode(&self, name: Option<&str>) {
        let permissions = &self.conversation.setup.permissions;
        let mode = match name {
            None => return console::tell(&format!("mode {}", permissions.policy().mode())),
            Some("next") => Ok(next(permissions.policy().mode())),
            Some(name) => name.parse::<Mode>().map_err(BoxError::from),
        };
        match mode.and_then(|mode| Ok(permissions.set_mode(mode)?)) {
            Ok(()) => console::tell(&format!("mode {}", permissions.policy().mode())),
            Err(error) => {
                console::fail(&*error, ExitCode::Usage);
            }
        }
    }

    fn permissions(&self) {
        let policy = self.conversation.setup.permissions.policy();
        console::tell(&format!("mode {}", policy.mode()));
        for rule in policy.rules() {
            console::tell(&sanitize_terminal(&rule.to_string()));
        }
    }

    fn model(&mut self, name: Option<&str>) {
        let setup = &mut self.conversation.setup;
        let Some(name) = name else {
            return console::tell(&sanitize_terminal(&setup.model()));
        };
        let options = setup.llm.options.clone();
        let llm = LlmConfig { options, ..LlmConfig::named(name) };
        match setup.models.resolve(Some(&llm)) {
            Ok(_) => setup.llm = llm,
            Err(error) => drop(console::fail(&error, ExitCode::NoModel)),
        }
    }

    /// Makes the conversation short; returns an exit status if the program is to end.
    async fn compact(&mut self) -> Option<ExitCode> {
        let done = compact::compact(&self.conversation, self.signals.as_mut()).await;
        tell(done.told);
        let ends = |reason: &Interruption| matches!(reason, Interruption::Terminate);
        done.interruption.filter(ends).map(exit_code)
    }

    async fn fork(&mut self) -> Result<String, SessionsError> {
        let Some(id) = self.conversation.session.clone() else { return Err(nothing_said()) };
        let fork = maintenance_runtime(&self.conversation.store).fork(&id, None, None).await?;
        let told = format!(
            "continuing in session {}; session {} is unchanged",
            short(&fork.id),
            short(&id)
        );
        self.conversation.session = Some(fork.id);
        Ok(told)
    }

    /// Goes back; returns an exit status if the user leaves instead.
    async fn rewind(&mut self, back: Rewind, input: &mut Input) -> Option<ExitCode> {
        let Some(id) = self.conversation.session.clone() else {
            tell(Err(nothing_said()));
            return None;
        };
        let asked = Asked { input, signals: self.signals.as_mut(), is_watched: is_watched() };
        match rewind::rewind(&self.conversation, &id, back, asked).await {
            Ok(Rewound::To(told)) => console::tell(&told),
            Ok(Rewound::Not(reason)) => console::tell(reason),
            Ok(Rewound::Left(InputEvent::Signal(reason))) => return Some(exit_code(reason)),
            Ok(Rewound::Left(_)) => return Some(self.failed),
            Err(error) => tell(Err(error)),
        }
        None
    }
}

/// Returns the mode that Shift-Tab leads to. Running without confinement has to be typed.
fn next(mode: Mode) -> Mode {
    match mode {
        Mode::Ask => Mode::AcceptEdits,
        Mode::AcceptEdits => Mode::Auto,
        Mode::Auto => Mode::Plan,
        Mode::Plan | Mode::Deny | Mode::Unconfined => Mode::Ask,
    }
}

fn tell(done: Result<String, SessionsError>) {
    match done {
        Ok(told) => console::tell(&told),
        Err(error) => drop(console::fail(&error, error.exit_code())),
    }
}

fn nothing_said() -> SessionsError {
    SessionsError::Usage("no messages yet".to_owned())
}
