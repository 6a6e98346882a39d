//! Replays recorded conversations against a server that responds as recorded.

use std::{collections::BTreeSet, sync::Arc};

use loopwright_core::{
    ChatModel as _, Delta, InferCx, ModelCache, ModelError,
    messages::{InferenceRequest, InferenceResponse, Usage},
};
use loopwright_models::{RemoteModel, RetryPolicy, Secret};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    canon::{Canon, Item, ItemContent, canon},
    compare::{Severity, compare_canons, provider_blocks},
    meaning,
    read::{Fragments, Outcome, Subject},
    request::request,
    rules::request_problems,
    scenario::Scenario,
    server::{Delivery, ReplayServer},
    turns::{Conversation, Own, answer_items, number_ids, number_result, say_the_same},
};
use crate::clock::FrozenClock;

/// What playing a conversation showed.
#[derive(Debug, Default)]
pub(crate) struct PlaybackResult {
    /// What went wrong, and in which exchange.
    pub(crate) problems: Vec<(usize, String)>,
    /// What is worth knowing: differences that do not matter, prefixes that broke for a reason.
    pub(crate) notes: Vec<(usize, String)>,
    /// How many requests were compared.
    pub(crate) requests: usize,
}

/// A request of the conversation: what is sent and what it should say.
pub(crate) struct Planned {
    pub(crate) request: InferenceRequest,
    want: Canon,
}

