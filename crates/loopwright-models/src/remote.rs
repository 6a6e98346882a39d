//! Models behind providers' HTTP APIs.

use std::{
    collections::BTreeMap,
    fmt,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use loopwright_core::{
    ChatModel, Clock, InferCx, MediaKind, ModelError, ModelErrorKind,
    messages::{Cost, InferenceRequest, InferenceResponse, ModelOrigin},
};
use url::Url;

use crate::{
    content_probe::{BYTES_PER_TOKEN, ContentProbe},
    cost_tracker::CostTracker,
    decoder::ResponseDecoder,
    encoder::RequestEncoder,
    error::ErrorContext,
    http::{Http, HttpError},
    least::least_cost,
    model_info::{ModelCapability, ModelCatalog},
    prefix_reuse::EncodedRequest,
    protocols::Wire,
    quirks::Quirks,
    rate::{RateLimit, RateLimited, RateLimiter, WaitLimits},
    retry::{Attempts, RetryPolicy},
    secret::{Secret, VarSource},
    signer::Signer,
    unseen,
    wire::{WireApi, WireProtocol},
};

mod job;
#[cfg(test)]
mod sizes;

use job::JobSlot;

/// The most bytes of an error that are read.
const ERROR_BODY: usize = 64 << 10;

/// A model behind a provider's HTTP API.
#[derive(Clone)]
pub struct RemoteModel {
    wire: Wire,
    origin: Arc<ModelOrigin>,
    base_url: Url,
    headers: HeaderMap,
    quirks: Quirks,
    context: ErrorContext,
    signer: Option<Arc<dyn Signer>>,
    http: Http,
    retry: RetryPolicy,
    limiter: Arc<RateLimiter>,
    catalog: Arc<ModelCatalog>,
    /// Where the key came from.
    key_variable: Option<Arc<str>>,
}

impl RemoteModel {
    /// Creates a model of the provider at this base URL, such as `https://api.openai.com/v1`.
    ///
    /// # Errors
    ///
    /// Returns an error if the base URL is invalid.
    pub fn new(
        wire: WireApi,
        provider: impl Into<Arc<str>>,
        base_url: &str,
        model: impl Into<Arc<str>>,
    ) -> Result<Self, ModelError> {
        Self::of_wire(Wire::Builtin(wire), provider.into(), base_url, model.into())
    }

    /// Creates a model of the provider at a base URL, on a custom wire.
    ///
    /// [`Providers::with_wire`](crate::Providers::with_wire) does the same for all models of a provider.
    ///
    /// # Errors
    ///
    /// Returns an error if the base URL is invalid, or a header of the wire cannot be sent.
    pub fn from_protocol(
        protocol: Arc<dyn WireProtocol>,
        provider: impl Into<Arc<str>>,
        base_url: &str,
        model: impl Into<Arc<str>>,
    ) -> Result<Self, ModelError> {
        Self::of_wire(Wire::Custom(protocol), provider.into(), base_url, model.into())
    }

    pub(crate) fn of_wire(
        wire: Wire,
        provider: Arc<str>,
        base_url: &str,
        model: Arc<str>,
    ) -> Result<Self, ModelError> {
        let context = ErrorContext::new(Arc::clone(&provider));
        let base_url = address(base_url, &context)?;
        let origin = Arc::new(ModelOrigin { wire: wire.protocol().name().into(), provider, model });
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in wire.protocol().headers() {
            let (name, value) = header(name, value, &context)?;
            headers.insert(name, value);
        }
        let (quirks, http, retry, limiter, catalog, key_variable) = Default::default();
        Ok(Self {
            wire,
            origin,
            base_url,
            headers,
            quirks,
            context,
            signer: None,
            http,
            retry,
            limiter,
            catalog,
            key_variable,
        })
    }

    /// Sets the key, for the header that the wire uses for keys.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is not valid in a header.
    pub fn with_key(self, key: Secret) -> Result<Self, ModelError> {
        match self.wire.protocol().key_header() {
            Some(name) => self.with_header(name, key),
            None => self.with_bearer(key),
        }
    }

    /// Sets the key as a bearer token, regardless of the wire.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is not valid in a header.
    pub fn with_bearer(mut self, key: Secret) -> Result<Self, ModelError> {
        let header = authorization(&key, &self.context)?;
        self.headers.insert(AUTHORIZATION, header);
        self.context = self.context.with_secret(key);
        Ok(self)
    }

    /// Signs requests with the keys from these variables, if the wire uses signatures and the keys
    /// are set.
    #[must_use]
    pub fn with_signature(mut self, variables: &dyn VarSource) -> Self {
        self.signer = self.wire.signer(variables, &self.base_url);
        let secrets = self.signer.iter().flat_map(|signer| signer.secrets());
        self.context = secrets.fold(self.context, ErrorContext::with_secret);
        self
    }

    /// Adds a header whose value is secret.
    ///
    /// # Errors
    ///
    /// Returns an error if the name or the value is not valid in a header.
    pub fn with_header(mut self, name: &str, value: Secret) -> Result<Self, ModelError> {
        let (name, mut header) = header(name, value.expose(), &self.context)?;
        header.set_sensitive(true);
        self.headers.insert(name, header);
        self.context = self.context.with_secret(value);
        Ok(self)
    }

    /// Adds a header whose value is not secret.
    ///
    /// # Errors
    ///
    /// Returns an error if the name or the value is not valid in a header.
    pub fn with_plain_header(mut self, name: &str, value: &str) -> Result<Self, ModelError> {
        let (name, value) = header(name, value, &self.context)?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Sets the differences of the provider.
    #[must_use]
    pub fn with_quirks(mut self, quirks: Quirks) -> Self {
        self.quirks = quirks;
        self
    }

    /// Sets the transport.
    #[must_use]
    pub fn with_http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Sets the retry policy.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the rate limit; clones share it.
    #[must_use]
    pub fn with_rate_limit(self, rate: RateLimit) -> Self {
        self.with_limiter(Arc::new(RateLimiter::new(rate)))
    }

    pub(crate) fn with_limiter(mut self, limiter: Arc<RateLimiter>) -> Self {
        self.limiter = limiter;
        self
    }

    /// Sets the catalog, whose prices give responses their cost.
    #[must_use]
    pub fn with_catalog(mut self, catalog: impl Into<Arc<ModelCatalog>>) -> Self {
        self.catalog = catalog.into();
        self
    }

    /// Names the variable to look at if the key is refused.
    pub(crate) fn with_key_variable(mut self, variable: impl Into<Arc<str>>) -> Self {
        self.key_variable = Some(variable.into());
        self
    }

    /// Adds what can be done to an error that the provider answered with.
    fn advised(&self, mut error: ModelError) -> ModelError {
        const SHOWN: usize = 8;
        let advice = match (error.kind, error.status, &self.key_variable) {
            (ModelErrorKind::Auth, Some(_), Some(variable)) => {
                format!("; check the key in {variable}")
            }
            (ModelErrorKind::NotFound, Some(_), _) => {
                let models = self.catalog.models(&self.origin.provider).map(|(name, _)| name);
                let known: Vec<&str> = models.take(SHOWN).collect();
                if known.is_empty() {
                    return error;
                }
                format!("; known models: {}", known.join(", "))
            }
            _ => return error,
        };
        error.message += &advice;
        error
    }

    /// Returns the origin of the answers to a request.
    fn origin_of(&self, request: &InferenceRequest) -> Arc<ModelOrigin> {
        match &request.model {
            Some(model) if *model != self.origin.model => {
                Arc::new(ModelOrigin { model: Arc::clone(model), ..(*self.origin).clone() })
            }
            _ => Arc::clone(&self.origin),
        }
    }

    /// Returns the address at which a model is asked.
    fn url(&self, model: &str, streams: bool) -> Url {
        let protocol = self.wire.protocol();
        let mut url = self.base_url.clone();
        extend(&mut url, &protocol.path(model, streams));
        if let Some(query) = protocol.query(streams) {
            let query = url.query().map_or(query.to_owned(), |own| format!("{own}&{query}"));
            url.set_query(Some(&query));
        }
        self.wire.finish_url(&mut url);
        url
    }

    /// Returns what a question beneath the provider's address needs that is not for a model.
    pub(crate) fn beneath(&self, path: &str) -> (Url, HeaderMap, &ErrorContext) {
        let mut url = self.base_url.clone();
        extend(&mut url, &path.split('/').collect::<Vec<_>>());
        (url, self.headers.clone(), &self.context)
    }

    fn headers_of(&self, request: &InferenceRequest) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers.clone();
        if streams(request) {
            let accept = self.wire.protocol().framing().content_type();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            // A compressed stream is one that waits until a block is full.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        add_headers(&mut headers, &request.options.headers, &self.context)?;
        Ok(headers)
    }

    async fn answer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
        job: &JobSlot,
    ) -> Result<InferenceResponse, ModelError> {
        let InferCx { deltas, cancel, deadline, clock, memory } = cx;
        let origin = self.origin_of(request);
        let encoder = RequestEncoder::of_wire(self.wire.clone(), Arc::clone(&origin), self.quirks);
        let info = self.catalog.info(&origin.provider, &origin.model);
        let request = &*unseen::shown(request, info.as_ref());
        let now = Some(clock.now());
        let (mut body, written) = encoder.encode_after(request, memory.take(), now);
        let written = written.filter(EncodedRequest::is_worth_keeping);
        let url = self.url(&origin.model, streams(request));
        let headers = self.headers_of(request)?;
        let mut deltas = ContentProbe::new(deltas);
        let (policy, mut made) = (&self.retry, 0);
        let mut account = CostTracker::new(info);
        let patience = WaitLimits { deadline, longest_hold: policy.max_delay };
        let (length, tokens) = (body.len(), estimate(&body, request));
        loop {
            let admitted = cancel.run_until_cancelled(self.limiter.admit(tokens, clock, patience));
            let refused = match admitted.await {
                Some(Ok(pass)) => Ok(pass),
                Some(Err(refused)) => Err(self.refused(refused)),
                None => Err(self.cancelled()),
            };
            let pass = refused.map_err(|error| account.charged(error))?;
            let mut headers = headers.clone();
            if let Some(signer) = &self.signer {
                signer.sign(&url, &mut headers, &body, clock.now(), &self.context)?;
            }
            // The body is dropped once it is sent: a response may take minutes.
            let outgoing = Outgoing { url: url.clone(), headers, body };
            let decoder = |context| {
                let (protocol, origin) = (self.wire.protocol(), Arc::clone(&origin));
                ResponseDecoder::from_protocol(protocol, origin, context, streams(request))
            };
            let left = deadline.map(|deadline| deadline.saturating_sub(clock.monotonic()));
            let answered = {
                let exchange = pin!(self.exchange(outgoing, decoder, &mut deltas, (clock, job)));
                let answered = cancel.run_until_cancelled(self.before(left, exchange)).await;
                answered.unwrap_or_else(|| Err(self.cancelled()))
            };
            let mut error = match answered {
                Ok(mut response) => {
                    pass.settle(response.usage.total());
                    account.settle(&mut response);
                    if let Some(written) = written {
                        memory.put(written);
                    }
                    return Ok(response);
                }
                Err(error) => error,
            };
            let is_given_up =
                matches!(error.kind, ModelErrorKind::Cancelled | ModelErrorKind::Timeout);
            if is_given_up && error.usage.total() == 0 {
                error.usage = deltas.consumed(length);
            }
            pass.settle(error.usage.total());
            if let (ModelErrorKind::RateLimited, Some(wait)) = (error.kind, error.retry_after) {
                self.limiter.hold(clock.now().plus(wait));
            }
            account.charge(&mut error);
            if deltas.has_content || deltas.is_final || error.kind == ModelErrorKind::Cancelled {
                return Err(error);
            }
            (body, _) = encoder.encode_after(request, None, now);
            let mut attempts = Attempts { policy, request: &body, clock, deadline, made };
            let waited = cancel.run_until_cancelled(attempts.wait(error)).await;
            waited.unwrap_or_else(|| Err(account.charged(self.cancelled())))?;
            made = attempts.made;
        }
    }

    /// Gives up when the time is over.
    async fn before(
        &self,
        left: Option<Duration>,
        exchange: Pin<&mut impl Future<Output = Result<InferenceResponse, ModelError>>>,
    ) -> Result<InferenceResponse, ModelError> {
        let total = self.http.timeouts().total;
        let Some(time) = left.into_iter().chain(total).min() else { return exchange.await };
        tokio::time::timeout(time, exchange).await.unwrap_or_else(|_| {
            let message = match total {
                Some(total) if left.is_none_or(|left| total < left) => {
                    format!("the response was not complete after {} seconds", total.as_secs_f64())
                }
                _ => "the deadline passed before the response was complete".to_owned(),
            };
            Err(self.context.error(ModelErrorKind::Timeout, message))
        })
    }

    fn cancelled(&self) -> ModelError {
        self.context.error(ModelErrorKind::Cancelled, "the request was cancelled")
    }

    /// Says why a request was not sent.
    fn refused(&self, refused: RateLimited) -> ModelError {
        let (message, retry_after) = match refused {
            RateLimited::PastDeadline(Some(wait)) => {
                let seconds = wait.as_secs_f64().ceil();
                let message = format!(
                    "the rate limit has been reached: the next request is allowed in {seconds} \
                        seconds, after the deadline"
                );
                (message, Some(wait))
            }
            RateLimited::PastDeadline(None) => {
                let message = "the deadline passed while the request waited for the rate limit";
                (message.to_owned(), None)
            }
            RateLimited::ProviderHold(wait) => {
                let seconds = wait.as_secs_f64().ceil();
                (
                    format!("the provider accepts no requests for the next {seconds} seconds"),
                    Some(wait),
                )
            }
        };
        let error = self.context.error(ModelErrorKind::RateLimited, message);
        ModelError { retry_after, ..error }
    }

    /// Sends a request once and reads the answer.
    async fn exchange(
        &self,
        Outgoing { url, headers, body }: Outgoing,
        decoder: impl Fn(ErrorContext) -> ResponseDecoder,
        deltas: &mut ContentProbe<'_>,
        (clock, job): (&dyn Clock, &JobSlot),
    ) -> Result<InferenceResponse, ModelError> {
        let place = (url.clone(), headers.clone());
        // Boxed, so that its memory is free while the answer is read.
        let sent = Box::pin(self.http.post(url, headers, body)).await;
        let answer = sent.map_err(|error| error.into_model_error(&self.context))?;
        self.receive(answer, place, decoder, deltas, (clock, job)).await
    }
}

#[async_trait]
impl ChatModel for RemoteModel {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let job = JobSlot::default();
        let answer = self.answer(request, cx, &job).await;
        if answer.is_err() {
            self.give_up(&job, self.headers_of(request)).await;
        }
        answer.map_err(|error| self.advised(error))
    }

    fn model(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.origin.model))
    }

    fn least_cost(&self, request: &InferenceRequest) -> Option<Cost> {
        let origin = self.origin_of(request);
        least_cost(&self.catalog.info(&origin.provider, &origin.model)?, request)
    }

    fn takes(&self, request: &InferenceRequest, kind: MediaKind) -> Option<bool> {
        let origin = self.origin_of(request);
        let known = self.catalog.info(&origin.provider, &origin.model)?.capabilities?;
        let capability = match kind {
            MediaKind::Image => ModelCapability::Images,
            MediaKind::Document => ModelCapability::Documents,
            _ => return None,
        };
        Some(known.contains(&capability))
    }
}

