//! Properties of Claude models, derived from their names.

use loopwright_core::messages::ReasoningEffort;
use serde_json::{Value, json};

/// The fewest tokens that are accepted as a budget for thinking.
const LEAST_BUDGET: u64 = 1024;

/// The reasoning setting of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thinking {
    /// It does not think.
    Never,
    /// By a number of tokens. So are other makers' models that speak the same wire.
    Budget,
    /// By an effort: it finds out itself how long to think, and refuses budgets.
    Adaptive,
}

/// Returns the reasoning setting of a model.
fn thinking(model: &str) -> Thinking {
    match version(model) {
        Model::Other | Model::Version(3, 7..) | Model::Version(4, ..=5) => Thinking::Budget,
        Model::Version(..=3, _) => Thinking::Never,
        Model::Version(..) | Model::Unnumbered => Thinking::Adaptive,
    }
}

/// Returns the field that makes a model think this much, or `None` if it is to think little or
/// cannot.
///
/// The limit of written tokens counts thinking too: half of it is left for the answer, and one that
/// leaves no room for the least budget makes the model not think.
pub(crate) fn thinking_field(model: &str, effort: ReasoningEffort, most: u64) -> Option<Value> {
    let budget = match effort {
        ReasoningEffort::Minimal => return None,
        ReasoningEffort::Low => 2048,
        ReasoningEffort::High => 16_384,
        _ => 8192,
    };
    match thinking(model) {
        Thinking::Never => None,
        // Since 4.7, what is thought is not shown unless that is asked for.
        Thinking::Adaptive
            if matches!(version(model), Model::Version(4, ..=6) | Model::Unnumbered) =>
        {
            Some(json!({ "type": "adaptive" }))
        }
        Thinking::Adaptive => Some(json!({ "type": "adaptive", "display": "summarized" })),
        Thinking::Budget => {
            let budget = u64::min(budget, most / 2);
            let is_enough = budget >= LEAST_BUDGET;
            is_enough.then(|| json!({ "type": "enabled", "budget_tokens": budget }))
        }
    }
}

/// Returns the word for an effort; `None` for models that are not told in words.
pub(crate) fn effort_word(model: &str, effort: ReasoningEffort) -> Option<&'static str> {
    (thinking(model) == Thinking::Adaptive).then_some(match effort {
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
        ReasoningEffort::High => "high",
        _ => "medium",
    })
}

/// Returns a limit of written tokens that the model accepts and that an agent rarely meets.
///
/// Each model writes at least this much: one that could write more is not cut off early, and a limit
/// above what a model can do would be refused.
pub(crate) fn most_tokens(model: &str) -> u64 {
    match version(model) {
        Model::Version(3, 7..) | Model::Version(4.., _) | Model::Unnumbered => 32_000,
        Model::Version(3, 5..) | Model::Other => 8192,
        Model::Version(..) => 4096,
    }
}

/// Which settings of how freely words are chosen a model accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
}

/// Leaves out the settings that a model refuses. Models of this family refuse all of them since 4.7, and
/// before that, while they think, a temperature and a small share of words.
pub(crate) fn sampling(model: &str, thinks: bool, wanted: Sampling) -> Sampling {
    const LEAST_TOP_P: f64 = 0.95;
    match version(model) {
        Model::Other => wanted,
        Model::Version(4, 7..) | Model::Version(5.., _) => {
            Sampling { temperature: None, top_p: None }
        }
        _ if thinks => Sampling {
            temperature: None,
            top_p: wanted.top_p.filter(|top_p| *top_p >= LEAST_TOP_P),
        },
        _ => wanted,
    }
}

/// Returns `true` if a model continues its own last message instead of refusing it, as models of this family
/// did before 4.6. Other makers' models that speak the same wire are not known to refuse.
pub(crate) fn takes_prefill(model: &str) -> bool {
    matches!(version(model), Model::Other | Model::Version(..=3, _) | Model::Version(4, ..=5))
}

/// Returns `true` if a model accepts messages of the system within a conversation, as models of this family
/// do since 4.8.
pub(crate) fn takes_system_messages(model: &str) -> bool {
    matches!(version(model), Model::Version(4, 8..) | Model::Version(5.., _))
}

