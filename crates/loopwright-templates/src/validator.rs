//! The validator of definitions.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, AgentDefinition, CapabilityRegistry, NameList, UseDriver};
use loopwright_capabilities::skills::{SkillAudience, SkillLibrary};
use loopwright_core::{AgentState, Driver, StepError, StepResponse, ThinkCx, ToolSet};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::loader::DefinitionLoader;
use crate::reading::{Reading, is_name};

/// The fields of a definition, in the order in which problems are reported.
const FIELDS: [&str; 11] = [
    "name",
    "label",
    "description",
    "systemPrompt",
    "llm",
    "capabilities",
    "tools",
    "toolsDeny",
    "skills",
    "budget",
    "metadata",
];

/// Checks that the names in definitions exist.
#[derive(Clone, Default)]
#[must_use]
pub struct DefinitionValidator {
    capabilities: Option<Arc<CapabilityRegistry>>,
    tools: Option<NameList>,
    skills: Option<SkillLibrary>,
    loader: DefinitionLoader,
}

/// A problem of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidField {
    /// The field, with its parents: `budget.maxSteps`.
    pub field: String,
    /// The problem.
    pub message: String,
}

impl DefinitionValidator {
    /// Creates a validator without capabilities and tools, for which every skill exists.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the known capabilities. Their tools are known, too.
    pub fn with_capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Sets tools that every agent has.
    pub fn with_tools(mut self, tools: NameList) -> Self {
        self.tools = Some(tools);
        self
    }

    /// Sets the known skills.
    pub fn with_skills(mut self, skills: SkillLibrary) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Sets the loader for values.
    pub fn with_loader(mut self, loader: DefinitionLoader) -> Self {
        self.loader = loader;
        self
    }

    /// Returns the problems of a definition, in the order of its fields. Blocks while it searches
    /// for skills.
    pub fn problems(&self, definition: &AgentDefinition) -> Vec<InvalidField> {
        let mut problems = Vec::new();
        let mut tell = |field: &str, message: String| {
            problems.push(InvalidField { field: field.to_owned(), message });
        };
        if !is_name(&definition.name) {
            tell("name", "must be 1 to 64 characters of a-z, 0-9, `-` and `_`".to_owned());
        }
        for (field, text) in
            [("description", &definition.description), ("systemPrompt", &definition.system_prompt)]
        {
            if text.trim().is_empty() {
                tell(field, "is missing".to_owned());
            }
        }
        for (field, message) in self.unknown(definition) {
            tell(field, message);
        }
        problems
    }

    /// Creates a definition from values by key, as in files.
    ///
    /// # Errors
    ///
    /// Returns all problems, in the order of the fields.
    pub fn check(&self, values: Map<String, Value>) -> Result<AgentDefinition, Vec<InvalidField>> {
        let Reading { definition, errors, .. } = self.loader.reading(values);
        let mut problems: Vec<InvalidField> = errors
            .into_iter()
            .map(|it| InvalidField {
                field: it.key.unwrap_or_default(),
                message: it.kind.to_string(),
            })
            .collect();
        for problem in self.problems(&definition) {
            if !problems.iter().any(|it| it.field == problem.field) {
                problems.push(problem);
            }
        }
        problems.sort_by_key(|it| {
            let field = it.field.split('.').next().unwrap_or_default();
            FIELDS.iter().position(|known| *known == field).unwrap_or(FIELDS.len())
        });
        if problems.is_empty() { Ok(definition) } else { Err(problems) }
    }

