//! Where Restate runs.

use super::{BaseUrl, Setting};

/// Where Restate runs, which delivers jobs in place of the queue of the session store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestateSettings {
    /// The address of its ingress; `None` if it delivers no jobs.
    pub url: Option<Setting<BaseUrl>>,
    /// The name of the service; `None` is the default name.
    pub service: Option<Setting<String>>,
    /// The key with which its requests must be signed; `None` accepts all requests.
    pub identity_key: Option<Setting<String>>,
}

impl RestateSettings {
    /// Fills what is not set from a weaker layer.
    pub(crate) fn or(self, weaker: Self) -> Self {
        Self {
            url: self.url.or(weaker.url),
            service: self.service.or(weaker.service),
            identity_key: self.identity_key.or(weaker.identity_key),
        }
    }
}
