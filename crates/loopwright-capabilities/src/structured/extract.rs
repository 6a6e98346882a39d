//! Data extraction from text.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use loopwright_agent::BuildError;
use loopwright_core::{
    ChatModel, LlmConfig, ModelError, ModelProvider, StepError, ToolCx,
    events::ValidationFailed,
    messages::{
        FinishReason, InferenceRequest, InferenceResponse, Message, Prompt, ResponseFormat,
        ToolChoice, ToolSpec, Transcript,
    },
};

use crate::structured::policy::{ExtractionOptions, OutputMode, StructuredOutputPolicy};
use crate::structured::read::json_in;
use crate::structured::schema::{SchemaDefinition, SchemaError, SchemaRegistry};
use crate::structured::shape::{Absence, Reading, Shape};

/// Extracts data from texts according to registered schemas.
#[derive(Clone)]
pub struct Extractor {
    schemas: Arc<SchemaRegistry>,
    shapes: Arc<BTreeMap<String, Shape>>,
    policy: Arc<StructuredOutputPolicy>,
    models: Option<Arc<dyn ModelProvider>>,
}

/// An error of data extraction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractionError {
    /// The text is empty.
    #[error("Input cannot be empty")]
    Empty,
    /// The schema is missing.
    #[error("`schema` is empty; available: {0}")]
    NoSchema(String),
    /// The schema is unknown.
    #[error(transparent)]
    Unknown(#[from] SchemaError),
    /// The text contains no such data.
    #[error("the input contains no `{schema}`: {reason}")]
    NotFound {
        /// The schema.
        schema: String,
        /// The reason from the model.
        reason: String,
    },
    /// The model's responses were invalid.
    #[error("no valid `{schema}` in {attempts} attempts: {errors}")]
    Invalid {
        /// The schema.
        schema: String,
        /// The number of attempts.
        attempts: u32,
        /// The errors of the last response.
        errors: String,
    },
    /// The model declined.
    #[error("the model declined to extract a `{0}`")]
    Refused(String),
    /// No model is configured.
    #[error("the capability has no model; set one with `model` or `models`")]
    NoModel,
    /// The model call failed.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl From<ModelError> for ExtractionError {
    fn from(error: ModelError) -> Self {
        Self::Step(error.into())
    }
}

/// The tool that a model answers with in [`OutputMode::Tool`].
const ANSWER_TOOL: &str = "extracted_data";

const SYSTEM: &str = "You extract data from text. Use only what the text says: never guess, and \
    omit what it does not contain.";

impl Extractor {
    /// Creates an extractor with schemas. It uses the agent's own models.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no schema, or a schema is not a valid JSON Schema; the error
    /// names it.
    pub fn new(
        schemas: SchemaRegistry,
        policy: StructuredOutputPolicy,
    ) -> Result<Self, BuildError> {
        let unusable = |reason: String| BuildError::capability("use_structured_outputs", reason);
        if schemas.is_empty() {
            return Err(unusable("register a schema first".to_owned()));
        }
        let absence = if policy.use_maybe { Absence::Allowed } else { Absence::Denied };
        let shape = |(name, definition): (&str, &SchemaDefinition)| {
            let shape = Shape::new(&definition.schema, absence).map_err(|error| {
                unusable(format!(
                    "correct the schema `{name}`, which is not a valid JSON Schema: \
                    {error}"
                ))
            })?;
            Ok::<_, BuildError>((name.to_owned(), shape))
        };
        let shapes = schemas.all().map(shape).collect::<Result<_, _>>()?;
        Ok(Self {
            schemas: Arc::new(schemas),
            shapes: Arc::new(shapes),
            policy: Arc::new(policy),
            models: None,
        })
    }

    /// Sets the models, which replace the selection of the state and the agent.
    #[must_use]
    pub fn with_models(mut self, models: Arc<dyn ModelProvider>) -> Self {
        self.models = Some(models);
        self
    }

    /// Returns the schemas.
    pub fn schemas(&self) -> &SchemaRegistry {
        &self.schemas
    }

    /// Returns the policy.
    pub fn policy(&self) -> &StructuredOutputPolicy {
        &self.policy
    }

    /// Extracts data from a text according to a schema.
    ///
    /// # Errors
    ///
    /// Returns an error if the text contains no such data, or no model returns valid data.
    pub async fn extract(
        &self,
        schema: &str,
        input: &str,
        options: ExtractionOptions,
        cx: &ToolCx<'_>,
    ) -> Result<serde_json::Value, ExtractionError> {
        let (definition, shape) = self.find(schema, input)?;
        let options = options.or(&definition.options);
        let llm = self.llm(options.llm, cx);
        let retries = options.max_retries.unwrap_or(self.policy.default_max_retries);
        let mode = options.output_mode.or(self.policy.output_mode).unwrap_or_default();
        let model = self.resolve(llm.as_ref(), cx)?;
        let mut request = self.request(schema, definition, shape, input, mode);
        if let Some(llm) = llm {
            (request.model, request.options) = (llm.model, llm.options);
        }
        let mut errors = Vec::new();
        for _ in 0..=retries {
            let response = cx.infer(&*model, request.clone()).await?;
            if response.finish_reason == FinishReason::Refusal {
                return Err(ExtractionError::Refused(schema.to_owned()));
            }
            errors = match read(&response, shape, mode) {
                Ok(Reading::Found(value)) => return Ok(value),
                Ok(Reading::Absent(reason)) => {
                    return Err(ExtractionError::NotFound { schema: schema.to_owned(), reason });
                }
                Err(errors) => errors,
            };
            let (step, told) = (cx.key.step, errors.clone());
            cx.events.emit(|| ValidationFailed::new(step, "structured_output", told));
            let said = said(&response, mode);
            request.prompt.tail.push(Message::assistant(said));
            request.prompt.tail.push(Message::user(correction(&errors)));
        }
        let (attempts, errors) = (retries.saturating_add(1), errors.join("; "));
        Err(ExtractionError::Invalid { schema: schema.to_owned(), attempts, errors })
    }

