//! `loopwright run`.

use std::io::{self, IsTerminal as _};

use loopwright_core::AgentState;

use crate::args::{Cli, RunArgs};
use crate::console;
use crate::conversation::Said;
use crate::exit::ExitCode;
use crate::opening::{Opening, Refusal};
use crate::prompt::{PromptError, StdinKind};
use crate::signals::Signals;
use crate::store::close_all;

/// Gives an agent a task and waits for its answer.
pub fn run(cli: &Cli, args: &RunArgs) -> ExitCode {
    let mut opening = match Opening::begin(cli, &args.agent, &args.session) {
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

async fn perform(cli: &Cli, args: &RunArgs, opening: &mut Opening) -> Result<ExitCode, Refusal> {
    let origin = &args.session.origin;
    let prompt = match args.prompt().read(stdin_kind(), io::stdin().lock()) {
        Ok(prompt) => Some(prompt),
        // What was interrupted goes on without words.
        Err(PromptError::Missing) if origin.goes_on() && !args.steer => None,
        Err(error) => return Err(error.into()),
    };
    if origin.no_session {
        let setup = opening.setup_of_new(&args.agent).await?;
        let asked = AgentState::new().with_budget(opening.budget());
        let asked = asked.with_user_message(prompt.unwrap_or_default());
        return Ok(opening.stage.perform(&setup, asked).await.exit_code);
    }
    let mut conversation = opening.conversation(cli, &args.agent, &args.session, "run").await?;
    let said = Said { text: prompt.map(Into::into), steers: args.steer };
    let mut signals = Signals::new().ok();
    let exit_code = conversation.say(opening.stage, signals.as_mut(), said).await;
    conversation.tell_resume(opening.stage);
    Ok(exit_code)
}

fn stdin_kind() -> StdinKind {
    if io::stdin().is_terminal() { StdinKind::Terminal } else { StdinKind::Piped }
}
