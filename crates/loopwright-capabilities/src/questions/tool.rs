//! `ask_user`.

use loopwright_core::{
    SideEffects, StopSignal, Tool, ToolCx, ToolError, ToolOptions, ToolOutput, ToolPause,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the tool, which is the source of its stops.
pub(crate) const NAME: &str = "ask_user";

/// What the model reads if no user answers.
const DECLINED: &str = "The question was declined: no user is present. Continue without an answer.";

/// The action of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnQuestion {
    /// The call waits until the answer is recorded.
    #[default]
    Wait,
    /// The model immediately receives the answer that the user declined.
    Decline,
    /// The run stops.
    Stop,
}

/// Asks the user a question and returns the answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskUser(pub(super) OnQuestion);

/// The arguments of the tool `ask_user`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskUserArgs {
    /// The question, with everything the user needs to know to answer it.
    pub question: String,
    /// The answers to choose from. Without options, the user answers in free text.
    #[serde(default)]
    pub options: Vec<String>,
    /// Whether the user may give an answer other than the options. Default: false.
    #[serde(default)]
    pub allow_other: bool,
}

impl AskUser {
    /// Creates the tool.
    pub fn new(on_question: OnQuestion) -> Self {
        Self(on_question)
    }
}

impl AskUserArgs {
    /// Returns the JSON Schema of the answer.
    fn to_schema(&self) -> Result<Value, String> {
        let mut options: Vec<&str> = Vec::new();
        for option in self.options.iter().map(|it| it.trim()) {
            if option.is_empty() {
                return Err("an option is empty; pass text for each option".to_owned());
            }
            if !options.contains(&option) {
                options.push(option);
            }
        }
        Ok(match (options.is_empty(), self.allow_other) {
            (true, _) => json!({ "type": "string" }),
            (false, false) => json!({ "type": "string", "enum": options }),
            (false, true) => json!({
                "anyOf": [{ "type": "string", "enum": options }, { "type": "string" }],
            }),
        })
    }
}

impl Tool for AskUser {
    type Args = AskUserArgs;
    type Output = ToolOutput;
    type Error = ToolError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Asks the user a question and returns the answer. Use it if only the user knows or can \
            decide, and the work cannot continue without the answer. Ask one question per call, \
            and pass `options` if the possible answers are known."
    }

    /// A call changes nothing: one that was interrupted is made again, and asks only if no answer is recorded.
    fn options(&self) -> ToolOptions {
        ToolOptions { side_effects: SideEffects::ReadOnly, ..ToolOptions::default() }
    }

    async fn call(&self, args: AskUserArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        if let Some(answer) = cx.answer() {
            return Ok(ToolOutput::json(answer.clone()));
        }
        let question = args.question.trim();
        if question.is_empty() {
            let reason = "`question` is empty; pass the question for the user";
            return Err(ToolError::InvalidArguments(reason.to_owned()));
        }
        let schema = args.to_schema().map_err(ToolError::InvalidArguments)?;
        match self.0 {
            OnQuestion::Wait => Err(ToolPause::ask(question).with_schema(schema).into()),
            OnQuestion::Decline => Ok(ToolOutput::text(DECLINED)),
            OnQuestion::Stop => {
                let reason = format!("`{NAME}` needs an answer ({question})");
                Err(ToolError::Stop(StopSignal::requested(NAME, reason).with_denied_call(cx.call)))
            }
        }
    }
}
