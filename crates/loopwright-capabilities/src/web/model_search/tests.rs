use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentState, Budget, FixedModel, StopReason,
    messages::{Content, InferenceResponse, Part, ProviderPayload, Role, Usage},
};
use loopwright_testing::{FakeModel, ScenarioStep, block_on, tool_results};

use super::*;

/// An answer with the parts that a provider adds, in its own form.
fn answer(text: &str, parts: &[(&str, Value)], finish: FinishReason) -> InferenceResponse {
    let step = ScenarioStep::final_answer(text).with_usage(Usage::new(7, 3)).with_finish(finish);
    let response = step.to_response().unwrap();
    let part = |(kind, own): &(&str, Value)| {
        let payload = ProviderPayload::new(own.to_string());
        let content = match *kind {
            "text" => Content::Text("".into()),
            kind => Content::Provider { kind: kind.into() },
        };
        Part::new(content).with_provider_payload(payload)
    };
    let parts = parts.iter().map(part).chain([Part::text(text)]);
    InferenceResponse { message: Message::new(Role::Assistant, parts), ..response }
}

fn run(searching: &FakeModel, calls: &[Value], budget: Budget) -> AgentState {
    let calls = calls.iter().map(|arguments| ("web_search", arguments.clone()));
    let model = FakeModel::script([ScenarioStep::tool_calls(calls), "done".into()]);
    let models = Arc::new(FixedModel(Arc::new(searching.clone())));
    let llm = LlmConfig::named("small");
    let search = ModelSearchTool::new(models, llm, ProviderSearch::Anthropic);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseTools::new().with_tool(search))
        .build()
        .unwrap();
    block_on(agent.execute(AgentState::new().with_user_message("go").with_budget(budget)))
}

#[test]
fn an_answer_comes_with_its_sources_and_is_charged_to_the_run() {
    let page = |number: u8| json!({"type": "x", "title": format!(" T{number}\n"), "url": format!("https://{number}.example")});
    let model = FakeModel::from_fn(move |_| {
        let found =
            json!({"content": [page(1), page(2), page(3), {"title": "a", "url": "file:///a"}]});
        let cited = json!({"citations": [page(3)]});
        let parts = [("web_search_tool_result", found), ("text", cited)];
        Ok(answer("It says so.", &parts, FinishReason::Stop))
    });
    let arguments = json!({"query": " the query ", "max_results": 2});
    let state = run(&model, &[arguments], Budget::default());
    let expect =
        "It says so.\n\nSources:\n1. T3\n   https://3.example\n2. T1\n   https://1.example";
    assert_eq!(tool_results(&state), [expect]);
    assert_eq!(state.usage(), Usage::new(7, 3));
    let requests = model.requests();
    let said: Vec<_> = requests[0].prompt.turns.iter().map(|it| it.message().text()).collect();
    assert_eq!(said, ["Search the web, and answer with what you find: the query"]);
    let tool = json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]);
    assert_eq!(requests[0].options.extra["tools"], tool);
}

#[test]
fn each_provider_names_sources_in_its_own_form() {
    let sources = |own: Value| {
        let mut found = Vec::new();
        let message = answer("", &[("x", own)], FinishReason::Stop).message;
        add_sources(&message, &mut found);
        found.into_iter().map(|it| (it.title, it.url)).collect::<Vec<_>>()
    };
    let expect = [("A".to_owned(), "https://a.example/".to_owned())];
    let anthropic = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [
        {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "e", "page_age": null}
    ]});
    let openai = json!({"type": "output_text", "text": "t", "annotations": [
        {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "A", "url": "https://a.example/"}
    ]});
    let gemini = json!({"groundingChunks": [{"web": {"uri": "https://a.example/", "title": "A"}}],
        "searchEntryPoint": {"renderedContent": "<style>"}, "webSearchQueries": ["a"]});
    for own in [anthropic, openai, gemini] {
        assert_eq!(sources(own), expect);
    }
}

#[test]
fn a_search_that_the_provider_pauses_is_continued_a_few_times() {
    let model = FakeModel::from_fn(|request| {
        let finish = match request.prompt.turns.len() {
            1 | 2 => FinishReason::Other("pause_turn".into()),
            _ => FinishReason::Stop,
        };
        Ok(answer("a ", &[], finish))
    });
    let state = run(&model, &[json!({"query": "q"})], Budget::default());
    assert_eq!(tool_results(&state), ["a a a\n\nNo sources were given."]);
    let model =
        FakeModel::from_fn(|_| Ok(answer("b ", &[], FinishReason::Other("pause_turn".into()))));
    run(&model, &[json!({"query": "q"})], Budget::default());
    assert_eq!(model.asked(), MAX_PAUSES + 1);
}

#[test]
fn a_search_without_words_fails_and_the_budget_of_the_run_is_the_limit() {
    let model = FakeModel::from_fn(|_| Ok(answer(" ", &[], FinishReason::Stop)));
    let state = run(&model, &[json!({"query": " "}), json!({"query": "q"})], Budget::default());
    let expect = [
        "Error: `query` is empty; pass words to search for",
        "(no answer)\n\nNo sources were given.",
    ];
    assert_eq!(tool_results(&state), expect);
    let budget = Budget { tokens: Some(5), ..Budget::default() };
    let state = run(&model, &[json!({"query": "q"})], budget);
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::TokenLimitReached));
}

#[test]
fn wires_without_a_search_of_their_own_have_none() {
    let with_search: Vec<_> =
        WireApi::ALL.iter().filter(|it| ProviderSearch::of(**it).is_some()).collect();
    let expect = [WireApi::Anthropic, WireApi::OpenAiResponses, WireApi::Gemini];
    assert_eq!(with_search.len(), expect.len());
    assert!(expect.iter().all(|it| with_search.contains(&it)));
}
