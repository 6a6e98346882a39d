//! Polling of responses that a provider generates in the background.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use loopwright_core::{Clock, ModelError, messages::InferenceResponse};
use url::Url;

use super::{ERROR_BODY, RemoteModel, extend};
use crate::{
    content_probe::ContentProbe,
    decoder::{Concluded, ResponseDecoder},
    error::{ErrorContext, with_usage},
    http::HttpResponse,
    retry::Attempts,
};

/// How long to wait before a job is asked for the first time; the wait doubles every time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How long to wait until the provider has taken note that a job is not needed any more.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// The job that a request has begun, as long as the provider works on it.
#[derive(Debug, Default)]
pub(super) struct JobSlot(Mutex<Option<Url>>);

impl JobSlot {
    fn set(&self, url: Option<Url>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = url;
    }

    fn take(&self) -> Option<Url> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl RemoteModel {
    /// Reads an answer. If the provider has only accepted a job, its answer is asked for until it is there.
    pub(super) async fn receive(
        &self,
        answer: HttpResponse,
        (url, headers): (Url, HeaderMap),
        decoder: impl Fn(ErrorContext) -> ResponseDecoder,
        deltas: &mut ContentProbe<'_>,
        (clock, job): (&dyn Clock, &JobSlot),
    ) -> Result<InferenceResponse, ModelError> {
        let mut concluded = self.read(answer, &decoder, deltas, clock).await?;
        let mut wait = FIRST_WAIT;
        loop {
            let id = match concluded {
                Concluded::Response(response) => return Ok(*response),
                Concluded::Job(id) => id,
            };
            let mut url = url.clone();
            extend(&mut url, &[&id]);
            job.set(Some(url.clone()));
            clock.sleep(wait).await;
            wait = (wait * 2).min(MAX_WAIT);
            // Boxed, like reading its answer, because few providers work on jobs, and every call has room for it.
            let polled = match Box::pin(self.poll(&url, &headers, clock)).await {
                Ok(polled) => polled,
                Err(error) => {
                    // Another job would be paid for as well.
                    deltas.is_final = true;
                    return Err(error);
                }
            };
            let read = Box::pin(self.read(polled, &decoder, deltas, clock)).await;
            if !matches!(read, Ok(Concluded::Job(_))) {
                job.set(None);
            }
            concluded = read?;
        }
    }

    /// Asks for a job. What may succeed later is tried again: it neither repeats nor costs anything.
    async fn poll(
        &self,
        url: &Url,
        headers: &HeaderMap,
        clock: &dyn Clock,
    ) -> Result<HttpResponse, ModelError> {
        let (policy, request) = (&self.retry, url.as_str().as_bytes());
        let mut attempts = Attempts { policy, request, clock, deadline: None, made: 0 };
        loop {
            let mut headers = headers.clone();
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            if let Some(signer) = &self.signer {
                signer.sign(url, &mut headers, &[], clock.now(), &self.context)?;
            }
            let error = match self.http.get(url.clone(), headers).await {
                Ok(answer) if answer.is_success() => return Ok(answer),
                Ok(answer) => {
                    let context = self.context_of(&answer, clock);
                    self.wire.protocol().read_error(&context, &answer.body(ERROR_BODY).await)
                }
                Err(error) => error.into_model_error(&self.context),
            };
            attempts.wait(error).await?;
        }
    }

    async fn read(
        &self,
        mut answer: HttpResponse,
        decoder: impl Fn(ErrorContext) -> ResponseDecoder,
        deltas: &mut ContentProbe<'_>,
        clock: &dyn Clock,
    ) -> Result<Concluded, ModelError> {
        let context = self.context_of(&answer, clock);
        if !answer.is_success() {
            return Err(self.wire.protocol().read_error(&context, &answer.body(ERROR_BODY).await));
        }
        let mut decoder = decoder(context.clone());
        while !decoder.is_done() {
            let error = match answer.chunk().await {
                Ok(Some(chunk)) => {
                    decoder.push(&chunk, deltas)?;
                    continue;
                }
                Ok(None) => {
                    let job = decoder.job();
                    let concluded = decoder.conclude(deltas);
                    return match (concluded, job) {
                        // The stream of a job broke off: the job goes on.
                        (Err(_), Some(job)) if !deltas.has_content => Ok(Concluded::Job(job)),
                        (concluded, _) => concluded,
                    };
                }
                Err(error) => error,
            };
            return match decoder.job() {
                Some(job) if !deltas.has_content => Ok(Concluded::Job(job)),
                _ => Err(with_usage(error.into_model_error(&context), decoder.usage())),
            };
        }
        let concluded = decoder.conclude(deltas)?;
        answer.drain().await;
        Ok(concluded)
    }

    fn context_of(&self, answer: &HttpResponse, clock: &dyn Clock) -> ErrorContext {
        let head = |name: &str| answer.header(name);
        self.context.clone().with_head(answer.status(), head, clock.now())
    }

    /// Tells the provider that the job, if there is one, is not needed any more: it would cost as much.
    pub(super) async fn give_up(&self, job: &JobSlot, headers: Result<HeaderMap, ModelError>) {
        let (Some(mut url), Ok(headers)) = (job.take(), headers) else { return };
        extend(&mut url, &["cancel"]);
        let cancelled = self.http.post(url, headers, Bytes::new());
        if let Ok(Ok(answer)) = tokio::time::timeout(CANCEL_WAIT, cancelled).await {
            drop(answer);
        }
    }
}
