//! `loopwright run`.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use loopwright_core::{AgentState, Budget, messages::Cost};

use crate::agent::Setup;
use crate::args::{Cli, RunArgs, Transport};
use crate::config::{Config, ConfigError, Limits, Loaded, Sources};
use crate::console;
use crate::exit::ExitCode;
use crate::model;
use crate::prompt::StdinKind;
use crate::stage::Stage;
use crate::tools;

/// The limits of a run for which nobody set any: enough for work, too little for a catastrophe.
const STEPS: u32 = 50;
const TOKENS: u64 = 1_000_000;
const TIME: Duration = Duration::from_mins(15);

/// Gives an agent a task and waits for its answer.
pub fn run(cli: &Cli, args: &RunArgs) -> ExitCode {
    console::set_color(args.surroundings.color);
    let typed = args.surroundings.output_format().unwrap_or_default();
    let stage = Stage::new(typed, args.surroundings.quiet);
    let (sources, loaded) = match load(cli, args) {
        Ok(loaded) => loaded,
        Err(error @ ConfigError::Workdir { .. }) => {
            return stage.refuse(&error, ExitCode::Usage, "usage");
        }
        Err(error) => return stage.refuse(&error, ExitCode::Config, "configuration"),
    };
    for warning in &loaded.warnings {
        console::warn(warning);
    }
    let stage = Stage::new(loaded.config.output_format.value, args.surroundings.quiet);
    match args.prompt().read(stdin_kind(), io::stdin().lock()) {
        Ok(prompt) => {
            let transport = args.transport();
            with_runtime(perform(stage, &loaded.config, &sources, &transport, prompt))
        }
        Err(error) => stage.refuse(&error, ExitCode::Usage, "usage"),
    }
}

/// Runs a future to its end on this thread. What it leaves behind is not waited for.
pub(crate) fn with_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let exit_code = runtime.block_on(work);
            runtime.shutdown_background();
            exit_code
        }
        Err(error) => console::fail(&error, ExitCode::Internal),
    }
}

async fn perform(
    stage: Stage,
    config: &Config,
    sources: &Sources,
    transport: &Transport,
    prompt: String,
) -> ExitCode {
    let chosen = match model::choose(config, sources, transport).await {
        Ok(chosen) => chosen,
        Err(error) => return stage.refuse(&error, error.exit_code(), error.stop_reason()),
    };
    let workdir = match tools::workdir(&config.workdir) {
        Ok(workdir) => workdir,
        Err(error) => return stage.refuse(&error, ExitCode::Usage, "usage"),
    };
    let setup = Setup {
        models: chosen.models,
        llm: chosen.llm,
        workdir,
        driver: config.sandbox_tier.as_ref().map(|it| it.value).unwrap_or_default(),
        system: config.system.as_ref().map(|it| it.value.clone()),
    };
    let asked = AgentState::new().with_budget(budget(&config.limits)).with_user_message(prompt);
    stage.perform(&setup, asked).await.exit_code
}

fn load(cli: &Cli, args: &RunArgs) -> Result<(Sources, Loaded), ConfigError> {
    let sources = Sources::from_process()
        .map_err(|source| ConfigError::Workdir { path: ".".into(), source })?;
    let loaded = Config::load(args.flags(cli.config.as_deref()), &sources)?;
    Ok((sources, loaded))
}

fn budget(limits: &Limits) -> Budget {
    Budget {
        steps: Some(limits.steps.as_ref().map_or(STEPS, |it| it.value.get())),
        tokens: Some(limits.tokens.as_ref().map_or(TOKENS, |it| it.value.get())),
        time: Some(limits.seconds.as_ref().map_or(TIME, |it| it.value)),
        cost: limits.cost.as_ref().map(|it| Cost::from_dollars(it.value.amount())),
        deadline: None,
    }
}

fn stdin_kind() -> StdinKind {
    if io::stdin().is_terminal() { StdinKind::Terminal } else { StdinKind::Piped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_limits_has_some() {
        let budget = budget(&Limits::default());
        assert_eq!(
            (budget.steps, budget.tokens, budget.time),
            (Some(STEPS), Some(TOKENS), Some(TIME))
        );
        assert_eq!(budget.cost, None);
    }
}
