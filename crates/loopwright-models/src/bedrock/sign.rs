//! Signs requests with AWS Signature Version 4.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4::SigningParams,
};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use loopwright_core::{BoxError, ModelError, ModelErrorKind, Timestamp};
use url::Url;

use crate::{
    error::ErrorContext,
    secret::{Secret, VarSource, lookup},
    signer::Signer,
};

/// The service that signatures are for.
const SERVICE: &str = "bedrock";

/// An account's keys, and the region they are used in.
#[derive(Debug)]
pub(super) struct AwsSigner {
    key_id: Secret,
    key: Secret,
    session: Option<Secret>,
    region: String,
}

impl AwsSigner {
    /// Looks for the usual variables. Returns `None` if there are no keys. The region is that of
    /// the address if no variable tells it.
    pub(super) fn of_variables(variables: &dyn VarSource, url: &Url) -> Option<Self> {
        let secret = |name| lookup(variables, name).map(Secret::new);
        let regions = ["AWS_REGION", "AWS_DEFAULT_REGION"];
        let region = regions.iter().find_map(|name| lookup(variables, name));
        Some(Self {
            key_id: secret("AWS_ACCESS_KEY_ID")?,
            key: secret("AWS_SECRET_ACCESS_KEY")?,
            session: secret("AWS_SESSION_TOKEN"),
            region: region_of(url).or(region)?,
        })
    }

    fn headers_of(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, BoxError> {
        let (key_id, key) = (self.key_id.expose(), self.key.expose());
        let session = self.session.as_ref().map(|it| it.expose().to_owned());
        let identity = Credentials::new(key_id, key, session, None, "variables").into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(SERVICE)
            .time(SystemTime::UNIX_EPOCH + Duration::from_millis(now.millis()))
            .settings(SigningSettings::default())
            .build()?;
        // Others may be changed on the way.
        let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let signed = content_type.into_iter().map(|it| ("content-type", it));
        let request =
            SignableRequest::new("POST", url.as_str(), signed, SignableBody::Bytes(body))?;
        let (instructions, _) = sign(request, &params.into())?.into_parts();
        let header = |(name, value): (&str, &str)| {
            let mut value = HeaderValue::try_from(value)?;
            value.set_sensitive(true);
            Ok((HeaderName::try_from(name)?, value))
        };
        instructions.headers().map(header).collect()
    }
}

/// Returns the region in the name of the service's own hosts.
fn region_of(url: &Url) -> Option<String> {
    let mut words = url.host_str()?.split('.');
    let is_service = words.next()?.starts_with("bedrock-runtime");
    let region = words.next()?;
    (is_service && words.next() == Some("amazonaws")).then(|| region.to_owned())
}

impl Signer for AwsSigner {
    fn sign(
        &self,
        url: &Url,
        headers: &mut HeaderMap,
        body: &[u8],
        now: Timestamp,
        context: &ErrorContext,
    ) -> Result<(), ModelError> {
        let signature = self.headers_of(url, headers, body, now).map_err(|_| {
            // The cause may repeat what is secret.
            context.error(ModelErrorKind::Auth, "the request cannot be signed with these keys")
        })?;
        headers.extend(signature);
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        let keys = [&self.key_id, &self.key].into_iter().chain(&self.session);
        keys.cloned().collect()
    }
}

#[cfg(test)]
mod tests;
