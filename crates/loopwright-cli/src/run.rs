//! `loopwright run`.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use loopwright_capabilities::skills::INVOKED;
use loopwright_core::{
    AgentState, Edit, LlmConfig,
    messages::{Message, Part},
};
use loopwright_sessions::{SessionId, SessionStore};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::agent::Setup;
use crate::answer_checks::AnswerChecks;
use crate::approval::{self, Turned};
use crate::args::{Cli, RunArgs};
use crate::config::OutputFormat;
use crate::console;
use crate::conversation::UserInput;
use crate::definitions::Defined;
use crate::exit::ExitCode;
use crate::input::{Input, is_watched};
use crate::mcp_mentions;
use crate::media;
use crate::mentions;
use crate::prompt::PromptError;
use crate::render::sanitize_terminal;
use crate::signals::Signals;
use crate::startup::{StartError, Startup};
use crate::store::close_all;
use crate::user_skill::{self, Arguments, Invocation, Invoked, named};

/// Gives an agent a task and waits for its answer.
pub fn run(cli: &Cli, args: &RunArgs) -> ExitCode {
    let mut opening = match Startup::begin(cli, &args.agent, &args.session) {
        Ok(opening) => opening,
        Err(exit_code) => return exit_code,
    };
    with_runtime(async {
        let done = Box::pin(perform(cli, args, &mut opening)).await;
        done.unwrap_or_else(|refusal| refusal.tell(opening.stage))
    })
}

/// The number of polls between two checks of timers and signals. A server that sends interim responses without end makes each poll
/// of its connection take tens of milliseconds, so that with the default of 61 limits and Ctrl-C would take seconds to have
/// an effect.
const POLLS: u32 = 4;

/// Makes what runs a command on this thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().event_interval(POLLS).build()
}

/// The same for a server, which has many connections: they are looked at together, because each look is a system call.
const POLLS_OF_SERVER: u32 = 16;

/// Runs a server to its end: `work` on this thread, and the tasks that it starts on another one. So clients do not wait for the
/// runs of a thousand sessions, nor these for clients.
pub(crate) fn with_server_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    with(server_runtime(), work)
}

fn server_runtime() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().event_interval(POLLS_OF_SERVER).build()
}

/// Runs a future to its end on this thread. What it leaves behind is not waited for.
pub(crate) fn with_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    with(runtime(), work)
}

fn with(runtime: io::Result<Runtime>, work: impl Future<Output = ExitCode>) -> ExitCode {
    match runtime {
        Ok(runtime) => {
            let exit_code = runtime.block_on(async {
                let exit_code = work.await;
                close_all().await;
                exit_code
            });
            runtime.shutdown_background();
            exit_code
        }
        Err(error) => console::fail(&error, ExitCode::Internal),
    }
}

async fn perform(cli: &Cli, args: &RunArgs, opening: &mut Startup) -> Result<ExitCode, StartError> {
    let origin = &args.session.origin;
    let checks = AnswerChecks {
        schema: args.schema.clone(),
        verify: args.verify.clone(),
        output: args.output.clone(),
    };
    checks.prepare()?;
    let stage = opening.stage.of_checked(&checks);
    let media = args.images.iter().map(|path| media::read(path)).collect::<Result<Vec<_>, _>>()?;
    let prompt = match args.prompt().read_stdin() {
        Ok(prompt) => Some(prompt),
        // What was interrupted continues without words.
        Err(PromptError::Missing) if origin.goes_on() && !args.steer && args.images.is_empty() => {
            None
        }
        // The definition may have an initial prompt.
        Err(PromptError::Missing) if args.agent.definition.is_some() && !origin.goes_on() => None,
        Err(error) => return Err(error.into()),
    };
    // Only what was typed names resources, and not what is piped in.
    let typed = args.prompt().typed().unwrap_or_default().to_owned();
    if origin.no_session {
        let mut setup = Setup { checks, ..opening.setup_of_new(&args.agent).await? };
        let asked = Box::pin(Asked::of(prompt, typed, opening, &setup, None)).await;
        if let Some(llm) = &asked.llm {
            setup.use_model(llm.clone(), &opening.config, &opening.sources);
        }
        let prompt = first_message(&setup, asked.text.clone()).ok_or(PromptError::Missing)?;
        let message = message(&prompt, &asked, &setup, media).await;
        stage.tell_mode(setup.mode());
        let started = AgentState::new().with_budget(opening.budget()).with_message(message);
        let started = match asked.skill {
            Some(skill) => started.edit(Edit::Set(INVOKED.slot(), Some(skill.into()))),
            None => started,
        };
        let exit_code = stage.perform(&setup, started).await.exit_code;
        setup.mcp.tell_failures();
        setup.permissions.tell_shadow();
        return Ok(exit_code);
    }
    let mut signals = Signals::new().ok();
    let conversation = Box::pin(opening.conversation(cli, &args.agent, &args.session, "run"));
    let mut conversation = unless_signalled(signals.as_mut(), conversation).await?;
    conversation.setup.checks = checks;
    let asked = async {
        let session = conversation.session.as_ref().map(|id| (&conversation.store, id));
        Ok(Asked::of(prompt, typed, opening, &conversation.setup, session).await)
    };
    let asked = Box::pin(unless_signalled(signals.as_mut(), asked)).await?;
    if let Some(llm) = &asked.llm {
        conversation.setup.use_model(llm.clone(), &opening.config, &opening.sources);
    }
    let setup = &conversation.setup;
    let prompt = first_message(setup, asked.text.clone());
    if prompt.is_none() && !origin.goes_on() {
        return Err(PromptError::Missing.into());
    }
    let message = async {
        Ok(match &prompt {
            Some(prompt) => Some(message(prompt, &asked, setup, media).await),
            None => None,
        })
    };
    let message = unless_signalled(signals.as_mut(), message).await?;
    let said = UserInput { message, steers: args.steer, skill: asked.skill };
    stage.tell_mode(setup.mode());
    let is_text = opening.config.output_format.value == OutputFormat::Text;
    let mut input = (is_text && is_watched()).then(|| Input::terminal(None, None, None));
    let turn = approval::say(&mut conversation, stage, signals.as_mut(), said, input.as_mut());
    let (Turned::Ended(exit_code) | Turned::Left(exit_code)) = turn.await;
    if exit_code != ExitCode::Done {
        // The session keeps none of them.
        conversation.command.options.extend(conversation.setup.checks.options());
    }
    conversation.setup.commands.end().await;
    conversation.setup.mcp.tell_failures();
    conversation.setup.permissions.tell_shadow();
    conversation.tell_resume(opening.stage);
    Ok(exit_code)
}