impl fmt::Debug for RemoteModel {
    /// Shows neither headers nor the address: both may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteModel").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl HttpError {
    pub(crate) fn into_model_error(self, context: &ErrorContext) -> ModelError {
        let error = context.error(self.kind, self.message);
        ModelError { source: self.source, ..error }
    }
}

/// What is sent in one attempt.
struct Outgoing {
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

/// Guesses how many tokens a request takes, its answer included, before anybody counts them.
fn estimate(body: &[u8], request: &InferenceRequest) -> u64 {
    let read = u64::try_from(body.len()).unwrap_or(u64::MAX) / BYTES_PER_TOKEN;
    read.saturating_add(request.options.max_output_tokens.unwrap_or_default())
}

fn streams(request: &InferenceRequest) -> bool {
    request.options.stream.unwrap_or(true)
}

/// Reads the address of a provider.
pub(crate) fn address(base_url: &str, context: &ErrorContext) -> Result<Url, ModelError> {
    let invalid = || {
        let message = "the base URL must look like `https://host/v1`";
        context.error(ModelErrorKind::InvalidRequest, message)
    };
    let url = Url::parse(base_url.trim()).map_err(|_| invalid())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid());
    }
    Ok(url)
}

/// Puts a path beneath an address, unless it is there already; the query stays.
pub(crate) fn extend(url: &mut Url, path: &[impl AsRef<str>]) {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    if url.path().ends_with(&path.join("/")) {
        return;
    }
    // An address with a host has segments.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
}

pub(crate) fn authorization(
    key: &Secret,
    context: &ErrorContext,
) -> Result<HeaderValue, ModelError> {
    let value = HeaderValue::try_from(format!("Bearer {}", key.expose()));
    let mut value = value.map_err(|_| {
        context.error(
            ModelErrorKind::Auth,
            "the key contains characters that are not allowed in \
            a header",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn add_headers(
    headers: &mut HeaderMap,
    more: &BTreeMap<String, String>,
    context: &ErrorContext,
) -> Result<(), ModelError> {
    for (name, value) in more {
        let (name, value) = header(name, value, context)?;
        headers.insert(name, value);
    }
    Ok(())
}

fn header(
    name: &str,
    value: &str,
    context: &ErrorContext,
) -> Result<(HeaderName, HeaderValue), ModelError> {
    let invalid = || {
        let message = format!("header `{name}` has an invalid name or value");
        context.error(ModelErrorKind::InvalidRequest, message)
    };
    let header = HeaderName::try_from(name).map_err(|_| invalid())?;
    Ok((header, HeaderValue::try_from(value).map_err(|_| invalid())?))
}
