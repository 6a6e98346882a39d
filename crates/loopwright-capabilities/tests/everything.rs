//! Every capability at once: what there is, with a call of a tool of each.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use loopwright_agent::{
    AgentBuilder, AgentDefinition, Capability, DefinitionRegistry, UseLlmConfig, UseTools,
};
use loopwright_capabilities::{
    bash::UseBash,
    cancellation::{Cancellation, UseCooperativeCancellation},
    coding::UseCodingTools,
    compaction::UseCompaction,
    critique::UseSelfCritique,
    external::{ExternalTool, UseExternalTools},
    files::UseFileTools,
    history::UseExecutionHistory,
    llm_query::{LlmQueryTool, UseLlmQuery},
    metadata::UseMetadataTools,
    planning::UsePlanningSubagent,
    questions::{OnQuestion, UseQuestions},
    recording::{UseRecording, UseReplay},
    retrospective::UseExecutionRetrospective,
    self_description::{ReadToolRequirement, UseSelfDescription, UseSelfKnowledge},
    skills::{SkillLibrary, UseSkills},
    structured::{SchemaDefinition, SchemaRegistry, UseStructuredOutputs},
    subagents::UseSubagents,
    summarization::UseSummarization,
    system_prompt::UseSystemPrompt,
    tasks::UseTaskPlanning,
    tool_registry::UseToolRegistry,
};
use loopwright_core::{ToolRegistry, messages::InferenceRequest};
use loopwright_sandbox::{FakeSandbox, Output};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::json;

/// A capability, and a call of a tool of its own; the harmless tool is called where it has none.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    make: fn(&World) -> Arc<dyn Capability>,
    call: Option<(&'static str, &'static str)>,
}

impl Part {
    pub(crate) fn make(&self, world: &World) -> Arc<dyn Capability> {
        let made = (self.make)(world);
        assert_eq!(made.name(), self.name);
        made
    }

    pub(crate) fn step(&self) -> ScenarioStep {
        self.call.map_or_else(
            || ScenarioStep::tool("looking"),
            |(tool, arguments)| ScenarioStep::raw_tool_calls([(tool, arguments)]),
        )
    }
}

