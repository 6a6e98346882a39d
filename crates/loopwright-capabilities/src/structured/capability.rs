//! The capability for data extraction.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{ChatModel, FixedModel, ModelProvider};

use crate::structured::extract::Extractor;
use crate::structured::policy::StructuredOutputPolicy;
use crate::structured::schema::SchemaRegistry;
use crate::structured::tool::StructuredOutput;

/// Adds the tool `structured_output`, which extracts data from text according to a schema.
#[derive(Clone)]
#[must_use]
pub struct UseStructuredOutputs {
    schemas: SchemaRegistry,
    policy: StructuredOutputPolicy,
    models: Option<Arc<dyn ModelProvider>>,
    tool: Option<Arc<str>>,
}

impl UseStructuredOutputs {
    /// Creates the capability with these schemas. It uses the agent's own model.
    pub fn new(schemas: SchemaRegistry) -> Self {
        Self { schemas, policy: StructuredOutputPolicy::default(), models: None, tool: None }
    }

    /// Sets the policy.
    pub fn with_policy(mut self, policy: StructuredOutputPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Uses one model.
    pub fn with_model(self, model: impl ChatModel + 'static) -> Self {
        self.with_models(Arc::new(FixedModel(Arc::new(model))))
    }

    /// Uses one of these models, as selected by the policy or a schema.
    pub fn with_models(mut self, models: Arc<dyn ModelProvider>) -> Self {
        self.models = Some(models);
        self
    }

    /// Sets the name of the tool; its former name is `extract_data`.
    pub fn with_tool_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.tool = Some(name.into());
        self
    }
}

impl Capability for UseStructuredOutputs {
    fn name(&self) -> Cow<'static, str> {
        "use_structured_outputs".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let mut extractor = Extractor::new(self.schemas.clone(), self.policy.clone())?;
        if let Some(models) = &self.models {
            extractor = extractor.with_models(Arc::clone(models));
        }
        let mut tool = StructuredOutput::from_extractor(extractor);
        if let Some(name) = &self.tool {
            tool = tool.with_name(Arc::clone(name));
        }
        agent.tools.add(tool);
        Ok(())
    }
}

impl fmt::Debug for UseStructuredOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseStructuredOutputs")
            .field("schemas", &self.schemas)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
