//! What the model has seen.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
/// When the first request came, in nanoseconds of the clock that never goes back; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Counts a connection.
pub(crate) fn connection() {
    CONNECTIONS.fetch_add(1, Relaxed);
}

/// Counts a request for an answer, with the time when its head was there.
pub(crate) fn request(bytes: usize, came: u64) {
    if REQUESTS.fetch_add(1, Relaxed) == 0 {
        FIRST.store(came, Relaxed);
    }
    BYTES.fetch_add(bytes as u64, Relaxed);
}

/// Forgets everything.
pub(crate) fn reset() {
    for count in [&REQUESTS, &BYTES, &CONNECTIONS, &FIRST] {
        count.store(0, Relaxed);
    }
}

/// All of it as JSON.
pub(crate) fn to_json() -> String {
    let [requests, bytes, connections, first] =
        [&REQUESTS, &BYTES, &CONNECTIONS, &FIRST].map(|count| count.load(Relaxed));
    format!(
        r#"{{"requests":{requests},"bytes":{bytes},"connections":{connections},"first_ns":{first}}}"#
    )
}

/// The time, in nanoseconds of the clock that never goes back.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let [seconds, nanoseconds] = [time.tv_sec, time.tv_nsec].map(i64::unsigned_abs);
    seconds * 1_000_000_000 + nanoseconds
}
