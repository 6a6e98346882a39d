//! Requests for pages, and their cache.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_models::{Timeouts, WebClient, WebError, WebResponse};
use tokio::time::{Instant, timeout};
use url::Url;

use super::address::{PublicOnly, WebNetwork};
use super::policy::{Robots, WebPolicy};
use super::{markdown, robots};

/// Pages that are kept at a time.
const MAX_KEPT: usize = 32;

/// The longest address.
const MAX_URL: usize = 2_000;

/// The most that is read of a `robots.txt`.
const MAX_ROBOTS: usize = 500 * 1024;

const HEADERS: [(&str, &str); 2] = [
    ("user-agent", concat!("loopwright/", env!("CARGO_PKG_VERSION"))),
    ("accept", "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1"),
];

/// An error of a page request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The address is invalid or not allowed.
    #[error("`{url}` was not requested: {reason}")]
    Refused {
        /// The requested value.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The page redirects to another host, to which other rules may apply.
    #[error(
        "the page redirects to another site: {to}; to follow the redirect, call web_fetch with that address"
    )]
    Elsewhere {
        /// The target.
        to: Url,
    },
    /// The server responded with an error.
    #[error("the server responded with status {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The response is not text.
    #[error("the page has the type `{0}`, but only text can be read")]
    NoText(String),
    /// The elements of the page are nested too deeply.
    #[error("the elements of the page are nested too deeply")]
    TooDeep,
    /// There are too many redirects.
    #[error("the page redirected more than {0} times")]
    Redirects(usize),
    /// The request took too long.
    #[error("the request took longer than {} seconds", .0.as_secs_f64())]
    Late(Duration),
    /// The request failed.
    #[error(transparent)]
    Connection(#[from] WebError),
}

/// A page that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Where it was found at last.
    pub(super) url: Url,
    pub(super) text: String,
    /// Whether there is more after the part that was read.
    pub(super) is_cut: bool,
}

/// Requests pages, and keeps them for a while.
pub(super) struct Pages {
    policy: WebPolicy,
    client: WebClient,
    kept: Kept<Page>,
    /// The `robots.txt` of each site.
    robots: Kept<String>,
}

/// What was asked for last, by its address.
struct Kept<T>(Mutex<VecDeque<(Url, Instant, Arc<T>)>>);

impl Pages {
    pub(super) fn new(policy: WebPolicy, network: impl WebNetwork + 'static) -> Self {
        let timeouts = Timeouts {
            first_byte: policy.timeout,
            idle: policy.timeout,
            total: Some(policy.timeout),
            ..Timeouts::default()
        };
        let client = WebClient::new(Arc::new(PublicOnly(network)), timeouts);
        Self { policy, client, kept: Kept::new(), robots: Kept::new() }
    }

    pub(super) fn policy(&self) -> &WebPolicy {
        &self.policy
    }

    /// Returns a page, one that is kept if there is one.
    pub(super) async fn get(&self, text: &str) -> Result<Arc<Page>, FetchError> {
        let url = self.check(text)?;
        if let Some(page) = self.kept.get(&url, self.policy.kept_for) {
            return Ok(page);
        }
        let time = self.policy.timeout;
        let requested = timeout(time, self.request(url.clone())).await;
        let page = Arc::new(requested.map_err(|_| FetchError::Late(time))??);
        self.kept.put(url, Arc::clone(&page));
        Ok(page)
    }

    /// Reads an address, and decides whether it may be requested at all.
    fn check(&self, text: &str) -> Result<Url, FetchError> {
        let text = text.trim();
        let refused = |reason: String| {
            let url = text.chars().take(200).collect();
            Err(FetchError::Refused { url, reason })
        };
        if text.len() > MAX_URL {
            return refused(format!("the URL is longer than {MAX_URL} bytes"));
        }
        let mut url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => return refused(error.to_string()),
        };
        if !matches!(url.scheme(), "http" | "https") {
            return refused("only http and https are allowed".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("the URL contains a user name or a password".to_owned());
        }
        if let Some(port) = url.port().filter(|port| !self.allows(*port)) {
            return refused(format!("port {port} is not allowed"));
        }
        url.set_fragment(None);
        Ok(url)
    }

