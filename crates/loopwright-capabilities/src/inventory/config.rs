//! The configurations of capabilities, and the capabilities created from them.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{
    AgentDefinition, AllSections, BuildError, ConversationWithCurrentToolTrace, DefinitionRegistry,
    NameList, SelectedSections, UseContextCompiler, UseContextConfig, UseGuards,
};
use loopwright_broadcast::BroadcastConfig;
use loopwright_core::{Budget, LlmConfig, messages::InferenceOptions};
use loopwright_models::RetryPolicy;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    bash::{Background, BashPolicy, UseBash},
    broadcasting::UseBroadcasting,
    coding::UseCodingTools,
    compaction::{CompactionPolicy, UseCompaction},
    critique::{CritiquePolicy, UseSelfCritique},
    files::{UseFileTools, WorkspaceRoot},
    history::{FileHistory, UseExecutionHistory},
    inventory::sandbox,
    llm::UseLlm,
    llm_query::{LlmQueryTool, UseLlmQuery},
    planning::UsePlanningSubagent,
    questions::{OnQuestion, UseQuestions},
    recording::{UseRecording, UseReplay},
    self_description::{ReadToolRequirement, UseSelfKnowledge},
    skills::{SkillLibrary, SkillPolicy, SkillScope, UseSkills},
    structured::{SchemaRegistry, StructuredOutputPolicy, UseStructuredOutputs},
    subagents::{SubagentPolicy, UseSubagents},
    system_prompt::UseSystemPrompt,
    tool_registry::{ToolExposure, UseToolRegistry},
};

/// No configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Commands, in a directory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commands {
    directory: PathBuf,
    #[serde(default)]
    protect: Vec<String>,
    #[serde(default)]
    display: BashPolicy,
    #[serde(default)]
    background: Background,
    #[serde(default)]
    persist_cwd: bool,
    #[serde(default)]
    sandbox: Option<Value>,
}

impl Commands {
    fn root(&self) -> WorkspaceRoot {
        self.protect
            .iter()
            .fold(WorkspaceRoot::new(&self.directory), |root, path| root.protect(path))
    }

    pub(super) fn into_bash(self) -> Result<UseBash, BuildError> {
        let root = self.root();
        let bash = root
            .extra_protected_paths()
            .fold(crate::bash::Bash::in_dir(root.path()), crate::bash::Bash::protect);
        let bash = UseBash::from_tool(bash)
            .with_output_policy(self.display.clone())
            .with_background(self.background);
        let bash = if self.persist_cwd { bash.persist_cwd() } else { bash };
        Ok(match &self.sandbox {
            None => bash,
            Some(changes) => {
                bash.with_policy(sandbox::policy("use_bash", &root, &self.display, changes)?)
            }
        })
    }

    pub(super) fn into_coding(self) -> Result<UseCodingTools, BuildError> {
        let root = self.root();
        let tools = UseCodingTools::in_dir(root.clone());
        let tools = tools.with_output_policy(self.display.clone()).with_background(self.background);
        let tools = if self.persist_cwd { tools.persist_cwd() } else { tools };
        Ok(match &self.sandbox {
            None => tools,
            Some(changes) => tools.with_policy(sandbox::policy(
                "use_coding_tools",
                &root,
                &self.display,
                changes,
            )?),
        })
    }
}

/// Files, in a directory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    directory: PathBuf,
    #[serde(default)]
    protect: Vec<String>,
    #[serde(default)]
    read_only: bool,
}

