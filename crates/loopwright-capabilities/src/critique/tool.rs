//! `self_critic`.

use std::{fmt, sync::Arc};

use loopwright_core::{
    BoxError, ChatModel, ModelProvider, Reach, SideEffects, Tool, ToolCx, ToolOptions,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{critique::prompt, model_source::ModelSource};

/// Reviews an answer that the agent intends to give.
#[derive(Clone)]
pub struct SelfCritic(pub(super) ModelSource);

/// The arguments of the tool `self_critic`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelfCriticArgs {
    /// The task, as the user stated it.
    pub original_task: String,
    /// The complete answer that you intend to give.
    pub proposed_response: String,
}

impl SelfCritic {
    /// Uses one model for reviews, regardless of the agent's own model.
    pub fn with_model(model: impl ChatModel + 'static) -> Self {
        Self(ModelSource::One(Arc::new(model)))
    }

    /// Uses the models that states select.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self(ModelSource::OfState(models))
    }
}

impl Default for SelfCritic {
    /// Asks the agent's own model.
    fn default() -> Self {
        Self(ModelSource::Own(None))
    }
}

impl Tool for SelfCritic {
    type Args = SelfCriticArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "self_critic"
    }

    fn description(&self) -> &'static str {
        "Reviews an answer before you give it, and judges whether it is complete, correct, relevant and \
            clear. Returns the review, with APPROVED or NEEDS REVISION in its first line."
    }

    fn options(&self) -> ToolOptions {
        let reach = if matches!(self.0, ModelSource::Own(_)) { Reach::Agent } else { Reach::World };
        ToolOptions { side_effects: SideEffects::Idempotent, reach, ..ToolOptions::default() }
    }

    async fn call(&self, args: SelfCriticArgs, cx: &ToolCx<'_>) -> Result<String, BoxError> {
        for (name, text) in
            [("original_task", &args.original_task), ("proposed_response", &args.proposed_response)]
        {
            if text.trim().is_empty() {
                return Err(format!("`{name}` is empty").into());
            }
        }
        let question = format!(
            "<task>\n{}\n</task>\n\n<answer>\n{}\n</answer>",
            args.original_task.trim(),
            args.proposed_response.trim()
        );
        let (model, request) =
            self.0.request(cx.state, cx.agent, Some(prompt::RUBRIC.into()), question)?;
        let judgement = cx.infer(&*model, request).await?.message.text();
        let status = if is_approved(&judgement) { "APPROVED" } else { "NEEDS REVISION" };
        Ok(format!("Status: {status}\n\n{}", judgement.trim()))
    }
}

/// Looks for the line that says it, the last one if there are several.
fn is_approved(judgement: &str) -> bool {
    let said = |line: &str| {
        let line = line.trim_matches(|it: char| it.is_whitespace() || "*_`#".contains(it));
        let (key, value) = line.split_once(':')?;
        let is_it = key.trim().eq_ignore_ascii_case("approved");
        is_it
            .then(|| value.trim_matches(|it: char| !it.is_alphabetic()).eq_ignore_ascii_case("yes"))
    };
    judgement.lines().rev().find_map(said).unwrap_or(false)
}

impl fmt::Debug for SelfCritic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SelfCritic")
    }
}
