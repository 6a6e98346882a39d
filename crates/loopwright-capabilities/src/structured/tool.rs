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

/// Extracts data from a text according to a schema, on request of the model.
///
/// If the text contains no such data, the tool reports this as a result, not as a failure.
#[derive(Clone, Debug)]
#[must_use]
pub struct StructuredOutput {
    name: Arc<str>,
    extractor: Extractor,
}

/// The arguments of the tool `structured_output`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct StructuredOutputArgs {
    /// The text.
    pub input: String,
    /// The name of the schema.
    #[serde(default)]
    pub schema: String,
    /// The metadata key to store the data under.
    #[serde(default)]
    pub store_as: Option<String>,
}

impl StructuredOutput {
    /// Creates the tool with an extractor.
    pub fn from_extractor(extractor: Extractor) -> Self {
        Self { name: "structured_output".into(), extractor }
    }

    /// Sets the name of the tool; its former name is `extract_data`.
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
                "the data is {size} bytes long, but at most {most} can be stored; request less data"
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
        let mut description = "Extracts data from text. Available schemas:".to_owned();
        for (name, definition) in schemas.all() {
            let about = definition.description.iter().map(|it| format!(": {}", it.trim()));
            let _ = write!(description, "\n- {name}{}", about.collect::<String>());
        }
        let names: Vec<&str> = schemas.names().collect();
        let parameters = json!({
            "type": "object",
            "properties": {
                "input": { "type": "string", "description": "The text to extract data from." },
                "schema": { "type": "string", "description": "The schema of the data.", "enum": names },
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

/// An error of data extraction.
enum Refused {
    /// An error for the model.
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
        return Err(Refused::Told(format!(
            "`{key}` is reserved; store the data under another name"
        )));
    }
    let metadata = state.metadata();
    if metadata.get(key).is_none() && metadata.len() >= policy.max_keys {
        let most = policy.max_keys;
        return Err(Refused::Told(format!(
            "the limit of {most} stored values has been reached; to replace a stored value, use its name"
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
