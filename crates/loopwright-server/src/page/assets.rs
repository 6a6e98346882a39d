//! Files that pages load.

use std::sync::OnceLock;

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};

use crate::tokens::hash;

/// A file that pages load.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    media_type: &'static str,
    text: &'static str,
    address: OnceLock<String>,
}

pub(crate) static STYLE: Asset = Asset {
    path: "/assets/page.css",
    media_type: "text/css; charset=utf-8",
    text: include_str!("../../assets/page.css"),
    address: OnceLock::new(),
};

pub(crate) static SCRIPT: Asset = Asset {
    path: "/assets/page.js",
    media_type: "text/javascript; charset=utf-8",
    text: include_str!("../../assets/page.js"),
    address: OnceLock::new(),
};

impl Asset {
    /// Returns the URL, which changes with the content of the file.
    pub(crate) fn address(&self) -> &str {
        self.address.get_or_init(|| format!("{}?{}", self.path, &hash(self.text)[..8]))
    }

    pub(crate) fn response(&self) -> Response {
        let mut response = self.text.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
        headers.insert(header::CACHE_CONTROL, kept);
        response
    }
}
