//! The built-in agent of the command line: its instructions and its tools.

use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{
    AgentBuilder, BuildError, CallRules, DefinitionLoopFactory, Definitions as _, LoopFactory as _,
    NameList, UseContextConfig, UseHook, UseLlmConfig,
};
use loopwright_capabilities::{
    bash::Background,
    compaction::UseCompaction,
    files::WorkspaceRoot,
    permissions::{OnAsk, UsePermissions},
    questions::{OnQuestion, UseQuestions},
    remote_agent::UseRemoteAgent,
    web::{UseWeb, WebFetchTool},
};
use loopwright_core::messages::{Content, Part, TurnBody};
use loopwright_core::{AgentLoop, AgentState, Hook, LlmConfig, ModelProvider, Priority};
use loopwright_models::ModelCapability;
use loopwright_permissions::{Mode, Source, SourceKind, ToolRule};
use loopwright_templates::{FolderInstructions, ProjectInstructions, UseProjectInstructions};

use crate::answer_checks::AnswerChecks;
use crate::capability_settings;
use crate::command_hooks::{CommandHook, HookSetup, UseCommandHooks};
use crate::commands::Commands;
use crate::config::{CapabilitySettings, Config, ConfigSources};
use crate::console;
use crate::cost_consent::AskAboutCost;
use crate::definitions::{self, Defined};
use crate::loaded::LoadedParts;
use crate::mcp_servers::McpServers;
use crate::model;
use crate::permissions::{RunPermissions, is_confined};
use crate::render::sanitize_terminal;
use crate::selected_agent::SelectedAgent;
use crate::session_budget::SessionBudget;
use crate::tools;
use crate::web_search::SearchTool;

const BEGINNING: &str = "\
You are Loopwright, a careful assistant that works in one directory on the user's machine.
Look before you answer: list and read what matters, and rely on what you have seen, not on \
guesses.
Change files only if the task requires it, and check your changes.";

/// How far the tools reach, without and with folders besides the working directory.
const REACH: [&str; 2] = [
    "Your tools cannot access anything outside the working directory.",
    "Your tools cannot access anything outside the working directory and the folders named below.",
];

const END: &str = "\
If a tool fails, read the error and try another way; do not repeat the same call.
Answer briefly, in Markdown where that helps; refer to files by their paths, and say what you \
could not find out.";

/// What is added where pages of the web may be requested.
const WEB: &str = "The only exception is `web_fetch`, which can read pages on public sites.";

/// The capability that keeps a conversation within the context window.
const COMPACTION: &str = "use_compaction";

/// The capability that lets the model ask the user.
const QUESTIONS: &str = "use_questions";

/// What an agent is made of.
#[derive(Clone)]
pub struct Setup {
    /// Who answers.
    pub models: Arc<dyn ModelProvider>,
    /// Which of them, and how.
    pub llm: LlmConfig,
    /// How many tokens the model takes.
    pub context_window: u64,
    /// What the model can do, if that is known.
    pub capabilities: Option<Vec<ModelCapability>>,
    /// Where it works.
    pub workdir: WorkspaceRoot,
    /// How its commands are run.
    pub commands: Commands,
    /// What the user adds to its instructions; with a definition, those of the definition too.
    pub system_prompt: Option<String>,
    /// What it is defined by; `None` for the program's own agent.
    pub applied: Option<SelectedAgent>,
    /// What the program's own agent may delegate to and load, and what is configured of its capabilities; `None` leaves it
    /// with compaction alone.
    pub own: Option<Defined>,
    /// Servers that bring tools.
    pub mcp: McpServers,
    /// Which calls run, ask or are denied.
    pub permissions: RunPermissions,
    /// What happens with calls that ask.
    pub on_ask: OnAsk,
    /// How long a call waits before it is denied without an answer; `None` for any time.
    pub answer_within: Option<Duration>,
    /// Whether a turn that has nearly reached its cost limit stops to ask.
    pub asks_about_cost: bool,
    /// What the project tells every agent.
    pub project: ProjectInstructions,
    /// What its folders tell agents that use their files; `None` if they tell nothing. Clones share what was told.
    pub(crate) folders: Option<FolderInstructions>,
    /// What a session may use across all its turns.
    pub session_budget: SessionBudget,
    /// Lists of tools, each of which limits those that the agent would have.
    pub tools: Vec<NameList>,
    /// What requests pages, where a permission rule allows it; `None` if it is switched off. Clones share its cache.
    pub(crate) web: Option<WebFetchTool>,
    /// What searches the web, if a service is configured.
    pub(crate) search: Option<SearchTool>,
    /// The agents on other servers.
    pub(crate) remote_agents: UseRemoteAgent,
    /// What is checked and kept of its answers.
    pub checks: AnswerChecks,
    /// What was found and loaded.
    pub(crate) loaded: LoadedParts,
}

