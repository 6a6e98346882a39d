//! The policy of page requests.

use std::time::Duration;

use serde::Deserialize;

/// The limits of page requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebPolicy {
    /// Allowed ports in addition to 80 and 443; none by default.
    pub other_ports: Vec<u16>,
    /// The maximum number of bytes of a page to read, after decompression; 2 MiB by default. Longer
    /// pages are truncated, with a note.
    pub max_bytes: usize,
    /// The number of characters of a page that one call returns; 40,000 by default.
    pub max_chars: usize,
    /// The timeout of a page with all redirects; 30 seconds by default.
    #[serde(deserialize_with = "crate::written::seconds::deserialize")]
    pub timeout: Duration,
    /// The maximum number of redirects to follow within a host; 5 by default.
    pub max_redirects: usize,
    /// Whether `robots.txt` is obeyed; it is by default.
    pub robots: Robots,
    /// The time that a page is cached for further calls; 15 minutes by default.
    #[serde(deserialize_with = "crate::written::seconds::deserialize")]
    pub kept_for: Duration,
}

/// The handling of `robots.txt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Robots {
    /// Pages that it disallows are not requested.
    #[default]
    Obeyed,
    /// It is ignored, because each request serves a person and not a crawler.
    Ignored,
}

impl Default for WebPolicy {
    fn default() -> Self {
        Self {
            other_ports: Vec::new(),
            max_bytes: 2 * 1024 * 1024,
            max_chars: 40_000,
            timeout: Duration::from_secs(30),
            max_redirects: 5,
            robots: Robots::default(),
            kept_for: Duration::from_mins(15),
        }
    }
}