/// What the user asks for.
struct Asked {
    /// The prompt, or the text of the skill that it names.
    text: Option<String>,
    /// The words that may name files and resources.
    mentions: String,
    /// The skill whose hooks run.
    skill: Option<String>,
    /// The model of the skill.
    llm: Option<LlmConfig>,
}

impl Asked {
    /// Takes a prompt. If what was typed names a skill or an agent as `/NAME ARGUMENTS`, it is the text for it.
    async fn of(
        prompt: Option<String>,
        typed: String,
        opening: &Startup,
        setup: &Setup,
        session: Option<(&Arc<dyn SessionStore>, &SessionId)>,
    ) -> Self {
        let arguments = match (prompt.as_deref().and_then(named), named(&typed)) {
            (Some((name, text)), Some((_, typed))) => Some((name, Arguments { text, typed })),
            _ => None,
        };
        let invocation = Invocation {
            setup,
            config: &opening.config,
            sources: &opening.sources,
            session,
            cancel: &CancellationToken::new(),
        };
        let invoked = match arguments {
            Some((name, arguments)) => Self::invoked(name, arguments, opening, &invocation).await,
            None => None,
        };
        let Some(invoked) = invoked else {
            return Self { text: prompt, mentions: typed, skill: None, llm: None };
        };
        let (text, mentions) = (Some(invoked.text), invoked.mentions);
        Self { text, mentions, skill: invoked.skill, llm: invoked.llm }
    }

    /// Makes a message of a skill or an agent; `None` if no usable one has this name.
    async fn invoked(
        name: &str,
        arguments: Arguments<'_>,
        opening: &Startup,
        invocation: &Invocation<'_>,
    ) -> Option<Invoked> {
        let defined = Defined::of(&opening.config, &opening.sources)?;
        let named = user_skill::find(&defined, name)?;
        let invoked = invocation.message_of(&named, arguments).await;
        invoked.inspect_err(|reason| console::warn(reason)).ok()
    }
}

/// Puts the initial prompt of the agent's definition before the prompt of a new session.
fn first_message(setup: &Setup, prompt: Option<String>) -> Option<String> {
    match &setup.applied {
        Some(applied) => applied.first_message(prompt),
        None => prompt,
    }
}

/// Makes the message of a prompt, with the resources of servers, the images and the documents that the user has named.
async fn message(prompt: &str, asked: &Asked, setup: &Setup, media: Vec<Part>) -> Message {
    let mut attached = mcp_mentions::attach(&asked.mentions, &setup.mcp).await;
    // Only what was typed attaches files, not what was read from a file or a pipe.
    let files = mentions::attach(prompt, &asked.mentions, &setup.workdir);
    files.notes.iter().for_each(|note| console::warn(note));
    for part in files.media.into_iter().chain(media) {
        attached.attach(part);
    }
    setup.tell_unseen(attached.media());
    for note in &attached.notes {
        console::warn(&sanitize_terminal(note));
    }
    attached.to_message(&files.text)
}

/// Prepares a run, and reports as its result if a signal comes first.
async fn unless_signalled<T>(
    signals: Option<&mut Signals>,
    work: impl Future<Output = Result<T, StartError>>,
) -> Result<T, StartError> {
    let Some(signals) = signals else { return work.await };
    match select(pin!(work), pin!(signals.next())).await {
        Either::Left((done, _)) => done,
        Either::Right((reason, _)) => Err(reason.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_limit_has_an_effect_while_the_polls_of_a_connection_take_long() {
        let polls = runtime().unwrap().block_on(async {
            let polls: Arc<AtomicU32> = Arc::default();
            let counted = Arc::clone(&polls);
            // Always ready again, and each time slow: a flooding server.
            tokio::spawn(std::future::poll_fn(move |cx| {
                counted.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            }));
            tokio::time::sleep(Duration::from_millis(1)).await;
            polls.load(Ordering::Relaxed)
        });
        assert!(polls <= 3 * POLLS, "{polls} polls");
    }

    #[test]
    fn tasks_of_a_server_run_while_its_work_occupies_the_thread() {
        let (ran, seen) = std::sync::mpsc::channel();
        let seen = server_runtime().unwrap().block_on(async {
            tokio::spawn(async move { ran.send(thread::current().id()) });
            // Blocks the thread of the work.
            seen.recv_timeout(Duration::from_mins(1))
        });
        assert!(seen.is_ok_and(|it| it != thread::current().id()));
    }
}
