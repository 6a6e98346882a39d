use loopwright_core::messages::{MediaSource, ProviderPayload};

use super::*;

fn call(id: Option<&str>, name: &str) -> Item {
    let content = ItemContent::Call {
        id: id.map(str::to_owned),
        name: name.to_owned(),
        arguments: json!({}),
    };
    Item { role: "assistant".to_owned(), content, opaque: Vec::new() }
}

fn result(id: Option<&str>, name: &str, text: &str) -> Item {
    let content = ItemContent::Result {
        id: id.map(str::to_owned),
        name: Some(name.to_owned()),
        text: text.to_owned(),
        is_error: false,
        media: Vec::new(),
    };
    Item { role: "tool".to_owned(), content, opaque: Vec::new() }
}

fn own(items: Vec<Item>) -> Own {
    let parts: Vec<Part> = items.iter().filter_map(part).collect();
    let signed = parts
        .into_iter()
        .map(|it| it.with_provider_payload(ProviderPayload::new("{\"signature\":\"sig\"}")));
    Own { message: Message::new(Role::Assistant, signed), items }
}

/// Returns the results of the exchanges, by the names of their calls.
fn pairs(conversation: &Conversation) -> Vec<(String, String)> {
    let bodies = conversation.transcript.iter().map(|turn| turn.body());
    let exchanges = bodies.filter_map(|body| match body {
        TurnBody::ToolExchange(exchange) => Some(exchange),
        _ => None,
    });
    let pairs = exchanges.flat_map(ToolExchange::pairs);
    pairs.map(|(call, result)| (call.name.to_string(), result.to_text())).collect()
}

#[test]
fn results_belong_to_calls_by_id_then_by_name_then_by_place() {
    let check = |items: &[Item], expect: &[(&str, &str)]| {
        let mut conversation = Conversation::default();
        conversation.restart(&mut items.to_vec(), &[]).unwrap();
        let expect: Vec<_> = expect.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
        assert_eq!(pairs(&conversation), expect);
    };
    check(
        &[
            call(Some("1"), "a"),
            call(Some("2"), "a"),
            result(Some("2"), "a", "two"),
            result(Some("1"), "a", "one"),
        ],
        &[("a", "one"), ("a", "two")],
    );
    check(
        &[call(None, "a"), call(None, "b"), result(None, "b", "B"), result(None, "a", "A")],
        &[("a", "A"), ("b", "B")],
    );
    check(&[call(None, "a"), result(Some("9"), "x", "A")], &[("a", "A")]);
}

#[test]
fn unpaired_calls_and_results_are_refused() {
    let say = |items: &[Item]| Conversation::default().restart(&mut items.to_vec(), &[]);
    assert_eq!(say(&[call(Some("1"), "a")]), Err(Unsupported::Unpaired));
    assert_eq!(say(&[result(Some("1"), "a", "A")]), Err(Unsupported::Unpaired));
    let two = [call(Some("1"), "a"), result(Some("1"), "a", "A"), result(Some("2"), "a", "B")];
    assert_eq!(say(&two), Err(Unsupported::Unpaired));
}

#[test]
fn a_conversation_said_anew_keeps_the_turns_it_begins_with() {
    let hi = || Item::text("user", "hi");
    let mut conversation = Conversation::default();
    conversation.restart(&mut [hi()], &[]).unwrap();
    let before = conversation.transcript.clone();
    conversation.restart(&mut [hi(), Item::text("assistant", "yes")], &[]).unwrap();
    assert!(conversation.transcript.starts_with(&before));
    conversation.restart(&mut [Item::text("user", "ho")], &[]).unwrap();
    assert!(!conversation.transcript.starts_with(&before));
}

#[test]
fn the_clients_own_answers_go_back_as_they_came_and_others_without_handles() {
    let mine = own(vec![call(None, "a")]);
    let mut signed = call(Some("made_up_1"), "a");
    signed.opaque.push("sig".to_owned());
    let mut strange = Item::text("assistant", "x");
    strange.opaque.push("of somebody else".to_owned());
    let mut items = [signed, result(Some("made_up_1"), "a", "A"), strange];
    let mut conversation = Conversation::default();
    conversation.restart(&mut items, std::slice::from_ref(&mine)).unwrap();
    assert_eq!(conversation.transcript.get(0).unwrap().message(), &mine.message);
    let handles = items.map(|item| item.opaque);
    assert_eq!(handles, [vec!["sig".to_owned()], Vec::new(), Vec::new()]);
}

