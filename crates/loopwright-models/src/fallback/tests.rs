use std::{sync::Mutex, time::Duration};

use futures_util::FutureExt as _;
use loopwright_core::{Delta, ModelCache, SystemClock, messages::Message};

use tokio_util::sync::CancellationToken;

use super::*;

/// What a model does when it is asked.
#[derive(Clone)]
enum Act {
    Answer,
    Fail(ModelErrorKind),
    /// Says something, and then fails.
    Begin(ModelErrorKind),
}

/// A model that does always the same and notes what it is asked.
struct Scripted {
    act: Act,
    name: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl ChatModel for Scripted {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let model = request.model.as_deref().unwrap_or("-");
        self.asked.lock().unwrap().push(format!("{}:{model}", self.name));
        let usage = Usage::new(10, 1);
        let error = |kind| {
            let cost = Some(Cost::from_picodollars(5));
            Err(ModelError {
                usage,
                cost,
                ..ModelError::new(kind, format!("{} failed", self.name))
            })
        };
        match self.act {
            Act::Answer => {
                let response = InferenceResponse::new(Message::assistant(self.name), usage);
                Ok(InferenceResponse { cost: Some(Cost::from_picodollars(7)), ..response })
            }
            Act::Fail(kind) => error(kind),
            Act::Begin(kind) => {
                cx.deltas.push(Delta::Text("a"));
                error(kind)
            }
        }
    }

    fn model(&self) -> Option<Arc<str>> {
        Some(self.name.into())
    }
}

struct Asked {
    answer: Result<InferenceResponse, ModelError>,
    asked: Vec<String>,
}

/// Asks models that do these things and take so many tokens.
fn ask(models: &[(Act, Option<u64>)]) -> Asked {
    ask_before(None, models)
}

fn ask_before(deadline: Option<Duration>, models: &[(Act, Option<u64>)]) -> Asked {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut fallback = FallbackModel::default();
    for ((act, window), name) in models.iter().zip(["a", "b", "c"]) {
        let asked = Arc::clone(&log);
        let model: Arc<dyn ChatModel> = Arc::new(Scripted { act: act.clone(), name, asked });
        fallback = match fallback.places.len() {
            0 => FallbackModel::new(name, model),
            _ => fallback.with_model(name, model),
        };
        fallback = window.map_or(fallback.clone(), |it| fallback.with_context_window(it));
    }
    let cx = InferCx {
        deltas: &mut loopwright_core::DiscardDeltas,
        cancel: &CancellationToken::new(),
        deadline,
        clock: &SystemClock::default(),
        memory: &mut ModelCache::default(),
    };
    let request = InferenceRequest { model: Some("m".into()), ..InferenceRequest::default() };
    let answer = fallback.infer(&request, cx).now_or_never().unwrap();
    let asked = log.lock().unwrap().clone();
    Asked { answer, asked }
}

fn fail(kind: ModelErrorKind) -> (Act, Option<u64>) {
    (Act::Fail(kind), None)
}

const ANSWER: (Act, Option<u64>) = (Act::Answer, None);

#[test]
fn the_first_that_answers_is_the_last_that_is_asked() {
    let Asked { answer, asked } = ask(&[ANSWER, ANSWER]);
    let response = answer.unwrap();
    assert_eq!((response.message.text().as_str(), response.usage), ("a", Usage::new(10, 1)));
    assert_eq!(asked, ["a:m"]);
}

#[test]
fn the_next_is_asked_by_its_own_name_when_another_may_do_better() {
    use ModelErrorKind::{
        Auth, Network, NoModel, NotFound, Protocol, Quota, RateLimited, Timeout, Unavailable,
    };
    for kind in
        [Auth, Network, NoModel, NotFound, Protocol, Quota, RateLimited, Timeout, Unavailable]
    {
        let Asked { answer, asked } = ask(&[fail(kind), ANSWER]);
        assert_eq!(answer.unwrap().message.text(), "b", "{kind:?}");
        assert_eq!(asked, ["a:m", "b:b"], "{kind:?}");
    }
}

