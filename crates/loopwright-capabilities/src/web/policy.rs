//! How pages are requested.

use std::time::Duration;

/// What is requested of the web, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPolicy {
    /// Ports beside 80 and 443; none by default.
    pub other_ports: Vec<u16>,
    /// Bytes of a page that are read, after decompression; 2 MiB by default. What is beyond is left out, and that is
    /// said.
    pub max_bytes: usize,
    /// Characters of a page that one call gives to the model; 40,000 by default.
    pub max_chars: usize,
    /// How long a page may take with all redirects; 30 seconds by default.
    pub timeout: Duration,
    /// Redirects that are followed, within a host; 5 by default.
    pub max_redirects: usize,
    /// Whether `robots.txt` is asked; it is by default.
    pub robots: Robots,
    /// How long a page is kept for further calls; 15 minutes by default.
    pub kept_for: Duration,
}

/// What is done about `robots.txt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Robots {
    /// Pages that it forbids are not requested.
    #[default]
    Obeyed,
    /// It is not asked for, since a person wants each page and no crawler does.
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
