//! What a critic says of an answer.

use loopwright_core::Key;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What was said of the last answer of the execution that was judged.
pub const CRITIC_VERDICT: Key<CriticVerdict> = Key::execution("self_critique", "verdict");

/// How many answers of the execution were judged since one was accepted.
pub const ITERATIONS: Key<u32> = Key::execution("self_critique", "iterations");

/// What a critic says of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriticVerdict {
    /// Whether the answer is accepted.
    pub approved: bool,
    /// Why, in a sentence or two.
    #[serde(default)]
    pub summary: String,
    /// What is good about it.
    #[serde(default)]
    pub strengths: Vec<String>,
    /// What is wrong with it.
    #[serde(default)]
    pub weaknesses: Vec<String>,
    /// What would make it better.
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
            return Err("there is no JSON object in the critic's answer".to_owned());
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
                "summary": { "type": "string", "description": "Why, in a sentence or two." },
                "strengths": list("What is good about it."),
                "weaknesses": list("What is wrong with it; what contradicts the evidence."),
                "suggestions": list("What to do about it: tools to run, places to look at."),
            },
            "required": ["approved", "summary", "strengths", "weaknesses", "suggestions"],
            "additionalProperties": false,
        })
    }
}