impl Setup {
    /// Creates what an agent of one directory is made of that has no settings.
    pub(crate) fn bare(
        models: Arc<dyn ModelProvider>,
        llm: LlmConfig,
        workdir: WorkspaceRoot,
        permissions: RunPermissions,
    ) -> Self {
        Self {
            models,
            llm,
            context_window: model::USUAL_WINDOW,
            capabilities: None,
            workdir,
            commands: Commands::default(),
            system_prompt: None,
            applied: None,
            own: None,
            mcp: McpServers::default(),
            permissions,
            on_ask: OnAsk::Pause,
            answer_within: None,
            asks_about_cost: false,
            project: ProjectInstructions::default(),
            folders: None,
            session_budget: SessionBudget::default(),
            tools: Vec::new(),
            web: None,
            search: None,
            remote_agents: UseRemoteAgent::new([]),
            checks: AnswerChecks::default(),
            loaded: LoadedParts::default(),
        }
    }

    /// Builds the agent. Its limits are in the budget of the state it runs, which bounds a step that
    /// is under way too.
    ///
    /// # Errors
    ///
    /// Returns an error if something is missing.
    pub fn build(&self, listener: impl Hook + 'static) -> Result<AgentLoop, BuildError> {
        let agent = self.compose(listener)?;
        let agent = match (&self.applied, &self.own) {
            (None, Some(own)) => capability_settings::without_tools(&own.settings, agent),
            _ => agent,
        };
        let agent = restricted(agent, &self.tools)?;
        let agent = match self.answer_within {
            None => agent,
            limit => agent.with(|parts| parts.executor.answer_within = limit),
        };
        Ok(self.checks.apply(agent))
    }

    fn compose(&self, listener: impl Hook + 'static) -> Result<AgentLoop, BuildError> {
        let commands = self.commands();
        let workdir = self.workdir.clone().with_access(Arc::new(self.permissions.shared().clone()));
        let directory = self.directories();
        let own = if self.applied.is_none() {
            let reach = REACH[usize::from(self.workdir.folders().next().is_some())];
            [BEGINNING, reach, END].join("\n")
        } else {
            String::new()
        };
        let web = self.web.as_ref().filter(|_| self.permissions.policy().offers("web_fetch"));
        let about_web = if web.is_some() { WEB } else { "" };
        let parts =
            [&own, &directory, about_web, self.system_prompt.as_deref().unwrap_or_default()];
        let parts = parts.map(str::trim).into_iter().filter(|part| !part.is_empty());
        let builder = AgentBuilder::base()
            .with_capability(UseContextConfig::new(parts.collect::<Vec<_>>().join("\n\n")))
            .with_capability(tools::tools(&workdir, &commands).with_background(self.background()))
            .with_capability(self.mcp.capability().with_on_question(self.on_question()))
            .with_capability(self.remote_agents.clone())
            .with_capability(self.rules())
            .with_capability(UseCommandHooks(self.hooks()))
            .with_capability(
                UseLlmConfig::from_models(Arc::clone(&self.models)).with_llm(self.llm.clone()),
            )
            .with_capability(self.instructions())
            .with_capability(UseHook::new(self.session_budget).with_priority(Priority::GUARD))
            .with_capability(UseHook::new(listener));
        let builder = if self.asks_about_cost {
            builder.with_capability(UseHook::new(AskAboutCost).with_priority(Priority::GUARD))
        } else {
            builder
        };
        let builder = match web {
            Some(tool) => builder.with_capability(UseWeb::from_tool(tool.clone())),
            None => builder,
        };
        let builder = match &self.search {
            Some(search) if self.permissions.policy().offers("web_search") => {
                builder.with_capability(search.capability())
            }
            _ => builder,
        };
        let compacts = |it: &SelectedAgent| it.definition.capabilities.contains(COMPACTION);
        let builder = match &self.applied {
            Some(applied) if compacts(applied) => builder,
            None if self.own.is_some() => builder,
            _ => builder.with_capability(
                self.gated(UseCompaction::for_context_window(self.context_window))
                    .with_spill_dir(workdir.clone()),
            ),
        };
        let Some(applied) = &self.applied else {
            // Whether the run waits for the answer is an option of the run.
            let questions = UseQuestions::default();
            let Some(own) = &self.own else {
                return builder.with_capability(questions).build();
            };
            let mut registry = own.capabilities(&workdir, &commands, &self.rules());
            let (setup, root) = (self.clone(), workdir.clone());
            registry.register_with_config(COMPACTION, move |config| {
                Ok(setup.gated(definitions::compaction(config, &root)?))
            });
            let mut builder = builder;
            for (name, settings) in own.own_capabilities(self.context_window) {
                builder = if name == QUESTIONS && settings.is_null() {
                    builder.with_capability(questions)
                } else {
                    builder.with_shared_capability(registry.configured(&name, &settings)?)
                };
            }
            return builder.build();
        };
        let capabilities = applied.defined.capabilities(&workdir, &commands, &self.rules());
        DefinitionLoopFactory::new(builder)
            .with_capabilities(Arc::new(capabilities))
            .instantiate(&applied.defined.configured(&applied.definition, |tool| self.offers(tool)))
    }