/// Plays the conversation of a scene from its first request to the last one that was recorded.
pub(crate) async fn play(scene: &Scenario, subjects: &[Subject<'_>]) -> PlaybackResult {
    let mut played = PlaybackResult::default();
    let server = match ReplayServer::start(Arc::clone(&scene.recording), Delivery::default()).await
    {
        Ok(server) => server,
        Err(error) => {
            played.problems.push((0, format!("the server does not start: {error}")));
            return played;
        }
    };
    let mut plan = Plan::default();
    let (mut sent, mut usage) = (Vec::new(), Usage::default());
    for subject in subjects {
        let planned = match plan.next(subject) {
            Ok(planned) => planned,
            Err(reason) => {
                played.notes.push((subject.index, format!("not played from here: {reason}")));
                break;
            }
        };
        let outcome = ask(subject, server.url(), &planned.request, &Asking::once()).await;
        let problems = meaning::problems(&outcome, subject.expected);
        let problems = problems.into_iter().map(|problem| (subject.index, problem));
        played.problems.extend(problems);
        usage += match &outcome.answer {
            Ok(response) => response.usage,
            Err(error) => error.usage,
        };
        sent.push(planned);
        if let Err(reason) = plan.take(subject, outcome.answer) {
            played.problems.push((subject.index, reason));
            break;
        }
    }
    played.check_usage(&subjects[..sent.len()], usage);
    played.check_requests(subjects, &sent, &server);
    played
}

impl PlaybackResult {
    fn check_usage(&mut self, subjects: &[Subject<'_>], usage: Usage) {
        let expected: Usage = subjects.iter().map(|subject| subject.expected.usage()).sum();
        if let Some(last) = subjects.last()
            && expected != usage
        {
            let problem = format!("usage of all: wanted {expected:?}, got {usage:?}");
            self.problems.push((last.index, problem));
        }
    }

    fn check_requests(
        &mut self,
        subjects: &[Subject<'_>],
        sent: &[Planned],
        server: &ReplayServer,
    ) {
        let received = server.received();
        self.requests = received.len();
        if received.len() != sent.len() {
            let problem = format!("{} requests were sent for {}", received.len(), sent.len());
            self.problems.push((0, problem));
            return;
        }
        let mut given = BTreeSet::new();
        for ((subject, planned), received) in subjects.iter().zip(sent).zip(&received) {
            self.check_path(subject, &received.path);
            self.check_request(subject, planned, &received.json(), &given);
            let calls = subject.expected.tool_calls.iter();
            given.extend(calls.filter_map(|call| call.id.clone()));
        }
        for (index, pair) in received.windows(2).enumerate() {
            let (before, after) = (&subjects[index], &subjects[index + 1]);
            if before.origin() != after.origin() {
                continue;
            }
            let (first, second) = (&sent[index].request, &sent[index + 1].request);
            self.check_prefix(after.index, [first, second], [&pair[0].body, &pair[1].body]);
        }
    }

    fn check_path(&mut self, subject: &Subject<'_>, path: &str) {
        let last = |path: &str| {
            let path = path.split('?').next().unwrap_or_default();
            path.rsplit('/').next().unwrap_or_default().replace("%3A", ":")
        };
        if let Some(recorded) = &subject.exchange.request.path
            && last(recorded) != last(path)
        {
            self.problems.push((subject.index, format!("asked at {path}, recorded {recorded}")));
        }
    }

    fn check_request(
        &mut self,
        subject: &Subject<'_>,
        planned: &Planned,
        received: &Value,
        given: &BTreeSet<String>,
    ) {
        let Some(mut got) = canon(subject.wire.name(), received) else { return };
        number_ids(&mut got.items, given);
        let problems = request_problems(subject.wire.name(), received);
        self.problems
            .extend(problems.into_iter().map(|it| (subject.index, format!("request: {it}"))));
        self.check_provider_blocks(subject, planned, &got);
        for difference in compare_canons(subject.wire.name(), &planned.want, &got, received) {
            let (index, text) = (subject.index, difference.to_string());
            match difference.severity {
                Severity::Hard => self.problems.push((index, format!("request: {text}"))),
                Severity::Soft => self.notes.push((index, text)),
            }
        }
    }

    /// Requires everything that the provider itself once said, and only it understands, to be sent back.
    fn check_provider_blocks(&mut self, subject: &Subject<'_>, planned: &Planned, got: &Canon) {
        let sent = provider_blocks(got);
        let before = &subject.scene.recording.exchanges[..subject.index];
        let was_said = |id: &str| {
            let holds = |body: &[u8]| body.windows(id.len()).any(|it| it == id.as_bytes());
            before.iter().any(|exchange| holds(&exchange.response.body))
        };
        for (kind, id) in provider_blocks(&planned.want) {
            if was_said(&id) && !sent.contains(&(kind.clone(), id.clone())) {
                let problem = format!("request: the block {kind} {id} was not sent back");
                self.problems.push((subject.index, problem));
            }
        }
    }

    /// Requires the first body to be the beginning of the second, but for its closing brackets, where
    /// nothing says why not.
    fn check_prefix(&mut self, index: usize, requests: [&InferenceRequest; 2], bodies: [&[u8]; 2]) {
        if let Some(cause) = requests[0].prefix_broken_by(requests[1]) {
            self.notes.push((index, format!("the prefix was broken by the client: {cause:?}")));
            return;
        }
        let settings = |it: &InferenceRequest| {
            (it.options.clone(), it.tool_choice.clone(), it.response_format.clone())
        };
        if settings(requests[0]) != settings(requests[1]) {
            self.notes.push((index, "the client changed its settings".to_owned()));
            return;
        }
        let Some(prefix) = conversation_of(bodies[0]) else {
            self.problems.push((index - 1, "the conversation is not last in the body".to_owned()));
            return;
        };
        if !bodies[1].starts_with(prefix) {
            let at = prefix.iter().zip(bodies[1]).take_while(|(one, other)| one == other).count();
            let near = |body: &[u8]| {
                let around = at.saturating_sub(30)..(at + 60).min(body.len());
                String::from_utf8_lossy(body.get(around).unwrap_or_default()).into_owned()
            };
            let (was, is) = (near(prefix), near(bodies[1]));
            self.problems.push((index, format!("the prefix broke at {at}: {was:?}, now {is:?}")));
        }
    }
}

/// Gives a result of the script the pictures and documents that it has in the request: scripts have words
/// only.
fn take_media(item: &mut Item, recorded: &[Item]) {
    let key = |item: &Item| match &item.content {
        ItemContent::Result { id, name, .. } => Some((id.clone(), name.clone())),
        _ => None,
    };
    let same = recorded.iter().rfind(|it| key(it).is_some() && key(it) == key(item));
    let Some(ItemContent::Result { media: shown, .. }) = same.map(|it| &it.content) else { return };
    if let ItemContent::Result { media, .. } = &mut item.content {
        media.clone_from(shown);
    }
}

/// Returns a body up to the end of its conversation: it is the last field, but for a container.
fn conversation_of(body: &[u8]) -> Option<&[u8]> {
    const CONTAINER: &[u8] = b"],\"container\":";
    let container = || body.windows(CONTAINER.len()).rposition(|it| it == CONTAINER);
    body.strip_suffix(b"]}").or_else(|| Some(&body[..container()?]))
}

/// How a model is asked.
pub(crate) struct Asking {
    pub(crate) retry: RetryPolicy,
    pub(crate) clock: FrozenClock,
}

impl Asking {
    /// Sends everything once.
    pub(crate) fn once() -> Self {
        Self { retry: RetryPolicy::none(), clock: FrozenClock::new() }
    }

    /// Sends again what failed, without really waiting.
    pub(crate) fn again() -> Self {
        Self { retry: RetryPolicy::default(), clock: FrozenClock::new() }
    }
}

/// Asks the model of an exchange at another address.
pub(crate) async fn ask(
    subject: &Subject<'_>,
    url: &str,
    request: &InferenceRequest,
    asking: &Asking,
) -> Outcome {
    let mut fragments = Fragments::default();
    let answer = match model(subject, url, asking.retry) {
        Ok(model) => {
            let mut take = |delta: Delta<'_>| fragments.take(delta);
            let cx = InferCx {
                deltas: &mut take,
                cancel: &CancellationToken::new(),
                deadline: None,
                clock: &asking.clock,
                memory: &mut ModelCache::default(),
            };
            model.infer(request, cx).await
        }
        Err(error) => Err(error),
    };
    Outcome { answer, fragments }
}

fn model(subject: &Subject<'_>, url: &str, retry: RetryPolicy) -> Result<RemoteModel, ModelError> {
    let origin = subject.origin();
    let (provider, model) = (Arc::clone(&origin.provider), Arc::clone(&origin.model));
    let model = RemoteModel::new(subject.wire, provider, &format!("{url}/v1"), model)?;
    Ok(model.with_key(Secret::new("not-a-key"))?.with_retry(retry))
}

/// The conversation as far as it has come, and what recorded requests said.
#[derive(Default)]
pub(crate) struct Plan {
    conversation: Conversation,
    /// What each request said, earlier requests that it refers to included.
    said: Vec<Vec<Item>>,
    /// What each answer said; `None` where it was an error.
    answered: Vec<Option<Own>>,
    given: BTreeSet<String>,
}

impl Plan {
    /// Returns the next request.
    pub(crate) fn next(&mut self, subject: &Subject<'_>) -> Result<Planned, String> {
        let body = subject.exchange.request.body.as_ref().filter(|body| body.is_object());
        let body = body.ok_or("the request was not recorded")?;
        let script = subject.scene.expectation.script.as_ref().ok_or("there is no script")?;
        let first = script.first.as_ref().ok_or("the script has no first request")?;
        let step = script.exchanges.get(subject.index).and_then(Option::as_ref);
        let step = step.ok_or("the script ends")?;
        let mut want = canon(subject.wire.name(), body).ok_or("the wire is unknown")?;
        want.items = self.expand(subject, body, want.items)?;
        let made_up = number_ids(&mut want.items, &self.given);
        let mut new: Vec<Item> = step.new_items.iter().map(Item::of_script).collect();
        for item in &mut new {
            number_result(item, &made_up);
            take_media(item, &want.items);
        }
        self.go_on(subject, &mut want, &new)?;
        self.said.push(want.items.clone());
        let turns = self.conversation.transcript.clone();
        let request = request(subject, first, step, turns);
        Ok(Planned { request, want })
    }

    /// Puts before a request what the provider remembers of earlier ones by the client's wish: this
    /// client always says everything.
    fn expand(
        &self,
        subject: &Subject<'_>,
        body: &Value,
        items: Vec<Item>,
    ) -> Result<Vec<Item>, String> {
        let Some(id) = body["previous_response_id"].as_str() else { return Ok(items) };
        let exchanges = &subject.scene.recording.exchanges[..subject.index];
        let names = |body: &[u8]| body.windows(id.len()).any(|window| window == id.as_bytes());
        let before = exchanges.iter().rposition(|it| names(&it.response.body));
        let before = before.ok_or("it refers to an answer that was not recorded")?;
        let mut all = self.said[before].clone();
        let answer = self.answered[before].iter().flat_map(|own| own.items.clone());
        all.extend(answer);
        all.extend(items);
        Ok(all)
    }

    /// Brings the conversation to where the request is, by going on where it does, and by saying all
    /// of it anew where the recorded client rewrote it.
    fn go_on(
        &mut self,
        subject: &Subject<'_>,
        want: &mut Canon,
        new: &[Item],
    ) -> Result<(), String> {
        let api = subject.wire.name();
        let unsayable = |reason| format!("its turns cannot be told: {reason:?}");
        match (self.said.last(), self.answered.last()) {
            // The same again, after an error.
            (Some(said), Some(None)) if say_the_same(api, said, &want.items) => return Ok(()),
            (Some(said), Some(Some(own))) => {
                let mut all = [said.as_slice(), &own.items, new].concat();
                number_ids(&mut all, &self.given);
                if say_the_same(api, &all, &want.items) {
                    return self.conversation.go_on(own, new).map_err(unsayable);
                }
            }
            _ => {}
        }
        let own: Vec<Own> = self.answered.iter().flatten().cloned().collect();
        self.conversation.restart(&mut want.items, &own).map_err(unsayable)
    }

    /// Takes the answer to the request.
    pub(crate) fn take(
        &mut self,
        subject: &Subject<'_>,
        answer: Result<InferenceResponse, ModelError>,
    ) -> Result<(), String> {
        let own = match answer {
            Ok(response) => {
                Some(Own { items: answer_items(subject.expected), message: response.message })
            }
            Err(_) if subject.expected.error.is_some() => None,
            Err(error) => return Err(format!("the conversation ends here: {error}")),
        };
        self.answered.push(own);
        let calls = subject.expected.tool_calls.iter();
        self.given.extend(calls.filter_map(|call| call.id.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