#[test]
fn ids_that_no_provider_gave_are_numbered_with_their_results() {
    let given = BTreeSet::from(["1".to_owned()]);
    let mut items = vec![
        call(Some("1"), "a"),
        result(Some("1"), "a", "A"),
        call(Some("mine"), "b"),
        result(Some("mine"), "b", "B"),
        call(None, "c"),
    ];
    assert_eq!(number_ids(&mut items, &given), ["mine", ""]);
    let expect = [
        call(Some("1"), "a"),
        result(Some("1"), "a", "A"),
        call(Some("made_up_1"), "b"),
        result(Some("made_up_1"), "b", "B"),
        call(Some("made_up_2"), "c"),
    ];
    assert_eq!(items, expect);
}

#[test]
fn conversations_are_the_same_however_their_texts_are_cut() {
    let same = |one: &[&str], other: &[&str]| {
        let items = |texts: &[&str]| -> Vec<Item> {
            texts.iter().map(|text| Item::text("user", *text)).collect()
        };
        say_the_same("openai-chat", &items(one), &items(other))
    };
    assert!(same(&["a b", "c"], &["a", "b c"]));
    assert!(!same(&["a"], &["a", "b"]));
}

#[test]
fn an_answer_is_the_clients_own_although_it_renamed_ids_and_edited_words() {
    let mut words = own(vec![Item::text("assistant", "I look."), call(Some("toolu_1"), "a")]);
    let provider = Content::Provider { kind: "k".into() };
    let kept = Part::new(provider.clone()).with_provider_payload(ProviderPayload::new("{\"k\":1}"));
    let signed = Part::reasoning("hm")
        .with_provider_payload(ProviderPayload::new("{\"signature\":\"sig\"}"));
    let parts = [signed].into_iter().chain(words.message.parts().to_vec()).chain([kept]);
    words.message = words.message.clone().with_parts(parts);
    let mut items = [
        Item::text("user", "q"),
        Item::text("assistant", "I look again."),
        call(Some("renamed"), "a"),
        result(Some("renamed"), "a", "A"),
    ];
    let mut conversation = Conversation::default();
    conversation.restart(&mut items, std::slice::from_ref(&words)).unwrap();
    // The ids are those that the provider knows.
    assert_eq!(items[2], call(Some("toolu_1"), "a"));
    assert_eq!(items[3], result(Some("toolu_1"), "a", "A"));
    let message = conversation.transcript.get(1).unwrap().message().clone();
    assert_eq!(message.text(), "I look again.");
    let kinds =
        message.parts().iter().map(|part| (part.content().clone(), part.opaque().is_some()));
    let expect = [
        (Content::Reasoning("hm".into()), true),
        (Content::Text("I look again.".into()), false),
        (call_content("toolu_1"), true),
        (provider, true),
    ];
    assert_eq!(kinds.collect::<Vec<_>>(), expect);
}

fn call_content(id: &str) -> Content {
    Content::ToolCall(ToolCall::new(id, "a", "{}"))
}

#[test]
fn an_answer_with_other_calls_is_not_the_clients_own() {
    let mine = own(vec![call(Some("1"), "a")]);
    let mut items = [call(Some("1"), "b"), result(Some("1"), "b", "B")];
    let mut conversation = Conversation::default();
    conversation.restart(&mut items, std::slice::from_ref(&mine)).unwrap();
    let part = conversation.transcript.get(0).unwrap().message().parts()[0].clone();
    assert_eq!(part.opaque(), None);
}

#[test]
fn instructions_and_what_tools_show_are_said_again() {
    let mut shown = result(Some("1"), "a", "");
    if let ItemContent::Result { media, .. } = &mut shown.content {
        let source = MediaSource::Base64("AAAA".into());
        media.push(Media { mime: "image/png".into(), source, name: None });
    }
    let mut items = [Item::text("system", "i"), call(Some("1"), "a"), shown];
    let mut conversation = Conversation::default();
    conversation.restart(&mut items, &[]).unwrap();
    assert_eq!(conversation.transcript.get(0).unwrap().message().role(), Role::System);
    let TurnBody::ToolExchange(exchange) = conversation.transcript.get(1).unwrap().body() else {
        panic!("an exchange");
    };
    assert_eq!(*exchange.results()[0].content, [Part::image("image/png", "AAAA")]);
}