impl Files {
    pub(super) fn into_capability(self) -> UseFileTools {
        let root = WorkspaceRoot::new(&self.directory);
        let root = self.protect.iter().fold(root, |root, path| root.protect(path));
        let tools = UseFileTools::in_dir(root);
        if self.read_only { tools.read_only() } else { tools }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Told {
    file: PathBuf,
    session: Option<String>,
    #[serde(default)]
    config: BroadcastConfig,
    capacity: Option<usize>,
}

impl Told {
    pub(super) fn into_capability(self) -> UseBroadcasting {
        let told = UseBroadcasting::to_file(self.file).with_config(self.config);
        let told = match self.capacity {
            Some(capacity) => told.with_capacity(capacity),
            None => told,
        };
        match self.session {
            Some(session) => told.with_session(session),
            None => told,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replayed {
    file: PathBuf,
}

impl Replayed {
    pub(super) fn into_capability(self) -> UseReplay {
        UseReplay::from_file(self.file)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    file: PathBuf,
    #[serde(default)]
    without: Vec<String>,
}

impl Recorded {
    pub(super) fn into_capability(self) -> UseRecording {
        let recording = UseRecording::to_file(self.file);
        self.without.into_iter().fold(recording, UseRecording::redact)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    llm: String,
    #[serde(default)]
    options: InferenceOptions,
    /// How often a request is sent at most.
    attempts: Option<NonZeroU32>,
}

impl Named {
    pub(super) fn into_capability(self) -> UseLlm {
        let llm = UseLlm::new(&self.llm).with_options(self.options);
        let Some(attempts) = self.attempts else { return llm };
        llm.with_retry(RetryPolicy { max_attempts: attempts.get(), ..RetryPolicy::default() })
    }
}

/// The last executions, in the state or in a file.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Kept {
    most: usize,
    file: Option<PathBuf>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { most: 50, file: None }
    }
}

impl Kept {
    pub(super) fn into_capability(self) -> UseExecutionHistory {
        match self.file {
            None => UseExecutionHistory::in_state(self.most),
            Some(file) => UseExecutionHistory::with_store(Arc::new(FileHistory::open(file))),
        }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Compaction {
    window: u64,
    at_tokens: Option<u64>,
    directory: Option<PathBuf>,
    policy: CompactionPolicy,
}

impl Default for Compaction {
    fn default() -> Self {
        let policy = CompactionPolicy::default();
        Self { window: 128_000, at_tokens: None, directory: None, policy }
    }
}

impl Compaction {
    pub(super) fn into_capability(self) -> UseCompaction {
        let compaction = match self.at_tokens {
            Some(tokens) => UseCompaction::at_tokens(tokens),
            None => UseCompaction::for_context_window(self.window),
        };
        let compaction = compaction.with_policy(self.policy);
        match self.directory {
            Some(directory) => compaction.with_spill_dir(directory),
            None => compaction,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SystemPrompt {
    preamble: String,
    guidelines: Vec<String>,
    append: String,
}

impl SystemPrompt {
    pub(super) fn into_capability(self) -> UseSystemPrompt {
        let prompt = UseSystemPrompt::new(self.preamble).append(self.append);
        self.guidelines.into_iter().fold(prompt, UseSystemPrompt::with_guideline)
    }
}

/// Where documentation is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Knowledge {
    directory: PathBuf,
    readme: Option<PathBuf>,
    examples: Option<PathBuf>,
    #[serde(default)]
    topics: std::collections::BTreeMap<String, Vec<PathBuf>>,
    #[serde(default)]
    read_tool: ReadToolRequirement,
}

impl Knowledge {
    pub(super) fn into_capability(self) -> UseSelfKnowledge {
        let knowledge = UseSelfKnowledge::in_dir(self.directory).with_read_tool(self.read_tool);
        let knowledge = self.readme.into_iter().fold(knowledge, UseSelfKnowledge::with_readme);
        let knowledge = self.examples.into_iter().fold(knowledge, UseSelfKnowledge::with_examples);
        self.topics.into_iter().fold(knowledge, |it, (topic, files)| it.with_topic(topic, files))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Critique {
    policy: CritiquePolicy,
    tool: bool,
    #[serde(with = "crate::written::llm")]
    llm: Option<LlmConfig>,
}

impl Critique {
    pub(super) fn into_capability(self) -> UseSelfCritique {
        let critique = self.llm.map_or_else(UseSelfCritique::default, UseSelfCritique::with_llm);
        let critique = critique.with_policy(self.policy);
        if self.tool { critique.with_tool() } else { critique }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Query {
    #[serde(with = "crate::written::llm")]
    llm: Option<LlmConfig>,
    system_prompt: Option<String>,
}

impl Query {
    pub(super) fn into_capability(self) -> UseLlmQuery {
        let tool = LlmQueryTool::default().with_llm(self.llm.unwrap_or_default());
        UseLlmQuery::from_tool(match self.system_prompt {
            Some(prompt) => tool.with_system_prompt(prompt),
            None => tool,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Questions {
    on_question: OnQuestion,
}

impl Questions {
    pub(super) fn into_capability(self) -> UseQuestions {
        UseQuestions::new(self.on_question)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Planning {
    instructions: Option<String>,
    planner_prompt: Option<String>,
    planner_tools: NameList,
    #[serde(with = "crate::written::budget")]
    planner_budget: Budget,
    max_depth: Option<u32>,
}

impl Planning {
    pub(super) fn into_capability(self) -> UsePlanningSubagent {
        let planning = UsePlanningSubagent::default()
            .with_planner_tools(self.planner_tools.iter())
            .with_planner_budget(self.planner_budget);
        let texts = self.instructions.into_iter();
        let planning = texts.fold(planning, UsePlanningSubagent::with_parent_instructions);
        let prompts = self.planner_prompt.into_iter();
        let planning = prompts.fold(planning, UsePlanningSubagent::with_planner_prompt);
        self.max_depth.into_iter().fold(planning, UsePlanningSubagent::with_max_depth)
    }
}

/// Schemas by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Structured {
    schemas: SchemaRegistry,
    #[serde(default)]
    policy: StructuredOutputPolicy,
    tool: Option<String>,
}

impl Structured {
    pub(super) fn into_capability(self) -> UseStructuredOutputs {
        let outputs = UseStructuredOutputs::new(self.schemas).with_policy(self.policy);
        self.tool.into_iter().fold(outputs, UseStructuredOutputs::with_tool_name)
    }
}

/// Agents by their definitions.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Subagents {
    agents: Vec<AgentDefinition>,
    skills: Vec<PathBuf>,
    policy: SubagentPolicy,
    research: bool,
}

fn registry_of(agents: Vec<AgentDefinition>) -> DefinitionRegistry {
    let mut registry = DefinitionRegistry::new();
    for agent in agents {
        registry.register(agent);
    }
    registry
}

fn library_of(directories: Vec<PathBuf>) -> SkillLibrary {
    let and = |library: SkillLibrary, directory| library.with_dir(SkillScope::Project, directory);
    directories.into_iter().fold(SkillLibrary::default(), and)
}

impl Subagents {
    pub(super) fn into_capability(self) -> UseSubagents {
        let subagents = UseSubagents::new(registry_of(self.agents))
            .with_capabilities(Arc::new(super::registry()))
            .with_skills(library_of(self.skills))
            .with_policy(self.policy);
        if self.research { subagents.with_research() } else { subagents }
    }
}

/// Skills of directories.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Skills {
    directories: Vec<PathBuf>,
    agents: Vec<AgentDefinition>,
    policy: SkillPolicy,
}

impl Skills {
    pub(super) fn into_capability(self) -> UseSkills {
        let skills = UseSkills::new(library_of(self.directories)).with_policy(self.policy);
        if self.agents.is_empty() {
            return skills;
        }
        skills.with_agents(registry_of(self.agents)).with_capabilities(Arc::new(super::registry()))
    }
}

/// Tools of other capabilities, by their names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnDemand {
    tools: NameList,
    #[serde(default)]
    offer: ToolExposure,
}

impl OnDemand {
    pub(super) fn into_capability(self) -> UseToolRegistry {
        UseToolRegistry::of_agent(self.tools.iter()).with_exposure(self.offer)
    }
}

/// Limits; those that are not named are lifted once one is named.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Guards {
    #[serde(with = "crate::written::budget")]
    limits: Budget,
    cumulative_seconds: Option<u32>,
}

impl Guards {
    pub(super) fn into_capability(self) -> UseGuards {
        let is_unset = self.limits == Budget::default() && self.cumulative_seconds.is_none();
        if is_unset {
            return UseGuards::default();
        }
        let guards = UseGuards::new(self.limits);
        match self.cumulative_seconds {
            Some(seconds) => guards.with_cumulative_time(Duration::from_secs(seconds.into())),
            None => guards,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Context {
    system_prompt: String,
}

impl Context {
    pub(super) fn into_capability(self) -> UseContextConfig {
        UseContextConfig::new(self.system_prompt)
    }
}

/// What of a conversation the model is shown.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Compiler {
    /// Everything.
    All,
    /// Everything but the tool calls of earlier executions.
    CurrentTools,
    /// These sections.
    Sections(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compiled {
    show: Compiler,
}

impl Compiled {
    pub(super) fn into_capability(self) -> UseContextCompiler {
        match self.show {
            Compiler::All => UseContextCompiler::new(AllSections),
            Compiler::CurrentTools => UseContextCompiler::new(ConversationWithCurrentToolTrace),
            Compiler::Sections(names) => UseContextCompiler::new(SelectedSections::new(names)),
        }
    }
}
