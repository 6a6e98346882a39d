//! Timeouts of requests to a provider.

use std::time::Duration;

use super::Setting;

/// The waits that are set, in seconds; otherwise, the program's own apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeouts {
    /// `timeouts.connect`, for a connection
    pub connect: Option<Setting<Duration>>,
    /// `timeouts.first_byte`, for the first byte of an answer
    pub first_byte: Option<Setting<Duration>>,
    /// `timeouts.idle`, for every further piece of it
    pub idle: Option<Setting<Duration>>,
    /// `timeouts.total`, for a whole answer
    pub total: Option<Setting<Duration>>,
}

impl Timeouts {
    /// Fills what is not set from a weaker layer.
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            connect: self.connect.or(weaker.connect),
            first_byte: self.first_byte.or(weaker.first_byte),
            idle: self.idle.or(weaker.idle),
            total: self.total.or(weaker.total),
        }
    }
}
