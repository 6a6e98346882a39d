//! Request signing, for providers that require it.

use std::fmt;

use http::HeaderMap;
use loopwright_core::{ModelError, Timestamp};
use url::Url;

use crate::{error::ErrorContext, secret::Secret};

/// Signs a request, each time that it is sent.
pub(crate) trait Signer: fmt::Debug + Send + Sync {
    /// Adds the signature to the headers.
    ///
    /// # Errors
    ///
    /// Returns an error if there is something that cannot be signed.
    fn sign(
        &self,
        url: &Url,
        headers: &mut HeaderMap,
        body: &[u8],
        now: Timestamp,
        context: &ErrorContext,
    ) -> Result<(), ModelError>;

    /// Returns what must not be in any message.
    fn secrets(&self) -> Vec<Secret>;
}
