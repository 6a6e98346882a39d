//! The configuration of one provider.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use super::{BaseUrl, SecretRef, Setting, Text};

/// A table under `[providers]`: a new provider, or changes to the preset of that name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provider {
    /// Where it is reached.
    pub base_url: Option<Setting<BaseUrl>>,
    /// Where its key is found.
    pub key: Option<Setting<SecretRef>>,
    /// The protocol that it speaks.
    pub wire_api: Option<Setting<String>>,
    /// Its model for runs that choose none.
    pub model: Option<Setting<String>>,
    /// Headers that every request carries besides those of the wire.
    pub headers: BTreeMap<String, Setting<Text>>,
    /// How much it may be asked in any minute.
    pub rate_limit: Rate,
}

/// How much a provider may be asked in any minute, by all models together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rate {
    /// `rate_limit.requests_per_minute`
    pub requests_per_minute: Option<Setting<NonZeroU32>>,
    /// `rate_limit.tokens_per_minute`, of input and output together
    pub tokens_per_minute: Option<Setting<NonZeroU64>>,
}

impl Provider {
    /// Fills what is not set from a weaker layer; headers are taken one by one.
    pub(super) fn or(self, weaker: Self) -> Self {
        let mut headers = weaker.headers;
        headers.extend(self.headers);
        Self {
            base_url: self.base_url.or(weaker.base_url),
            key: self.key.or(weaker.key),
            wire_api: self.wire_api.or(weaker.wire_api),
            model: self.model.or(weaker.model),
            headers,
            rate_limit: Rate {
                requests_per_minute: self
                    .rate_limit
                    .requests_per_minute
                    .or(weaker.rate_limit.requests_per_minute),
                tokens_per_minute: self
                    .rate_limit
                    .tokens_per_minute
                    .or(weaker.rate_limit.tokens_per_minute),
            },
        }
    }
}
