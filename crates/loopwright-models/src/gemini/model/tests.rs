use super::*;

#[test]
fn a_model_is_asked_at_its_own_path() {
    let check = |model: &str, expect: &str| assert_eq!(path(model, "do").join("/"), expect);
    check("gemini-2.5-pro", "models/gemini-2.5-pro:do");
    check("models/gemini-2.5-pro", "models/gemini-2.5-pro:do");
    check("tunedModels/mine", "tunedModels/mine:do");
    check("/publishers/google/models/g/", "publishers/google/models/g:do");
    check("", "");
}

#[test]
fn names_tell_the_generation() {
    let check = |model: &str, expect: Option<(u8, u8, bool)>| {
        let gemini = Gemini::named(model).map(|it| (it.major, it.minor, it.is_pro));
        assert_eq!(gemini, expect, "{model}");
    };
    check("gemini-3-pro-preview", Some((3, 0, true)));
    check("gemini-3.1-flash-lite", Some((3, 1, false)));
    check("publishers/google/models/gemini-2.5-flash", Some((2, 5, false)));
    check("gemini-flash-latest", Some((3, 1, false)));
    check("gemini-pro", None);
    check("gemini-x.y", None);
    check("tunedModels/mine", None);
}

#[test]
fn efforts_become_what_the_model_understands() {
    use ReasoningEffort::{High, Low, Medium, Minimal};
    let level = |model: &str| {
        [Minimal, Low, Medium, High].map(|effort| {
            let thinking = Gemini::named(model).and_then(|it| it.thinking(effort));
            let thinking = thinking.unwrap_or_default();
            let level = &thinking["thinkingLevel"];
            if level.is_null() { thinking["thinkingBudget"].clone() } else { level.clone() }
        })
    };
    assert_eq!(level("gemini-3-flash"), ["minimal", "low", "medium", "high"]);
    assert_eq!(level("gemini-3-pro-preview"), ["low", "low", "high", "high"]);
    assert_eq!(level("gemini-3.1-pro-preview"), ["low", "low", "medium", "high"]);
    assert_eq!(level("gemini-2.5-flash"), [512, 1024, 8192, 24_576]);
    assert_eq!(level("gemini-2.5-pro"), [128, 1024, 8192, 24_576]);
    assert_eq!(level("gemini-2.0-flash"), [Value::Null, Value::Null, Value::Null, Value::Null]);
}
