use loopwright_core::messages::InferenceRequest;
use loopwright_core::{ChatModel as _, MediaKind};

use super::*;
use crate::{RemoteModel, WireApi, preset::presets, price::Price};

fn window(context_window: u64) -> ModelInfo {
    ModelInfo { context_window: Some(context_window), ..ModelInfo::default() }
}

fn catalog(models: &[(&'static str, u64)]) -> ModelCatalog {
    let add = |catalog: ModelCatalog, (name, tokens): &(&'static str, u64)| {
        catalog.with_model("p", *name, window(*tokens))
    };
    models.iter().fold(ModelCatalog::default(), add)
}

#[test]
fn the_models_are_valid() {
    let known = ModelCatalog::builtin();
    let providers: Vec<&str> = presets().iter().map(|(name, _)| &**name).collect();
    for (provider, models) in &*known.models {
        let is_left_out = crate::preset::left_out().iter().any(|it| it.name == *provider);
        assert!(providers.contains(&&**provider) || is_left_out, "{provider}");
        for (name, info) in models {
            assert!(info.max_output <= info.context_window, "{name}");
            let Some(prices) = &info.prices else { continue };
            assert!(prices.input > Price::default() && prices.output > prices.input, "{name}");
            assert!(prices.cache_read.is_none_or(|it| it < prices.input), "{name}");
            assert!(prices.long.as_ref().is_none_or(|it| it.prices.input > prices.input), "{name}");
        }
    }
}

#[test]
fn a_name_is_found_as_it_is_or_without_its_date() {
    let models = catalog(&[("a", 1), ("a-4", 2), ("a-mini", 3), ("a-4-0709", 4)]);
    for (name, expect) in [
        ("a", Some(1)),
        ("a-2025-08-07", Some(1)),
        ("a@20250929", Some(1)),
        ("a-latest", Some(1)),
        ("a-001", Some(1)),
        ("a-4-20250514", Some(2)),
        ("a-4-0709", Some(4)),
        ("a-mini-2025-08-07", Some(3)),
        ("a-1", None),
        ("a-5", None),
        ("a-4-mini", None),
        ("a-", None),
        ("a-2025x", None),
        ("b", None),
        ("", None),
    ] {
        let found = models.info("p", name).and_then(|it| it.context_window);
        assert_eq!(found, expect, "{name}");
    }
    assert_eq!(models.info("q", "a"), None);
}

#[test]
fn added_model_facts_replace_only_the_fields_that_they_set() {
    let models = catalog(&[("a", 1)]);
    let free = ModelInfo { prices: Some(Prices::free()), ..ModelInfo::default() };
    let models = models.with_model("p", "a", free.clone()).with_model("p", "new", free.clone());
    let expect = ModelInfo { context_window: Some(1), ..free.clone() };
    assert_eq!(models.info("p", "a"), Some(expect));
    assert_eq!(models.info("p", "new"), Some(free));
}

#[test]
fn an_unknown_price_is_not_nothing() {
    assert_eq!(window(1).cost(&Usage::new(1, 1)), None);
    let free = ModelInfo { prices: Some(Prices::free()), ..ModelInfo::default() };
    assert_eq!(free.cost(&Usage::new(1, 1)), Some(Cost::ZERO));
}

#[test]
fn a_free_provider_costs_nothing_but_what_is_known_to_cost_something() {
    let prices = Prices { input: Price::from_dollars(1.0), ..Prices::free() };
    let paid = ModelInfo { prices: Some(prices), ..ModelInfo::default() };
    let models = catalog(&[("a", 1)]).with_model("p", "paid", paid.clone()).with_free_provider("p");
    let cost = |name: &str| models.info("p", name).unwrap().cost(&Usage::new(1_000_000, 0));
    assert_eq!(cost("unknown"), Some(Cost::ZERO));
    assert_eq!(cost("a"), Some(Cost::ZERO));
    assert_eq!(cost("paid"), Some(Cost::from_dollars(1.0)));
}

#[test]
fn capabilities_are_written_by_their_names() {
    for capability in [
        ModelCapability::Tools,
        ModelCapability::Images,
        ModelCapability::Documents,
        ModelCapability::Reasoning,
        ModelCapability::JsonSchema,
    ] {
        let written = serde_json::to_value(capability).unwrap();
        assert_eq!(written, capability.name());
    }
}

#[test]
fn a_model_says_which_media_it_takes_as_far_as_that_is_known() {
    let of = |capabilities: &[ModelCapability]| {
        let capabilities = Some(capabilities.to_vec());
        ModelInfo { capabilities, ..ModelInfo::default() }
    };
    let catalog = ModelCatalog::default()
        .with_model("p", "blind", of(&[ModelCapability::Tools, ModelCapability::Documents]))
        .with_model("p", "sees", of(&[ModelCapability::Images]))
        .with_model("p", "unknown", window(1));
    let model = RemoteModel::new(WireApi::OpenAiChat, "p", "http://localhost", "blind").unwrap();
    let model = model.with_catalog(catalog);
    let takes = |name: Option<&str>| {
        let request =
            InferenceRequest { model: name.map(Into::into), ..InferenceRequest::default() };
        [MediaKind::Image, MediaKind::Document].map(|kind| model.takes(&request, kind))
    };
    assert_eq!(takes(None), [Some(false), Some(true)]);
    assert_eq!(takes(Some("sees")), [Some(true), Some(false)]);
    assert_eq!(takes(Some("unknown")), [None, None]);
    assert_eq!(takes(Some("unheard of")), [None, None]);
}
