//! `structured_output`.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_broadcast::text::shorten;
use loopwright_core::{
    AgentState, AnyTool, IntoTool, SideEffects, StepError, ToolCx, ToolError, ToolHandler,
    ToolOptions, ToolOutput, messages::ToolSpec,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::structured::extract::{ExtractionError, Extractor};
use crate::structured::policy::{ExtractionOptions, StructuredOutputPolicy};

/// Makes data of a schema out of a text, for a model that asks for it.
///
/// That there is no such data is an answer and not a failure of the tool.
#[derive(Clone, Debug)]
#[must_use]
pub struct StructuredOutput {
    name: Arc<str>,
    extractor: Extractor,
}

/// What the model passes to `structured_output`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct StructuredOutputArgs {
    /// The text.
    pub input: String,
    /// The name of the schema.
    #[serde(default)]
    pub schema: String,
    /// The name of the metadata to store the data under.
    #[serde(default)]
    pub store_as: Option<String>,
}

impl StructuredOutput {
    /// Makes data as this extractor does.
    pub fn from_extractor(extractor: Extractor) -> Self {
        Self { name: "structured_output".into(), extractor }
    }

    /// Names the tool; `extract_data` is what it used to be called.
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    async fn run(
        &self,
        args: &StructuredOutputArgs,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, Refused> {
        let policy = self.extractor.policy();
        let store_as = args.store_as.as_deref().map(str::trim).filter(|it| !it.is_empty());
        // Nobody pays for data that cannot be kept.
        if let Some(key) = store_as {
            may_store(key, policy, cx.state)?;
        }
        let options = ExtractionOptions::default();
        let data = self.extractor.extract(&args.schema, &args.input, options, cx).await?;
        let text = data.to_string();
        if store_as.is_some() && text.len() > policy.max_value_bytes {
            let (size, most) = (text.len(), policy.max_value_bytes);
            return Err(Refused::Told(format!(
                "the data has {size} bytes and {most} can be stored; ask for less of it"
            )));
        }
        let mut told = format!("Extracted `{}`.", args.schema);
        if let Some(key) = store_as {
            // Writing to a string does not fail.
            let _ = write!(told, " Stored as `{key}`.");
        }
        let _ = write!(told, "\n{}", shorten(&text, policy.preview_chars, policy.preview_chars));
        let value = json!({
            "success": true,
            "schema": args.schema,
            "data": data,
            "store_as": store_as,
            "error": null,
        });
        let output = ToolOutput { value: Some(value.into()), ..ToolOutput::text(told) };
        Ok(match store_as {
            Some(key) => output.with_metadata(key, data),
            None => output,
        })
    }

    fn spec(&self) -> ToolSpec {
        let schemas = self.extractor.schemas();
        let mut description = "Makes data out of a text. The schemas there are:".to_owned();
        for (name, definition) in schemas.all() {
            let about = definition.description.iter().map(|it| format!(": {}", it.trim()));
            let _ = write!(description, "\n- {name}{}", about.collect::<String>());
        }
        let names: Vec<&str> = schemas.names().collect();
        let parameters = json!({
            "type": "object",
            "properties": {
                "input": { "type": "string", "description": "The text to make data out of." },
                "schema": { "type": "string", "description": "What to make of it.", "enum": names },
                "store_as": {
                    "type": "string",
                    "description": "The name to store the data under, for later use.",
                },
            },
            "required": ["input", "schema"],
            "additionalProperties": false,
        });
        ToolSpec {
            name: Arc::clone(&self.name),
            description: description.into(),
            parameters: Arc::new(parameters),
        }
    }
}

/// Why there is no data.
enum Refused {
    /// The model is told.
    Told(String),
    /// The run is ending.
    Ends(ToolError),
}

impl From<ExtractionError> for Refused {
    fn from(error: ExtractionError) -> Self {
        match error {
            ExtractionError::Step(StepError::Stopped(signal)) => {
                Self::Ends(ToolError::Stop(signal))
            }
            ExtractionError::Step(error @ StepError::Cancelled) => {
                Self::Ends(ToolError::Failed(error.into()))
            }
            ExtractionError::Step(error) => Self::Told(error.to_failure().to_string()),
            error => Self::Told(error.to_string()),
        }
    }
}

fn may_store(
    key: &str,
    policy: &StructuredOutputPolicy,
    state: &AgentState,
) -> Result<(), Refused> {
    // Names that begin with `_` belong to programs.
    if key.starts_with('_') || policy.reserved_keys.iter().any(|it| it == key) {
        return Err(Refused::Told(format!("`{key}` is reserved; store it under another name")));
    }
    let metadata = state.metadata();
    if metadata.get(key).is_none() && metadata.len() >= policy.max_keys {
        let most = policy.max_keys;
        return Err(Refused::Told(format!(
            "{most} values are stored already, which is the most; store it under one of their names"
        )));
    }
    Ok(())
}

#[async_trait]
impl ToolHandler for StructuredOutput {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let args: StructuredOutputArgs = serde_json::from_value(arguments)
            .map_err(|error| ToolError::InvalidArguments(error.to_string()))?;
        match self.run(&args, cx).await {
            Ok(output) => Ok(output),
            Err(Refused::Ends(error)) => Err(error),
            Err(Refused::Told(error)) => {
                let value = json!({
                    "success": false,
                    "schema": args.schema,
                    "data": null,
                    "store_as": args.store_as,
                    "error": error,
                });
                let output = ToolOutput::text(format!("Error: {error}"));
                Ok(ToolOutput { value: Some(value.into()), ..output })
            }
        }
    }
}

impl IntoTool for StructuredOutput {
    fn into_tool(self) -> AnyTool {
        let options = ToolOptions {
            side_effects: SideEffects::ReadOnly,
            namespace: Some("data".into()),
            ..ToolOptions::default()
        };
        AnyTool::dynamic(self.spec(), options, Arc::new(self))
    }
}