    /// Finds the names that stand for nothing.
    fn unknown(&self, definition: &AgentDefinition) -> Vec<(&'static str, String)> {
        let mut unknown = Vec::new();
        for name in definition.capabilities.iter() {
            let config = definition.config_of(name);
            match self.capabilities.as_ref().map(|it| it.configured(name, config)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => unknown.push(("capabilities", with_causes(&error))),
                None => unknown.push(("capabilities", format!("unknown capability `{name}`"))),
            }
        }
        // Which tools a server has is known when it runs.
        let is_built_in = |it: &&str| !it.starts_with("mcp__");
        let allowed = definition.tools.iter().flat_map(NameList::iter);
        let allowed = allowed.filter(is_built_in).collect::<NameList>();
        // What another program brings cannot be called here: denying it changes nothing.
        let is_ours = |it: &&str| it.starts_with(char::is_lowercase) && is_built_in(it);
        let denied = definition.tools_deny.iter().filter(is_ours).collect::<NameList>();
        let chosen: Vec<&str> = definition.capabilities.iter().collect();
        let known = if allowed.is_empty() && denied.is_empty() {
            None
        } else {
            self.known_tools(definition, &chosen)
        };
        let mut check = |field, names: &NameList, known: Option<NameList>| match known {
            _ if names.is_empty() => {}
            None => unknown.push((field, "no tools are available".to_owned())),
            Some(known) => unknown.extend(unknown_tools(names, &known).map(|it| (field, it))),
        };
        // A capability that is not named brings nothing, and its tools may be denied all the same.
        let is_known = |name: &&str| known.as_ref().is_some_and(|it| it.contains(name));
        let others: NameList = denied.iter().filter(|name| !is_known(name)).collect();
        let every = || self.capabilities.iter().flat_map(|it| it.names()).collect::<Vec<_>>();
        let denied_from =
            if others.is_empty() { None } else { self.known_tools(definition, &every()) };
        check("tools", &allowed, known);
        check("toolsDeny", &others, denied_from);
        if let Some(skills) = &self.skills {
            let known: NameList = skills.names(SkillAudience::All).into_iter().collect();
            let names = definition.skills.iter().filter(|name| !known.contains(name));
            unknown.extend(names.map(|name| ("skills", of_kind("skill", name, &known))));
        }
        unknown
    }

    /// Returns the tools that an agent with these capabilities could have.
    fn known_tools(&self, definition: &AgentDefinition, capabilities: &[&str]) -> Option<NameList> {
        // Together they may not fit, and still each brings its tools.
        let alone =
            || capabilities.iter().filter_map(|it| self.brought(definition, &[*it])).collect();
        let brought: Vec<ToolSet> =
            self.brought(definition, capabilities).map_or_else(alone, |it| vec![it]);
        let brought = brought.iter().flat_map(|it| it.names().iter()).map(|it| &**it);
        let known: NameList = self.tools.iter().flat_map(NameList::iter).chain(brought).collect();
        (self.tools.is_some() || !known.is_empty()).then_some(known)
    }

    /// Returns the tools that capabilities bring.
    fn brought(&self, definition: &AgentDefinition, names: &[&str]) -> Option<ToolSet> {
        let capabilities = self.capabilities.as_ref()?;
        let mut builder = AgentBuilder::base().with_capability(UseDriver::new(Nobody));
        for name in names {
            let config = definition.config_of(name);
            builder = builder.with_shared_capability(capabilities.configured(name, config).ok()?);
        }
        Some(builder.build().ok()?.tools().clone())
    }
}

/// Stands for a driver where an agent is only looked at.
struct Nobody;

#[async_trait]
impl Driver for Nobody {
    async fn think(&self, _: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        Err(StepError::Invalid("this driver never responds".to_owned()))
    }
}

/// Writes an error with everything that lies beneath it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |it| (*it).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn unknown_tools(names: &NameList, known: &NameList) -> impl Iterator<Item = String> {
    names.iter().filter(|name| !known.contains(name)).map(|name| of_kind("tool", name, known))
}

fn of_kind(kind: &str, name: &str, known: &NameList) -> String {
    let known = known.iter().collect::<Vec<_>>().join(", ");
    format!("unknown {kind} `{name}`; available: {known}")
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.field, self.message)
    }
}

impl fmt::Debug for DefinitionValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefinitionValidator")
            .field("capabilities", &self.capabilities)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}
