//! What is wrong with a definition, found before an agent of it runs: the same for `agents validate` and
//! `run`.

use std::sync::Arc;

use loopwright_agent::{
    AgentBuilder, AgentDefinition, DefinitionLoopFactory, LoopFactory as _, NameList, UseLlmConfig,
};
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_mcp::server_part;
use loopwright_models::Providers;
use serde_json::Value;

use crate::commands::Commands;
use crate::config::Config;
use crate::console::with_causes;
use crate::definitions::{self, Defined, OF_RULES, completed};
use crate::render::single_line;
use crate::selected_agent::{AGENT, AgentError, SelectedAgent};
use crate::tools;

/// Checks definitions for agents that work in a directory.
pub(crate) struct Check<'c> {
    pub(crate) defined: &'c Defined,
    pub(crate) workdir: &'c WorkspaceRoot,
    pub(crate) config: &'c Config,
    pub(crate) providers: &'c Arc<Providers>,
}

impl Check<'_> {
    /// Returns what keeps every run from this definition.
    pub(crate) fn problems(&self, definition: &AgentDefinition) -> Vec<String> {
        let definition = completed(definition);
        let validator = self.defined.validator(self.workdir, Arc::clone(self.providers));
        let definition = Self::without_tools_of_runs(definition);
        let problems = validator.problems(&definition);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            return problems;
        }
        let unknown = self.unknown_servers(&definition);
        if !unknown.is_empty() {
            return unknown;
        }
        let commands = Commands::default();
        let rules = definitions::rules(self.workdir);
        let base = AgentBuilder::base()
            .with_capability(tools::tools(self.workdir, &commands))
            .with_capability(UseLlmConfig::from_models(Arc::<Providers>::clone(self.providers)));
        let capabilities =
            self.defined.only_checked().capabilities(self.workdir, &commands, &rules);
        let factory = DefinitionLoopFactory::new(base).with_capabilities(Arc::new(capabilities));
        // It is run by others only.
        let definition = AgentDefinition { isolation: None, ..definition };
        let built = factory.instantiate(&definition).map(drop);
        built.err().map(|error| with_causes(&error).join(": ")).into_iter().collect()
    }

    /// Leaves out tools of servers, and those that permission rules bring: whether an agent has them is known when it runs.
    fn without_tools_of_runs(mut definition: AgentDefinition) -> AgentDefinition {
        let is_known = |name: &&str| !name.starts_with("mcp__") && !OF_RULES.contains(name);
        let others = |tools: &NameList| tools.iter().filter(is_known).collect::<NameList>();
        definition.tools = definition.tools.as_ref().map(others);
        definition.tools_deny = others(&definition.tools_deny);
        definition
    }

    /// Returns the servers that a definition names and that are not configured.
    fn unknown_servers(&self, definition: &AgentDefinition) -> Vec<String> {
        let is_known = |name: &str| {
            let part = server_part(name);
            self.defined.servers.iter().any(|it| server_part(&it.name) == part)
        };
        let named = definition.mcp_servers.iter().flatten();
        let unknown = named.filter(|(name, server)| server.is_null() && !is_known(name));
        let problem = |(name, _): (&String, &Value)| {
            let name = single_line(name, 64);
            format!(
                "`mcpServers`: unknown MCP server `{name}`; add it with `loopwright mcp add {name} …`"
            )
        };
        unknown.map(problem).collect()
    }

    /// Returns what keeps a run from this definition for which no model is typed.
    pub(crate) fn problems_of_file(&self, definition: &AgentDefinition) -> Vec<String> {
        let mut problems = self.problems(definition);
        if definition.name == AGENT {
            problems.push(format!("`name`: {}", AgentError::Own));
        }
        let mut config = self.config.clone();
        let definition_of = || Arc::new(definition.clone());
        let defined = self.defined.clone();
        let applied = SelectedAgent { definition: definition_of(), defined, is_kept: false };
        if let Err(error) = applied.choose(&mut config, self.providers) {
            problems.push(format!("`llm`: {error}"));
        } else if let Some(provider) = definition.llm.as_ref().and_then(|it| it.provider.as_deref())
            && let Err(error) = self.providers.provider(provider)
        {
            problems.push(format!("`llm`: {error}"));
        }
        problems
    }
}
