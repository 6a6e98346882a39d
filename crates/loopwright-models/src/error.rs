//! Errors in responses, for all envelope formats.

use std::{sync::Arc, time::Duration};

use loopwright_core::{ModelError, ModelErrorKind, Timestamp, messages::Usage};
use serde_json::Value;

use crate::{retry::parse_retry_after, secret::Secret};

/// The context of a response, which is part of each error created from it.
#[derive(Clone, Debug, Default)]
pub struct ErrorContext {
    provider: Arc<str>,
    secrets: Vec<Secret>,
    status: Option<u16>,
    /// What went wrong, if a header names it.
    named: Option<String>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
}

/// The header in which AWS names what went wrong, perhaps with an address behind a colon.
const ERROR_TYPE_HEADER: &str = "x-amzn-errortype";

/// The headers in which providers put their id of a request, the first one that is there counts.
const REQUEST_ID_HEADERS: [&str; 6] = [
    "request-id",
    "x-request-id",
    "mistral-correlation-id",
    "x-amzn-requestid",
    "apim-request-id",
    "cf-ray",
];

/// As much of a body that is no envelope as is shown to people.
const SHOWN: usize = 400;

impl ErrorContext {
    /// Creates a context with only the provider.
    pub fn new(provider: impl Into<Arc<str>>) -> Self {
        Self { provider: provider.into(), ..Self::default() }
    }

    /// Adds a secret that must not appear in any message, even if the provider repeats it.
    #[must_use]
    pub fn with_secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Adds the status and headers of a response; header names are in lowercase.
    #[must_use]
    pub fn with_head<'h>(
        mut self,
        status: u16,
        headers: impl Fn(&str) -> Option<&'h str>,
        now: Timestamp,
    ) -> Self {
        self.status = Some(status);
        let named = headers(ERROR_TYPE_HEADER).and_then(|it| it.split(':').next());
        self.named = named.filter(|it| !it.is_empty()).map(str::to_owned);
        let id = REQUEST_ID_HEADERS.iter().find_map(|name| headers(name));
        self.request_id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        self.retry_after = parse_retry_after(status, headers, now);
        self
    }

    /// Creates an error with a message.
    pub fn error(&self, kind: ModelErrorKind, message: impl AsRef<str>) -> ModelError {
        let mut message = message.as_ref().to_owned();
        self.redact(&mut message);
        let message = format!("{}: {message}", self.provider);
        ModelError {
            status: self.status,
            request_id: self.request_id.clone(),
            retry_after: self.retry_after,
            ..ModelError::new(kind, message)
        }
    }

    /// Creates an error from a response whose status is not a success.
    pub fn of_body(&self, body: &[u8]) -> ModelError {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => self.of_envelope(&value),
            Err(_) => self.of_text(&String::from_utf8_lossy(body)),
        }
    }

    /// Creates an error from an error envelope.
    pub fn of_envelope(&self, value: &Value) -> ModelError {
        let envelope = Envelope::of(value);
        let message = envelope.message.unwrap_or_default();
        let said = Said {
            status: envelope.status.or(self.status),
            kind: envelope.kind.or(self.named.as_deref()).unwrap_or_default(),
            code: envelope.code.as_deref().unwrap_or_default(),
            message: &message,
        };
        let mut error =
            self.error(said.kind(), if message.is_empty() { "an error" } else { &message });
        let kind = envelope.kind.map(str::to_owned).or_else(|| self.named.clone());
        error.code = envelope.code.or(kind).map(|mut code| {
            self.redact(&mut code);
            code
        });
        error.request_id = error.request_id.or(envelope.request_id);
        error.retry_after = error.retry_after.or(envelope.retry_after);
        error
    }

    fn of_text(&self, text: &str) -> ModelError {
        let text = text.trim();
        let end = (0..=text.len().min(SHOWN)).rfind(|end| text.is_char_boundary(*end));
        let shown = &text[..end.unwrap_or(0)];
        let said = Said { status: self.status, kind: "", code: "", message: shown };
        match (self.status, shown.is_empty()) {
            (Some(status), true) => {
                self.error(said.kind(), format!("status {status}, without an explanation"))
            }
            (Some(status), false) => self.error(said.kind(), format!("status {status}: {shown}")),
            (None, _) => self.error(said.kind(), shown),
        }
    }

    fn redact(&self, text: &mut String) {
        for secret in &self.secrets {
            secret.redact(text);
        }
    }
}

/// Adds what was consumed before an answer failed.
pub(crate) fn with_usage(mut error: ModelError, usage: Option<Usage>) -> ModelError {
    error.usage = usage.unwrap_or_default();
    error
}

/// What the providers' envelopes have in common.
#[derive(Default)]
struct Envelope<'a> {
    message: Option<String>,
    kind: Option<&'a str>,
    code: Option<String>,
    status: Option<u16>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
}