    /// Returns whether commands may run in the background: those of the program's own agent, unless the configuration says
    /// otherwise.
    fn background(&self) -> Background {
        let own = self.own.as_ref().filter(|_| self.applied.is_none());
        match own.map(|own| capability_settings::background(&own.settings)) {
            Some(configured) => configured.unwrap_or(Background::Allowed),
            None => Background::Denied,
        }
    }

    fn instructions(&self) -> UseProjectInstructions {
        let instructions = UseProjectInstructions::new(self.project.clone());
        match &self.folders {
            Some(folders) => instructions.with_folders(folders.clone()),
            None => instructions,
        }
    }

    /// Returns `true` if a permission rule names a tool that agents have only then.
    fn offers(&self, tool: &str) -> bool {
        let is_there = match tool {
            "web_fetch" => self.web.is_some(),
            "web_search" => self.search.is_some(),
            _ => true,
        };
        is_there && self.permissions.policy().offers(tool)
    }

    /// Returns what is defined for the agent of the run.
    pub(crate) fn defined(&self) -> Option<&Defined> {
        self.applied.as_ref().map(|it| &it.defined).or(self.own.as_ref())
    }

    /// Returns the rules of the definition of the run's agent, or of a sub-agent with this name. `None` means that the agent is
    /// unknown.
    pub(crate) fn call_rules(&self, subagent: Option<&str>) -> Option<CallRules> {
        let definition = match (subagent, &self.applied) {
            (Some(name), _) => self.defined()?.agents.get(name).ok()?,
            (None, Some(applied)) => Arc::clone(&applied.definition),
            (None, None) => return Some(CallRules::default()),
        };
        let configured = self.defined()?.configured(&definition, |tool| self.offers(tool));
        Some(CallRules { agent: configured.name.clone(), ..configured.call_rules })
    }

    /// Warns about settings that have no effect. `review` is what reviews those of a project.
    pub(crate) fn tell_permission_warnings(&self, review: &str) {
        let declared = self.defined().map(Defined::external_tools).unwrap_or_default();
        self.permissions.tell_warnings(&declared, (review, self.own.is_some()));
    }

    /// Warns of tools that the agent's definition names and that it does not have.
    pub(crate) fn tell_absent_tools(&self) {
        if let Some(applied) = self.applied.as_ref().filter(|it| !it.is_kept) {
            applied.defined.tell_absent(&applied.definition, |tool| self.offers(tool));
        }
    }

