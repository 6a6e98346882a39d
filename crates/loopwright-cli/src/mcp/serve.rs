//! `loopwright mcp serve`: agents or tools for any client of the Model Context Protocol.

mod agent_tool;
mod library;

use std::sync::Arc;

use loopwright_agent::Definitions as _;
use loopwright_core::{AgentLoop, LlmConfig, ToolSet};
use loopwright_mcp::ToolServer;
use loopwright_models::Providers;

use self::agent_tool::agent_tool;
use self::library::Library;
use crate::agent::Setup;
use crate::args::mcp::{McpArgs, McpServeArgs, ServedTools};
use crate::args::session::{OnInterruptedArg, SessionArgs};
use crate::args::{AgentArgs, Cli};
use crate::commands::Commands;
use crate::console;
use crate::definitions::Defined;
use crate::exit::ExitCode;
use crate::model;
use crate::permissions::RunPermissions;
use crate::selected_agent::AGENT;
use crate::session_budget::SessionBudget;
use crate::skill_prompts::SkillPrompts;
use crate::startup::{NoopListener, StartError, Startup};
use crate::store::StoreLocation;
use crate::untrusted::REVIEW;

/// How much a conversation holds that no model reads.
const NO_WINDOW: u64 = 1 << 20;

/// Serves a client on standard input and output until it goes away.
pub(super) async fn serve(cli: &Cli, args: &McpArgs, typed: &McpServeArgs) -> ExitCode {
    let server = match prepare(cli, args, typed).await {
        Ok(server) => server,
        Err(refused) => return refused.fail(),
    };
    match server.serve_stdio().await {
        Ok(()) => ExitCode::Done,
        Err(error) => console::fail(&error, ExitCode::Internal),
    }
}

async fn prepare(
    cli: &Cli,
    args: &McpArgs,
    typed: &McpServeArgs,
) -> Result<ToolServer, StartError> {
    let mut agent = AgentArgs::in_dir(args.workdir.clone());
    agent.model.clone_from(&typed.model);
    agent.permissions.clone_from(&typed.permissions);
    let session = SessionArgs {
        store: typed.store.clone(),
        on_interrupted: Some(OnInterruptedArg::ReportUnknown),
        ..SessionArgs::default()
    };
    let startup = Startup::load(cli, &agent, &session)?;
    if !typed.tools.is_empty() {
        return tool_server(&startup, &typed.tools);
    }
    let providers = model::providers(&startup.config, &startup.sources)?;
    let defined = Defined::find(&startup.config, &startup.sources, &providers);
    defined.tell_refused();
    let mut tools = ToolSet::new();
    let every = typed.agents.is_empty();
    if every || typed.agents.iter().any(|it| it == AGENT) {
        let about = "Works on the files in one directory: reads and changes files and runs \
            commands.";
        tools.add(agent_tool(cli, &agent, &session, None, about));
    }
    for definition in defined.agents.all() {
        if every || typed.agents.iter().any(|it| **it == *definition.name) {
            let name = Some(&*definition.name);
            tools.add(agent_tool(cli, &agent, &session, name, &definition.description));
        }
    }
    if let Some(unknown) = typed
        .agents
        .iter()
        .find(|it| *it != AGENT && !defined.agents.all().iter().any(|known| *known.name == ***it))
    {
        return Err(StartError::usage(format!(
            "unknown agent `{unknown}`; list agents with `loopwright agents list`"
        )));
    }
    let store = StoreLocation::of(&startup.config, &startup.sources)?.open().await?;
    let workdir = startup.config.workdir.to_string_lossy().into_owned();
    Ok(ToolServer::new(tools)
        .with_name("loopwright", env!("CARGO_PKG_VERSION"))
        .with_content(Arc::new(Library { store, workdir, skills: SkillPrompts(defined.skills) })))
}

/// Serves tools of the program, under the permission rules. No model is needed.
fn tool_server(startup: &Startup, wanted: &[ServedTools]) -> Result<ToolServer, StartError> {
    let config = &startup.config;
    let permissions = RunPermissions::of(config, &startup.sources)?;
    let workdir = startup.workdir(&permissions)?;
    let commands = Commands::of(config, &startup.sources)
        .with_folders_of(&workdir)
        .with_hook_files(permissions.hook_files());
    let models = Arc::new(Providers::empty());
    let setup = Setup {
        context_window: NO_WINDOW,
        commands,
        session_budget: SessionBudget::of(&config.limits.session),
        ..Setup::bare(models, LlmConfig::default(), workdir, permissions)
    };
    setup.tell_permission_warnings(REVIEW);
    let agent: AgentLoop = setup.build(NoopListener).map_err(StartError::internal)?;
    let is_wanted = |name: &str| {
        let kind = match name {
            "bash" => ServedTools::Bash,
            // Commands in the background end with the call that starts them.
            "bash_start" | "bash_read" | "bash_stop" => return false,
            _ => ServedTools::Files,
        };
        wanted.contains(&kind)
    };
    let tools = agent.tools().filter(|tool| is_wanted(&tool.spec().name));
    let directory = setup.workdir.path().display();
    Ok(ToolServer::from_agent(&agent.with_tools(tools))
        .with_name("loopwright-tools", env!("CARGO_PKG_VERSION"))
        .with_instructions(format!(
            "The tools work in {directory} and cannot access anything outside it. Calls are subject to permission rules."
        )))
}