    fn allows(&self, port: u16) -> bool {
        matches!(port, 80 | 443) || self.policy.other_ports.contains(&port)
    }

    async fn request(&self, mut url: Url) -> Result<Page, FetchError> {
        for _ in 0..=self.policy.max_redirects {
            self.ask_robots(&url).await?;
            let response = self.client.get(&url, &HEADERS).await?;
            match response.status() {
                200..=299 => return self.read(url, response).await,
                301 | 302 | 303 | 307 | 308 => url = self.target(&url, &response)?,
                status => return Err(FetchError::Status { status }),
            }
        }
        Err(FetchError::Redirects(self.policy.max_redirects))
    }

    /// Returns where an answer leads to. Another host is not followed, since it was not what was allowed, and neither is
    /// a way out of TLS.
    fn target(&self, from: &Url, response: &WebResponse) -> Result<Url, FetchError> {
        let status = FetchError::Status { status: response.status() };
        let location = response.header("location").ok_or(status)?;
        let to = from.join(location).map_err(|error| FetchError::Refused {
            url: location.chars().take(200).collect(),
            reason: error.to_string(),
        })?;
        let to = self.check(to.as_str())?;
        let is_weaker = from.scheme() == "https" && to.scheme() == "http";
        if to.host() != from.host() || is_weaker {
            return Err(FetchError::Elsewhere { to });
        }
        Ok(to)
    }

    async fn ask_robots(&self, url: &Url) -> Result<(), FetchError> {
        if self.policy.robots == Robots::Ignored {
            return Ok(());
        }
        let mut place = url.clone();
        place.set_path("/robots.txt");
        place.set_query(None);
        let kept = self.robots.get(&place, self.policy.kept_for);
        let rules = if let Some(rules) = kept {
            rules
        } else {
            let response = self.client.get(&place, &HEADERS).await?;
            // A site without the file asks for nothing.
            let text = if (200..300).contains(&response.status()) {
                let body = response.body(MAX_ROBOTS).await?;
                String::from_utf8_lossy(&body.bytes).into_owned()
            } else {
                String::new()
            };
            let rules = Arc::new(text);
            self.robots.put(place, Arc::clone(&rules));
            rules
        };
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        if robots::allows(&rules, path) {
            return Ok(());
        }
        let reason = "the site's `robots.txt` asks programs not to request it".to_owned();
        Err(FetchError::Refused { url: url.to_string(), reason })
    }

    async fn read(&self, url: Url, response: WebResponse) -> Result<Page, FetchError> {
        let content_type = response.header("content-type").unwrap_or("text/plain").to_owned();
        let mut parts = content_type.split(';').map(|part| part.trim().to_ascii_lowercase());
        let essence = parts.next().unwrap_or_default();
        let is_html = matches!(&*essence, "text/html" | "application/xhtml+xml");
        let is_data = essence.ends_with("json") || essence.ends_with("xml");
        let is_text = is_data || essence.starts_with("text/") || essence.ends_with("javascript");
        if !is_html && !is_text {
            return Err(FetchError::NoText(essence));
        }
        let is_latin = parts.any(|part| matches!(&*part, "charset=iso-8859-1" | "charset=latin1"));
        let body = response.body(self.policy.max_bytes).await?;
        let text = if is_latin {
            body.bytes.iter().map(|byte| char::from(*byte)).collect()
        } else {
            String::from_utf8_lossy(&body.bytes).into_owned()
        };
        let text = if is_html {
            // Work of some milliseconds, which would hold up others.
            let converting = tokio::task::spawn_blocking(move || markdown::convert(&text));
            converting.await.ok().flatten().ok_or(FetchError::TooDeep)?
        } else {
            text
        };
        Ok(Page { url, text: text.trim().to_owned(), is_cut: body.is_cut })
    }
}

impl<T> Kept<T> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn get(&self, url: &Url, time: Duration) -> Option<Arc<T>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, since, _)| since.elapsed() < time);
        kept.iter().find(|(of, _, _)| of == url).map(|(_, _, value)| Arc::clone(value))
    }

    fn put(&self, url: Url, value: Arc<T>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, _, _)| *of != url);
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((url, Instant::now(), value));
    }
}
