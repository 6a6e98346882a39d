//! `loopwright run`.

use std::pin::pin;

use futures::future::{Either, select};
use loopwright_core::{AgentState, messages::Message};

use crate::approval::{self, Turned};
use crate::args::{Cli, RunArgs};
use crate::config::OutputFormat;
use crate::console;
use crate::conversation::UserInput;
use crate::exit::ExitCode;
use crate::input::{Input, is_watched};
use crate::prompt::PromptError;
use crate::signals::Signals;
use crate::startup::{StartError, Startup};
use crate::store::close_all;

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

/// Runs a future to its end on this thread. What it leaves behind is not waited for.
pub(crate) fn with_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
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
    let prompt = match args.prompt().read_stdin() {
        Ok(prompt) => Some(prompt),
        // What was interrupted continues without words.
        Err(PromptError::Missing) if origin.goes_on() && !args.steer => None,
        Err(error) => return Err(error.into()),
    };
    if origin.no_session {
        let setup = opening.setup_of_new(&args.agent).await?;
        let asked = AgentState::new().with_budget(opening.budget());
        let asked = asked.with_user_message(prompt.unwrap_or_default());
        let exit_code = opening.stage.perform(&setup, asked).await.exit_code;
        setup.permissions.tell_shadow();
        return Ok(exit_code);
    }
    let mut signals = Signals::new().ok();
    let conversation = Box::pin(opening.conversation(cli, &args.agent, &args.session, "run"));
    let mut conversation = unless_signalled(signals.as_mut(), conversation).await?;
    let said = UserInput { message: prompt.map(Message::user), steers: args.steer };
    let is_text = opening.config.output_format.value == OutputFormat::Text;
    let mut input = (is_text && is_watched()).then(|| Input::terminal(None, None, None));
    let turn =
        approval::say(&mut conversation, opening.stage, signals.as_mut(), said, input.as_mut());
    let (Turned::Ended(exit_code) | Turned::Left(exit_code)) = turn.await;
    conversation.setup.permissions.tell_shadow();
    conversation.tell_resume(opening.stage);
    Ok(exit_code)
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