/// The name of a capability, how it is made, and what is called. `UseLlm` is not among them: it is the
/// model itself, and the one here is scripted.
#[rustfmt::skip]
pub(crate) const PARTS: &[Part] = &[
    part("use_bash", |it| Arc::new(UseBash::in_dir(it.dir()).with_sandbox(sandbox())), Some(("bash", r#"{"command":"make"}"#))),
    part("use_file_tools", |it| Arc::new(UseFileTools::in_dir(it.dir())), Some(("read_file", r#"{"path":"a.txt"}"#))),
    part("use_coding_tools", |it| Arc::new(UseCodingTools::in_dir(it.dir()).with_sandbox(sandbox())), Some(("list_dir", "{}"))),
    part("use_compaction", |it| Arc::new(UseCompaction::for_context_window(200_000).with_spill_dir(it.dir()).with_model(FakeModel::script([SUMMARY]))), None),
    part("use_cooperative_cancellation", |_| Arc::new(UseCooperativeCancellation::new(Cancellation::new())), None),
    part("use_external_tools", |_| Arc::new(UseExternalTools::new([ExternalTool::new("locate", "Finds.")])), None),
    part("use_execution_history", |_| Arc::new(UseExecutionHistory::default()), None),
    part("use_execution_retrospective", |_| Arc::new(UseExecutionRetrospective::default()), Some((BACK, r#"{"checkpoint_id":0,"guidance":"Look."}"#))),
    part("use_metadata_tools", |_| Arc::new(UseMetadataTools::default()), Some(("store_metadata", r#"{"key":"k","value":1}"#))),
    part("use_planning_subagent", |_| Arc::new(UsePlanningSubagent::default()), Some(("plan_with_subagent", r#"{"specification":"child: plan"}"#))),
    part("use_questions", |_| Arc::new(UseQuestions::new(OnQuestion::Decline)), Some(("ask_user", r#"{"question":"Which color?"}"#))),
    part("use_recording", |it| Arc::new(UseRecording::to_file(&it.recording)), None),
    part("use_replay", |it| Arc::new(UseReplay::from_file(&it.replay)), None),
    part("use_self_critique", |_| Arc::new(UseSelfCritique::with_model(FakeModel::script([APPROVED])).with_tool()), Some(("self_critic", r#"{"original_task":"go","proposed_response":"done"}"#))),
    part("use_self_description", |_| Arc::new(UseSelfDescription), Some(("describe_self", r#"{"section":"tools"}"#))),
    part("use_self_knowledge", |it| Arc::new(UseSelfKnowledge::in_dir(it.dir()).with_read_tool(ReadToolRequirement::Optional)), None),
    part("use_skills", |it| Arc::new(UseSkills::new(SkillLibrary::new(it.dir().join("skills")))), Some(("load_skill", r#"{"skill_name":"greet"}"#))),
    part("use_structured_outputs", |_| Arc::new(UseStructuredOutputs::new(schemas()).with_model(FakeModel::script([EXTRACTED]))), Some(("structured_output", r#"{"input":"Ann","schema":"lead","store_as":"lead"}"#))),
    part("use_subagents", |_| Arc::new(UseSubagents::new(helpers()).with_research()), Some(("spawn_subagent", r#"{"subagent":"helper","prompt":"child: help"}"#))),
    part("use_summarization", |_| Arc::new(UseSummarization::default().with_model(FakeModel::script([SUMMARY]))), None),
    part("use_system_prompt", |_| Arc::new(UseSystemPrompt::new("You build things.")), None),
    part("use_task_planning", |_| Arc::new(UseTaskPlanning::default()), Some(("todo_write", r#"{"todos":[{"content":"Look","status":"pending","activeForm":"Looking"}]}"#))),
    part("use_tool_registry", |_| Arc::new(UseToolRegistry::new(extra())), Some(("tools", r#"{"action":"activate","tool":"extra"}"#))),
    part("use_llm_query", |_| Arc::new(UseLlmQuery::from_tool(LlmQueryTool::new(FakeModel::script(["42"])))), Some(("llm_query", r#"{"query":"What is six times seven?"}"#))),
];

/// The tool that goes back.
pub(crate) const BACK: &str = "execution_retrospective";
const SUMMARY: &str = "Tools were called, and all went well.";
const APPROVED: &str = r#"{"approved":true,"summary":"It is right."}"#;
const EXTRACTED: &str = r#"{"value":{"name":"Ann"},"error":null}"#;

const fn part(
    name: &'static str,
    make: fn(&World) -> Arc<dyn Capability>,
    call: Option<(&'static str, &'static str)>,
) -> Part {
    Part { name, make, call }
}

fn sandbox() -> Arc<FakeSandbox> {
    Arc::new(FakeSandbox::new().otherwise(Output::exited(0, "made", "")))
}

fn schemas() -> SchemaRegistry {
    let name = json!({ "name": { "type": "string" } });
    let lead = json!({ "type": "object", "properties": name, "required": ["name"] });
    SchemaRegistry::new().with("lead", SchemaDefinition::new(lead))
}

fn helpers() -> DefinitionRegistry {
    let mut helpers = DefinitionRegistry::new();
    helpers.register(AgentDefinition::new("helper", "Helps.", "You help."));
    helpers
}

fn extra() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register(MockTool::returning("extra", "Does more.", "more"));
    registry
}

/// The files that capabilities work with.
pub(crate) struct World {
    directory: tempfile::TempDir,
    pub(crate) recording: PathBuf,
    pub(crate) replay: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        fs::write(dir.join("a.txt"), "one\ntwo\n").unwrap();
        fs::write(dir.join("README.md"), "# Docs").unwrap();
        let skill = dir.join("skills/greet");
        fs::create_dir_all(&skill).unwrap();
        let text = "---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n";
        fs::write(skill.join("SKILL.md"), text).unwrap();
        let files = tempfile::tempdir().unwrap().keep();
        Self {
            recording: files.join("recording.jsonl"),
            replay: files.join("replay.jsonl"),
            directory,
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.directory.path()
    }

    /// Forgets what was recorded.
    pub(crate) fn clean(&self) {
        for file in [&self.recording, &self.replay] {
            let _missing = fs::remove_file(file);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _gone = self.recording.parent().map(fs::remove_dir_all);
    }
}

/// A model that makes these steps again and again, whatever its agent's children are asked meanwhile.
pub(crate) fn model(steps: Vec<ScenarioStep>) -> FakeModel {
    let asked = AtomicUsize::new(0);
    FakeModel::from_fn(move |request| {
        if is_of_child(request) {
            return ScenarioStep::final_answer("The child is done.").to_response();
        }
        steps[asked.fetch_add(1, SeqCst) % steps.len()].to_response()
    })
}

/// Returns `true` if a request comes from an agent that works for another one.
pub(crate) fn is_of_child(request: &InferenceRequest) -> bool {
    let first = request.prompt.turns.get(0);
    first.is_some_and(|turn| turn.message().text().contains("child:"))
}

/// An agent of a model with the harmless tool.
pub(crate) fn builder(model: &FakeModel) -> AgentBuilder {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
}

/// Everything but the one that answers in the model's place, and the second one of the same tools.
pub(crate) fn all() -> impl Iterator<Item = &'static Part> {
    PARTS.iter().filter(|it| !["use_replay", "use_coding_tools"].contains(&it.name))
}

#[test]
fn every_build_checks_the_schemas_of_all_tools() {
    let world = World::new();
    for part in PARTS.iter().filter(|it| it.name != "use_replay") {
        let agent =
            builder(&model(Vec::new())).with_shared_capability(part.make(&world)).build().unwrap();
        for tool in agent.tools().iter() {
            assert_eq!(tool.keyword_for_validator(), None, "{} of {}", tool.name(), part.name);
        }
    }
}

#[test]
fn every_capability_of_the_inventory_is_a_part() {
    // The model itself, and what changes the loop instead of adding to it, are not.
    let others = [
        "use_broadcasting",
        "use_context_compiler",
        "use_context_config",
        "use_error_policy",
        "use_guards",
        "use_llm",
    ];
    let registry = loopwright_capabilities::inventory::registry();
    let is_part = |name: &&str| PARTS.iter().any(|it| it.name == *name);
    let missing: Vec<&str> = registry.names().filter(|name| !is_part(name)).collect();
    assert_eq!(missing, others);
}