    /// Returns the permission mode in force: that of the run, or that of the agent's definition if it is stricter.
    pub(crate) fn mode(&self) -> Mode {
        let policy = self.permissions.policy();
        let Some(asked) = self.defined_mode() else { return policy.mode() };
        let source = Source::new(SourceKind::Definition, "definition", policy.workdir());
        policy.restricted_by(source.with_mode(asked)).mode()
    }

    fn defined_mode(&self) -> Option<Mode> {
        self.applied.as_ref()?.definition.call_rules.mode.as_deref()?.parse().ok()
    }

    /// Says what git cannot do in the directory.
    pub(crate) fn tell_git(&self) {
        if let Some(note) = self.commands.git_note(self.workdir.path()) {
            console::warn(&note);
        }
    }

    /// Says that agents change nothing in the directory, if it holds more than a project.
    pub(crate) fn tell_broad(&self) {
        if let Some(note) = self.commands.broad(self.workdir.path()) {
            console::warn(&note);
        }
    }

    /// Warns of a permission mode of the agent's definition that is looser than that of the run.
    pub(crate) fn tell_unused_mode(&self) {
        let Some(applied) = self.applied.as_ref().filter(|it| !it.is_kept) else { return };
        let Some(asked) = self.defined_mode() else { return };
        let mode = self.mode();
        if mode != asked {
            let agent = &applied.definition.name;
            console::warn(&format!(
                "`permissionMode` of agent `{agent}` has no effect: `{asked}` is not stricter than the mode of the \
                    run, `{mode}`; to use this mode, pass `--permission-mode {asked}`"
            ));
        }
    }

    /// Checks the names in the table `[capabilities]` of the configuration.
    ///
    /// # Errors
    ///
    /// Returns an error for an unknown name.
    pub(crate) fn check_capabilities(
        &self,
        settings: &CapabilitySettings,
    ) -> Result<(), BuildError> {
        let Some(defined) = self.defined().filter(|_| !settings.is_empty()) else { return Ok(()) };
        let registry = defined.capabilities(&self.workdir, &self.commands, &self.rules());
        capability_settings::check(settings, registry.names())
    }

    /// Selects the model from the next turn on, with its context window and what it can do.
    pub(crate) fn use_model(&mut self, llm: LlmConfig, config: &Config, sources: &ConfigSources) {
        if self.llm.provider != llm.provider || self.llm.model != llm.model {
            (self.context_window, self.capabilities) = model::facts(&llm, config, sources);
        }
        self.llm = llm;
    }

    /// Tells the model where it works.
    fn directories(&self) -> String {
        let mut text = format!("The working directory is {}.", self.workdir.path().display());
        let folders: Vec<_> = self.workdir.folders().map(|it| it.display().to_string()).collect();
        if !folders.is_empty() {
            text.push_str(
                "\nYou can also use the files in these folders; refer to them by absolute path: ",
            );
            text.push_str(&folders.join(", "));
            text.push('.');
        }
        text
    }

    /// Returns how commands are run, under the rules and the mode of now.
    pub(crate) fn commands(&self) -> Commands {
        self.commands.clone().under(&self.permissions.policy())
    }

    /// Returns what runs the hooks of the user, or `None` if there are none.
    pub(crate) fn hooks(&self) -> Option<HookSetup> {
        let (hooks, project) = self.permissions.hooks()?;
        let (commands, workdir) = (self.commands(), &self.workdir);
        let permissions = self.permissions.shared().clone();
        Some(HookSetup::new(hooks.clone(), &commands, workdir, project, permissions))
    }

    /// Returns the hooks of the run and those of its agent's definition, to list them.
    pub(crate) fn all_hooks(&self) -> impl Iterator<Item = &CommandHook> {
        let of_run = self.permissions.hooks().into_iter().flat_map(|(hooks, _)| hooks.iter());
        let agent = self.applied.iter();
        of_run.chain(agent.flat_map(|it| it.defined.hooks.of(&it.definition.name)))
    }

    /// Lets hooks of the user keep conversations from being compacted.
    pub(crate) fn gated(&self, compaction: UseCompaction) -> UseCompaction {
        match self.hooks() {
            Some(hooks) => compaction.with_gate(Arc::new(hooks)),
            None => compaction,
        }
    }

