//! Metrics of the server, in the Prometheus text format.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use axum::http::{Method, StatusCode};
use loopwright_sessions::JobStatus;

/// The methods that are counted by name; others are counted together.
const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::DELETE, Method::HEAD];

/// Figures of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    streams: Arc<AtomicI64>,
}

/// Counts a stream as open until it is dropped.
pub(crate) struct OpenStream(Arc<AtomicI64>);

impl Metrics {
    pub(crate) fn count(&self, method: &Method, status: StatusCode) {
        let method = if METHODS.contains(method) { method.as_str() } else { "other" };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((method.to_owned(), status.as_u16())).or_default() += 1;
    }

    pub(crate) fn stream(&self) -> OpenStream {
        self.streams.fetch_add(1, Relaxed);
        OpenStream(Arc::clone(&self.streams))
    }

    /// Writes all figures.
    pub(crate) fn render(&self, jobs: &[(JobStatus, u64)]) -> String {
        let mut text = String::from(
            "# HELP loopwright_http_requests_total Responses sent.\n\
             # TYPE loopwright_http_requests_total counter\n",
        );
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((method, status), count) in &*requests {
            let labels = format!("method=\"{method}\",status=\"{status}\"");
            writeln!(text, "loopwright_http_requests_total{{{labels}}} {count}").ok();
        }
        let streams = self.streams.load(Relaxed);
        text.push_str(
            "# HELP loopwright_streams_open Event streams that are open.\n\
             # TYPE loopwright_streams_open gauge\n",
        );
        writeln!(text, "loopwright_streams_open {streams}").ok();
        text.push_str(
            "# HELP loopwright_jobs Jobs in the queue of the session store.\n\
             # TYPE loopwright_jobs gauge\n",
        );
        for (status, count) in jobs {
            writeln!(text, "loopwright_jobs{{status=\"{status}\"}} {count}").ok();
        }
        text
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
