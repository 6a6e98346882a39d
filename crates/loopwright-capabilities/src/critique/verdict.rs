//! The verdict of a critic.

use loopwright_core::Key;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The verdict on the last reviewed answer of the execution.
pub const CRITIC_VERDICT: Key<CriticVerdict> = Key::execution("self_critique", "verdict");

/// The number of reviews in the execution since the last accepted answer.
pub const ITERATIONS: Key<u32> = Key::execution("self_critique", "iterations");

/// The verdict of a critic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriticVerdict {
    /// Whether the answer is accepted.
    pub approved: bool,
    /// The reason, in a sentence or two.
    #[serde(default)]
    pub summary: String,
    /// The strengths of the answer.
    #[serde(default)]
    pub strengths: Vec<String>,
    /// The problem.
    #[serde(default)]
    pub weaknesses: Vec<String>,
    /// Improvements.
    #[serde(default)]
    pub suggestions: Vec<String>,
}

impl CriticVerdict {
    pub(super) fn without_critic(approved: bool, summary: String) -> Self {
        Self { approved, summary, ..Self::default() }
    }

    /// Reads a verdict, with or without text around it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((begin, end)) = text.find('{').zip(text.rfind('}')).filter(|(a, b)| a < b) else {
            return Err("the critic's response contains no JSON object".to_owned());
        };
        let json = &text[begin..=end];
        serde_json::from_str(json).map_err(|error| format!("the verdict cannot be read: {error}"))
    }

    /// Returns the form of a verdict, for models that can be held to it.
    pub(super) fn schema() -> Value {
        let list = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
        json!({
            "type": "object",
            "properties": {
                "approved": { "type": "boolean", "description": "Whether the answer is accepted." },
                "summary": { "type": "string", "description": "The reason, in a sentence or two." },
                "strengths": list("The strengths of the answer."),
                "weaknesses": list("The weaknesses of the answer, and where it contradicts \
                    the evidence."),
                "suggestions": list("Improvements to make: tools to run, places to look at."),
            },
            "required": ["approved", "summary", "strengths", "weaknesses", "suggestions"],
            "additionalProperties": false,
        })
    }
}