    /// Returns what a question of the model does, which is what a call does that asks.
    fn on_question(&self) -> OnQuestion {
        match self.on_ask {
            OnAsk::Deny => OnQuestion::Decline,
            OnAsk::Fail => OnQuestion::Stop,
            OnAsk::Pause => OnQuestion::Wait,
        }
    }

    fn rules(&self) -> UsePermissions {
        let grants = self.permissions.grants();
        let rules = UsePermissions::new(self.permissions.shared().clone())
            .with_on_ask(self.on_ask)
            .with_grants(move |state| grants.active(state));
        let are_commands = self.commands.are_confined();
        let mcp = self.mcp.clone();
        rules.with_confined(move |tool| is_confined(tool, are_commands) || mcp.is_confined(tool))
    }

    /// Names the model as it is typed.
    pub fn model(&self) -> String {
        model::name(&self.llm)
    }

    /// Warns about those of these parts that the model does not accept, if that is known.
    pub(crate) fn tell_unseen(&self, parts: &[Part]) {
        for unseen in self.unseen(parts) {
            console::warn(&unseen);
        }
    }

    /// Warns about what a conversation has and the model does not accept.
    pub(crate) fn tell_unseen_of(&self, state: &AgentState) {
        let mut parts: Vec<Part> = Vec::new();
        let mut add = |some: &[Part]| {
            let is_seen =
                |it: &&Part| matches!(it.content(), Content::Image(_) | Content::Document(_));
            parts.extend(some.iter().filter(is_seen).cloned());
        };
        for turn in state.transcript() {
            add(turn.message().parts());
            if let TurnBody::ToolExchange(exchange) = turn.body() {
                exchange.results().iter().for_each(|result| add(&result.content));
            }
        }
        self.tell_unseen(&parts);
    }

    /// Returns sentences about those of these parts that the model does not accept, if that is known.
    pub(crate) fn unseen(&self, parts: &[Part]) -> Vec<String> {
        let Some(capabilities) = &self.capabilities else { return Vec::new() };
        let has_image = parts.iter().any(|it| matches!(it.content(), Content::Image(_)));
        let has_document = parts.iter().any(|it| matches!(it.content(), Content::Document(_)));
        let kinds = [
            (ModelCapability::Images, "images", has_image),
            (ModelCapability::Documents, "documents", has_document),
        ];
        let unseen =
            kinds.into_iter().filter(|(it, _, has_one)| *has_one && !capabilities.contains(it));
        let model = sanitize_terminal(&self.model());
        let sentence = |what: &str| {
            format!("{model} does not accept {what}; they are omitted, and the model is informed")
        };
        unseen.map(|(_, what, _)| sentence(what)).collect()
    }
}

/// Leaves an agent with the tools that all lists name. Names of other programs stand for the tools that they cover here.
fn restricted(agent: AgentLoop, lists: &[NameList]) -> Result<AgentLoop, BuildError> {
    let known = agent.tools().names();
    for name in lists.iter().flat_map(NameList::iter) {
        let rule = ToolRule::new(name);
        // A server may offer it later.
        let may_come = !agent.sources().is_empty() && name.starts_with("mcp__");
        if !may_come && !known.iter().any(|tool| is_listed(&rule, tool)) {
            let (name, known) = (name.to_owned(), known.join(", "));
            return Err(BuildError::Unknown { kind: "tool", name, known });
        }
    }
    Ok(lists.iter().fold(agent, |agent, names| {
        let rules: Vec<ToolRule> = names.iter().map(ToolRule::new).collect();
        let is_named = move |tool: &str| rules.iter().any(|rule| is_listed(rule, tool));
        agent.with(|parts| {
            parts.tools = parts.tools.filter(|tool| is_named(tool.name()));
            parts.sources = parts.sources.filter(move |tool| is_named(tool.name()));
        })
    }))
}

/// Returns `true` if an entry of a list names a tool: our own names stand for themselves.
fn is_listed(rule: &ToolRule, tool: &str) -> bool {
    let is_foreign = rule.name().starts_with(|it: char| it.is_ascii_uppercase());
    if is_foreign || rule.name().starts_with("mcp__") {
        rule.names(tool)
    } else {
        rule.name() == tool
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("llm", &self.llm)
            .field("workdir", &self.workdir)
            .finish_non_exhaustive()
    }
}
