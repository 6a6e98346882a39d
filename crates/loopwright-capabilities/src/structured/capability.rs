//! Data out of text as a capability.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{ChatModel, FixedModel, ModelProvider};

use crate::structured::extract::Extractor;
use crate::structured::policy::StructuredOutputPolicy;
use crate::structured::schema::SchemaRegistry;
use crate::structured::tool::StructuredOutput;

/// Adds the tool `structured_output`, which makes data of a schema out of text.
#[derive(Clone)]
#[must_use]
pub struct UseStructuredOutputs {
    schemas: SchemaRegistry,
    policy: StructuredOutputPolicy,
    models: Option<Arc<dyn ModelProvider>>,
    tool: Option<Arc<str>>,
}

impl UseStructuredOutputs {
    /// Offers these schemas. The model that is asked is the agent's own.
    pub fn new(schemas: SchemaRegistry) -> Self {
        Self { schemas, policy: StructuredOutputPolicy::default(), models: None, tool: None }
    }

    /// Sets how data is asked for.
    pub fn policy(mut self, policy: StructuredOutputPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Asks one model.
    pub fn model(self, model: impl ChatModel + 'static) -> Self {
        self.models(Arc::new(FixedModel(Arc::new(model))))
    }

    /// Asks one of these models, as the policy or a schema selects.
    pub fn models(mut self, models: Arc<dyn ModelProvider>) -> Self {
        self.models = Some(models);
        self
    }

    /// Names the tool; `extract_data` is what it used to be called.
    pub fn tool_named(mut self, name: impl Into<Arc<str>>) -> Self {
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
            extractor = extractor.models(Arc::clone(models));
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
