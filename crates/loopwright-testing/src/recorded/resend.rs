//! Checks of retries after failures.

use std::{sync::Arc, time::Duration};

use loopwright_core::{Clock as _, ModelErrorKind, messages::InferenceRequest};

use super::{
    check::Depth,
    meaning,
    play::{Asking, Plan, ask},
    read::{Outcome, Subject},
    request::greeting,
    server::{Delivery, Fault, Received, ReplayServer},
    wholeness::{content, places},
};

/// What a model was asked, and what came of it.
struct Asked {
    outcome: Outcome,
    received: Vec<Received>,
    waited: Duration,
}

async fn asked(subject: &Subject<'_>, delivery: Delivery) -> Result<Asked, String> {
    let recording = Arc::new(subject.scene.recording.only(subject.index));
    let server = ReplayServer::start(recording, delivery).await;
    let server = server.map_err(|error| format!("the server does not start: {error}"))?;
    let asking = Asking::again();
    let outcome = ask(subject, server.url(), &question(subject), &asking).await;
    Ok(Asked { outcome, received: server.received(), waited: asking.clock.monotonic() })
}

/// Returns the first request of the conversation, where it is known.
fn question(subject: &Subject<'_>) -> InferenceRequest {
    let planned = (subject.index == 0).then(|| Plan::default().next(subject).ok());
    planned.flatten().map_or_else(|| greeting(subject), |planned| planned.request)
}

/// Asks for an answer that is a success, with failures before it.
pub(crate) async fn after_failures(subject: &Subject<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for check in [passing(subject).await, waiting(subject).await] {
        match check {
            Ok(found) => problems.extend(found),
            Err(problem) => problems.push(problem),
        }
    }
    for status in [400, 401, 404] {
        match lasting(subject, status).await {
            Ok(found) => problems.extend(found),
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

/// After 429 and 500 the third attempt counts, and says the same.
async fn passing(subject: &Subject<'_>) -> Result<Vec<String>, String> {
    let delivery = Delivery::default().with_faults([Fault::Status(429), Fault::Status(500)]);
    let Asked { outcome, received, .. } = asked(subject, delivery).await?;
    let problems = meaning::problems(&outcome, subject.expected).into_iter();
    let mut problems: Vec<String> =
        problems.map(|problem| format!("after 429 and 500: {problem}")).collect();
    problems.extend(attempt_problems(&received));
    Ok(problems)
}

/// Requires three attempts with the very same bytes.
fn attempt_problems(received: &[Received]) -> Vec<String> {
    let mut problems = Vec::new();
    if received.len() != 3 {
        problems.push(format!("after 429 and 500: {} requests, not 3", received.len()));
    }
    if received.windows(2).any(|pair| pair[0].body != pair[1].body) {
        problems.push("after 429 and 500: the requests differ".to_owned());
    }
    problems
}

/// The time that the provider asks to wait is waited.
async fn waiting(subject: &Subject<'_>) -> Result<Vec<String>, String> {
    const ASKED: Duration = Duration::from_secs(7);
    let delivery = Delivery::default().with_faults([Fault::Status(429)]);
    let delivery = delivery.with_retry_after(ASKED.as_secs().to_string());
    let Asked { outcome, received, waited } = asked(subject, delivery).await?;
    let problems = meaning::problems(&outcome, subject.expected).into_iter();
    let mut problems: Vec<String> =
        problems.map(|problem| format!("after a wait: {problem}")).collect();
    if (received.len(), waited) != (2, ASKED) {
        let count = received.len();
        problems.push(format!("asked to wait 7 s: {count} requests, {waited:?} waited"));
    }
    Ok(problems)
}

/// After a failure that does not pass nothing is asked again.
async fn lasting(subject: &Subject<'_>, status: u16) -> Result<Vec<String>, String> {
    let delivery = Delivery::default().with_faults([Fault::Status(status)]);
    let Asked { outcome, received, .. } = asked(subject, delivery).await?;
    let kind = match status {
        401 => ModelErrorKind::Auth,
        404 => ModelErrorKind::NotFound,
        _ => ModelErrorKind::InvalidRequest,
    };
    let mut problems = Vec::new();
    match outcome.answer {
        Ok(_) => problems.push(format!("{status} did not lead to an error")),
        Err(error) if (error.status, error.kind) != (Some(status), kind) => {
            problems.push(format!("{status} led to {:?} with {:?}", error.kind, error.status));
        }
        Err(_) => {}
    }
    if received.len() != 1 {
        problems.push(format!("after {status}: {} requests, not 1", received.len()));
    }
    Ok(problems)
}

/// Asks for an answer that is an error by its status: only where it may pass is it asked again.
pub(crate) async fn recorded_failure(subject: &Subject<'_>) -> Vec<String> {
    let Asked { received, .. } = match asked(subject, Delivery::default()).await {
        Ok(asked) => asked,
        Err(problem) => return vec![problem],
    };
    let status = subject.response().status;
    let passes = matches!(status, 408 | 409 | 429 | 500 | 502 | 503 | 504 | 529);
    if received.len() != 1 && !passes {
        return vec![format!("{} requests were sent after {status}", received.len())];
    }
    Vec::new()
}

/// Closes the connection within the answer, once at each place, at some places and at those where
/// only the transport can tell: what comes of it is an error, or by another attempt the whole.
pub(crate) async fn broken(
    subject: &Subject<'_>,
    ambiguous: &[usize],
    depth: Depth,
) -> Vec<String> {
    let Ok(whole) = subject.read([subject.body()]).answer else { return Vec::new() };
    let all = places(subject, depth);
    let most = if depth == Depth::Quick { 3 } else { 8 };
    let spread = all.iter().step_by(all.len().div_ceil(most).max(1)).chain(all.last());
    let mut places: Vec<usize> = spread.chain(ambiguous.iter().take(most)).copied().collect();
    places.sort_unstable();
    places.dedup();
    let mut problems = Vec::new();
    for at in places {
        let delivery = Delivery::default().with_faults([Fault::Cut(at)]);
        match asked(subject, delivery).await {
            Err(problem) => problems.push(problem),
            Ok(Asked { outcome: Outcome { answer: Ok(part), .. }, .. })
                if content(&part) != content(&whole) =>
            {
                let part = content(&part);
                problems.push(format!("the connection broke at {at}, and {part} was an answer"));
            }
            Ok(_) => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests;