    fn find(
        &self,
        schema: &str,
        input: &str,
    ) -> Result<(&SchemaDefinition, &Shape), ExtractionError> {
        if input.trim().is_empty() {
            return Err(ExtractionError::Empty);
        }
        if schema.trim().is_empty() {
            let known = self.schemas.names().collect::<Vec<_>>().join(", ");
            return Err(ExtractionError::NoSchema(known));
        }
        let definition = self.schemas.get(schema)?;
        let shape = self.shapes.get(schema).ok_or(ExtractionError::Empty)?;
        Ok((definition, shape))
    }

    /// Returns which model is asked: what was said with the call or the schema, then the policy, and then
    /// what the agent itself would ask.
    fn llm(&self, chosen: Option<LlmConfig>, cx: &ToolCx<'_>) -> Option<LlmConfig> {
        if chosen.is_some() {
            return chosen;
        }
        let agents_own = || match cx.state.llm() {
            Some(llm) => llm.clone(),
            None => cx.agent.driver().llm(),
        };
        let by_policy = self.policy.llm.clone();
        let llm = by_policy.or_else(|| self.models.is_none().then(agents_own));
        match &self.policy.model {
            None => llm,
            Some(model) => {
                Some(LlmConfig { model: Some(model.clone()), ..llm.unwrap_or_default() })
            }
        }
    }

    fn resolve(
        &self,
        llm: Option<&LlmConfig>,
        cx: &ToolCx<'_>,
    ) -> Result<Arc<dyn ChatModel>, ExtractionError> {
        let models = self.models.clone().or_else(|| cx.agent.driver().models());
        let models = models.ok_or(ExtractionError::NoModel)?;
        Ok(models.resolve(llm.filter(|it| it.provider.is_some() || it.model.is_some()))?)
    }

    fn request(
        &self,
        name: &str,
        definition: &SchemaDefinition,
        shape: &Shape,
        input: &str,
        mode: OutputMode,
    ) -> InferenceRequest {
        let mut system = self.policy.system_prompt.clone().unwrap_or_else(|| SYSTEM.to_owned());
        for text in definition.description.iter().chain(&definition.prompt) {
            system.push_str("\n\n");
            system.push_str(text);
        }
        for example in &definition.examples {
            let (text, data) = (&example.input, &example.output);
            // Writing to a string does not fail.
            let _ = write!(system, "\n\nExample text:\n{text}\nExample data:\n{data}");
        }
        if matches!(mode, OutputMode::Json | OutputMode::Text) {
            system.push_str("\n\n");
            system.push_str(&shape.in_words());
        }
        let mut turns = Transcript::new();
        let question = Message::user(format!("Extract a `{name}` from this text:\n\n{input}"));
        // A message without calls can always be said.
        let _ = turns.push_message(question);
        let mut request = InferenceRequest {
            system: Some(system.into()),
            prompt: Prompt::of(turns),
            ..InferenceRequest::default()
        };
        match mode {
            OutputMode::Schema => request.response_format = Some(shape.format(name)),
            OutputMode::Json => request.response_format = Some(ResponseFormat::JsonObject),
            OutputMode::Tool => {
                request.tools = [answer_tool(shape)].into_iter().collect();
                request.tool_choice = ToolChoice::Tool(ANSWER_TOOL.into());
            }
            OutputMode::Text => (),
        }
        request
    }
}

fn answer_tool(shape: &Shape) -> ToolSpec {
    ToolSpec {
        name: ANSWER_TOOL.into(),
        description: "Accepts the extracted data.".into(),
        parameters: Arc::clone(&shape.outer),
    }
}

fn read(
    response: &InferenceResponse,
    shape: &Shape,
    mode: OutputMode,
) -> Result<Reading, Vec<String>> {
    if response.finish_reason == FinishReason::Length {
        return Err(vec!["the response was cut off because it was too long".to_owned()]);
    }
    let value = json_in(&said(response, mode)).map_err(|error| vec![error])?;
    shape.read(value)
}

/// Returns the model's answer, as JSON text if it has the required form.
fn said(response: &InferenceResponse, mode: OutputMode) -> String {
    let call = response.message.tool_calls().next().filter(|_| mode == OutputMode::Tool);
    call.map_or_else(|| response.message.text(), |it| it.arguments.to_string())
}

/// How every correction begins, and how it ends.
const WRONG: &str = "The data is invalid:\n- ";
const AGAIN: &str = "\nAnswer again with the complete data and nothing else.";

/// Tells a model what is wrong with its answer.
pub(super) fn correction(errors: &[String]) -> String {
    format!("{WRONG}{}{AGAIN}", errors.join("\n- "))
}

/// Returns `true` if a text is a correction, and not what a user says.
pub(crate) fn is_correction(text: &str) -> bool {
    text.starts_with(WRONG) && text.ends_with(AGAIN)
}

impl fmt::Debug for Extractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extractor")
            .field("schemas", &self.schemas.names().collect::<Vec<_>>())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