impl<'a> Envelope<'a> {
    fn of(value: &'a Value) -> Self {
        let value = match value {
            Value::Array(items) => items.first().unwrap_or(&Value::Null),
            other => other,
        };
        let mut envelope = match value.get("error") {
            Some(inner @ Value::Object(_)) => Self::of_object(inner),
            Some(Value::String(message)) => {
                Self { message: Some(message.clone()), ..Self::of_object(value) }
            }
            _ => Self::of_object(value),
        };
        if let Value::String(text) = value {
            envelope.message = Some(text.clone());
        }
        let id = value.get("request_id").and_then(Value::as_str);
        envelope.request_id = id.map(str::to_owned);
        envelope
    }

    fn of_object(value: &'a Value) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|it| !it.is_empty());
        let messages = ["message", "detail", "Message", "msg"];
        let message = messages.iter().find_map(|name| value.get(name)).and_then(|it| match it {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        });
        let code = value.get("code").and_then(|code| match code {
            Value::String(code) if !code.is_empty() => Some(code.clone()),
            Value::Number(code) => Some(code.to_string()),
            _ => None,
        });
        let status = [value.get("status_code"), value.get("code")].into_iter().flatten();
        let status = status.filter_map(Value::as_u64).find(|it| (400..600).contains(it));
        Self {
            message,
            kind: text("type").or_else(|| text("status")),
            code,
            status: status.and_then(|it| u16::try_from(it).ok()),
            request_id: None,
            retry_after: retry_delay(value),
        }
    }
}

/// Reads Google's `details[].retryDelay`, such as `"7s"` or `"1.5s"`.
fn retry_delay(value: &Value) -> Option<Duration> {
    let details = value.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The words of an error from which its kind is read.
struct Said<'a> {
    status: Option<u16>,
    kind: &'a str,
    code: &'a str,
    message: &'a str,
}

impl Said<'_> {
    fn kind(&self) -> ModelErrorKind {
        self.kind_by_words()
            .or_else(|| self.kind_by_status())
            .unwrap_or_else(|| self.kind_by_type())
    }

    /// The kinds for which the words are surer than the status.
    fn kind_by_words(&self) -> Option<ModelErrorKind> {
        let is = |words: &[&str]| words.iter().any(|it| self.code == *it || self.kind == *it);
        let message = self.message.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|it| message.contains(it));
        if is(&[
            "insufficient_quota",
            "billing_hard_limit_reached",
            "insufficient_balance",
            "billing_error",
        ]) || (self.status == Some(400) && says(&["credit balance is too low"]))
        {
            return Some(ModelErrorKind::Quota);
        }
        if is(&["ServiceQuotaExceededException"]) {
            return Some(ModelErrorKind::RateLimited);
        }
        if is(&["context_length_exceeded", "string_above_max_length"])
            || (matches!(self.status, Some(200 | 400 | 413 | 422 | 500))
                && says(&[
                    "context length",
                    "maximum context",
                    "context window",
                    "context size",
                    "prompt is too long",
                    "input is too long",
                    "exceed context limit",
                    "exceeds the maximum number of tokens",
                ]))
        {
            return Some(ModelErrorKind::ContextLength);
        }
        if is(&["invalid_api_key"])
            || (self.status == Some(400) && says(&["api key not valid", "incorrect api key"]))
        {
            return Some(ModelErrorKind::Auth);
        }
        is(&["model_not_found"]).then_some(ModelErrorKind::NotFound)
    }

    fn kind_by_status(&self) -> Option<ModelErrorKind> {
        Some(match self.status? {
            401 | 403 => ModelErrorKind::Auth,
            402 => ModelErrorKind::Quota,
            404 => ModelErrorKind::NotFound,
            408 | 504 => ModelErrorKind::Timeout,
            413 => ModelErrorKind::ContextLength,
            429 => ModelErrorKind::RateLimited,
            409 | 500.. => ModelErrorKind::Unavailable,
            400.. => ModelErrorKind::InvalidRequest,
            _ => return None,
        })
    }

    /// What the type of an error says that came in a successful answer.
    fn kind_by_type(&self) -> ModelErrorKind {
        let words = format!("{} {}", self.kind, self.code).to_ascii_lowercase();
        let has = |part: &str| words.contains(part);
        if has("rate_limit")
            || has("resource_exhausted")
            || has("too_many_requests")
            || has("throttling")
        {
            ModelErrorKind::RateLimited
        } else if has("overloaded") || has("server_error") || has("unavailable") || has("api_error")
        {
            ModelErrorKind::Unavailable
        } else if has("timeout") {
            ModelErrorKind::Timeout
        } else if has("authentication") || has("permission") {
            ModelErrorKind::Auth
        } else if has("not_found") {
            ModelErrorKind::NotFound
        } else if has("invalid") || has("bad_request") || has("validation") {
            ModelErrorKind::InvalidRequest
        } else {
            ModelErrorKind::Unavailable
        }
    }
}

#[cfg(test)]
mod tests;