#[test]
fn usage_of_failed_attempts_is_part_of_the_answer() {
    let busy = fail(ModelErrorKind::RateLimited);
    let response = ask(&[busy.clone(), busy, ANSWER]).answer.unwrap();
    assert_eq!(response.usage, Usage::new(30, 3));
    assert_eq!(response.cost, Some(Cost::from_picodollars(17)));
}

#[test]
fn an_invalid_request_does_not_go_to_the_fallback() {
    for kind in [ModelErrorKind::InvalidRequest, ModelErrorKind::Cancelled] {
        let Asked { answer, asked } = ask(&[fail(kind), ANSWER]);
        let error = answer.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (kind, "a failed"));
        assert_eq!(asked, ["a:m"]);
    }
}

#[test]
fn a_fallback_does_not_continue_a_started_answer() {
    let Asked { answer, asked } = ask(&[(Act::Begin(ModelErrorKind::Network), None), ANSWER]);
    assert_eq!((answer.unwrap_err().kind, asked.len()), (ModelErrorKind::Network, 1));
}

#[test]
fn a_request_that_is_too_long_goes_to_who_takes_more() {
    let too_long = |window| (Act::Fail(ModelErrorKind::ContextLength), window);
    let answer = |window| (Act::Answer, window);
    let asked = |models: &[(Act, Option<u64>)]| ask(models).asked.join(" ");
    assert_eq!(asked(&[too_long(Some(10)), answer(Some(20))]), "a:m b:b");
    assert_eq!(asked(&[too_long(Some(10)), answer(Some(10)), answer(Some(11))]), "a:m c:c");
    assert_eq!(asked(&[too_long(Some(10)), answer(None), answer(Some(5))]), "a:m");
    assert_eq!(asked(&[too_long(None), answer(Some(20))]), "a:m");
    assert_eq!(asked(&[too_long(Some(9)), too_long(Some(10)), answer(Some(10))]), "a:m b:b");
}

#[test]
fn when_all_fail_the_error_says_how_each_did() {
    let models = [fail(ModelErrorKind::RateLimited), fail(ModelErrorKind::Auth)];
    let error = ask(&models).answer.unwrap_err();
    assert_eq!(error.message, "no model answered: a: a failed; b: b failed");
    assert_eq!((error.kind, error.usage), (ModelErrorKind::Auth, Usage::new(20, 2)));
    assert_eq!(error.cost, Some(Cost::from_picodollars(10)));
}

#[test]
fn no_model_is_called_after_the_deadline() {
    let late = Some(Duration::ZERO);
    assert_eq!(ask_before(late, &[fail(ModelErrorKind::Timeout), ANSWER]).asked, ["a:m"]);
}

#[test]
fn options_of_a_model_replace_those_of_the_request_where_they_are_set() {
    let options = InferenceOptions::default().with_max_output_tokens(5).with_extra("x", 1.into());
    let candidate = Candidate { options, model: Some("b".into()), ..Candidate::default() };
    let options = InferenceOptions::default()
        .with_max_output_tokens(9)
        .with_temperature(0.5)
        .with_extra("y", 2.into());
    let request = candidate.request(&InferenceRequest { options, ..InferenceRequest::default() });
    let expect = InferenceOptions::default()
        .with_max_output_tokens(5)
        .with_temperature(0.5)
        .with_extra("x", 1.into())
        .with_extra("y", 2.into());
    let request = request.unwrap();
    assert_eq!((request.model.as_deref(), request.options), (Some("b"), expect));
}

#[test]
fn the_error_of_a_fallback_gives_the_reason_for_each_model() {
    let refused = |name: &str, message: &str| {
        let candidate = Candidate { name: name.to_owned(), ..Candidate::default() };
        (candidate, Err(ModelError::new(ModelErrorKind::Auth, message)))
    };
    let (a, no_a) = refused("a", "no key");
    let (b, no_b) = refused("b", "no key either");
    let error =
        FallbackModel::default().and_maybe(a, no_a).and_maybe(b, no_b).checked().unwrap_err();
    assert_eq!(error.message, "no model answered: a: no key; b: no key either");
    assert_eq!(error.kind, ModelErrorKind::Auth);
}