/// Returns `true` if a name, in whatever form a host gives it, is that of a model of this family that can
/// think: every one since 3.7.
#[cfg(feature = "bedrock")]
pub(crate) fn can_think(model: &str) -> bool {
    !matches!(version(model), Model::Other) && thinking(model) != Thinking::Never
}

enum Model {
    /// None of this family.
    Other,
    /// A version such as 4.5.
    Version(u32, u32),
    /// The name has no number, as those of previews: taken for a new one.
    Unnumbered,
}

/// Reads the version, which stands before the model's size or after it. Dates are no versions.
fn version(model: &str) -> Model {
    let model = model.to_ascii_lowercase();
    let Some((_, name)) = model.split_once("claude") else { return Model::Other };
    let number = |word: &str| if word.len() < 3 { word.parse::<u32>().ok() } else { None };
    let mut words =
        name.split(|it: char| !it.is_ascii_alphanumeric()).skip_while(|it| number(it).is_none());
    match (words.next().and_then(number), words.next().and_then(number)) {
        (Some(major), minor) => Model::Version(major, minor.unwrap_or(0)),
        (None, _) => Model::Unnumbered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_would_hide_their_thoughts_are_asked_to_show_them() {
        let field = |model| thinking_field(model, ReasoningEffort::High, 32_000).unwrap();
        let shown = json!({ "type": "adaptive", "display": "summarized" });
        for model in ["claude-opus-4-7", "us.anthropic.claude-opus-4-8-v1:0", "claude-sonnet-5"] {
            assert_eq!(field(model), shown, "{model}");
        }
        assert_eq!(field("claude-opus-4-6"), json!({ "type": "adaptive" }));
        assert_eq!(field("claude-opus-4-5")["type"], "enabled");
    }

    #[test]
    fn a_model_thinks_if_the_least_budget_is_left_beside_its_answer() {
        let budget = |most| {
            let field = thinking_field("claude-sonnet-4", ReasoningEffort::High, most);
            field.map(|it| it["budget_tokens"].clone())
        };
        let (least, most) = (LEAST_BUDGET, 2 * 16_384);
        assert_eq!(budget(2 * least - 1), None);
        assert_eq!(budget(2 * least), Some(least.into()));
        assert_eq!((budget(most), budget(2 * most)), (Some(16_384.into()), Some(16_384.into())));
    }

    #[test]
    fn settings_that_a_model_refuses_are_left_out() {
        let wanted = Sampling { temperature: Some(0.5), top_p: Some(0.5) };
        let none = Sampling { temperature: None, top_p: None };
        for model in ["claude-opus-4-7", "claude-sonnet-5", "us.anthropic.claude-fable-5-1"] {
            assert_eq!(sampling(model, false, wanted), none, "{model}");
        }
        for model in ["claude-opus-4-6", "claude-haiku-4-5", "claude-3-5-sonnet-20241022"] {
            assert_eq!(sampling(model, false, wanted), wanted, "{model}");
            assert_eq!(sampling(model, true, wanted), none, "{model}");
            let high = Sampling { top_p: Some(0.99), ..wanted };
            let kept = Sampling { top_p: Some(0.99), ..none };
            assert_eq!(sampling(model, true, high), kept, "{model}");
        }
        assert_eq!(sampling("glm-4.6", true, wanted), wanted);
    }

    #[test]
    fn versions_are_read_wherever_they_stand() {
        let known = |model| (thinking(model), most_tokens(model));
        for (model, expect) in [
            ("claude-3-haiku-20240307", (Thinking::Never, 4096)),
            ("claude-3-5-sonnet-20241022", (Thinking::Never, 8192)),
            ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", (Thinking::Budget, 32_000)),
            ("claude-sonnet-4-20250514", (Thinking::Budget, 32_000)),
            ("claude-sonnet-4-100", (Thinking::Budget, 32_000)),
            ("claude-haiku-4-5@20251001", (Thinking::Budget, 32_000)),
            ("anthropic/claude-opus-4.6", (Thinking::Adaptive, 32_000)),
            ("claude-opus-5", (Thinking::Adaptive, 32_000)),
            ("claude-mythos-preview", (Thinking::Adaptive, 32_000)),
            ("glm-4.6", (Thinking::Budget, 8192)),
        ] {
            assert_eq!(known(model), expect, "{model}");
        }
    }
}
