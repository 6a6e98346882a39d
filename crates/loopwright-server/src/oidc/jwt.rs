//! Signed tokens: JSON Web Signatures in their compact form.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

/// Why a token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token is invalid: {0}")]
pub(crate) struct InvalidToken(pub(super) &'static str);

/// The allowed algorithms: all are asymmetric, so that no public key is taken as a shared secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "PS256")]
    Ps256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

#[derive(Deserialize)]
struct Header {
    alg: Value,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

/// A key of an issuer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Jwk {
    kty: String,
    pub(super) kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

/// A token whose signature was not checked yet.
pub(super) struct Jwt<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    signed: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jwt<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, InvalidToken> {
        let malformed = InvalidToken("it is malformed");
        let (signed, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(malformed)?;
        let header = BASE64.decode(header).map_err(|_| malformed)?;
        let header: Header = serde_json::from_slice(&header).map_err(|_| malformed)?;
        if header.crit.is_some() {
            return Err(InvalidToken("critical extensions are not supported"));
        }
        let algorithm = serde_json::from_value(header.alg)
            .map_err(|_| InvalidToken("the algorithm is not allowed"))?;
        let signature = BASE64.decode(signature).map_err(|_| malformed)?;
        Ok(Self { algorithm, key_id: header.kid, signed, payload, signature })
    }

    pub(super) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Returns the claims, if one of the keys made the signature.
    pub(super) fn verify(&self, keys: &[Jwk]) -> Result<Value, InvalidToken> {
        let named = |it: &&Jwk| self.key_id.is_none() || it.kid == self.key_id;
        let mut fitting = keys.iter().filter(named).filter(|it| it.fits(self.algorithm));
        if !fitting.any(|key| self.is_signed_by(key)) {
            return Err(InvalidToken("the signature matches none of the issuer's keys"));
        }
        let malformed = InvalidToken("it is malformed");
        let claims = BASE64.decode(self.payload).map_err(|_| malformed)?;
        let claims: Value = serde_json::from_slice(&claims).map_err(|_| malformed)?;
        if claims.is_object() { Ok(claims) } else { Err(malformed) }
    }

    fn is_signed_by(&self, key: &Jwk) -> bool {
        let part = |text: &str| BASE64.decode(text.trim_end_matches('=')).unwrap_or_default();
        let plain = |algorithm: &'static dyn VerificationAlgorithm, key: Vec<u8>| {
            UnparsedPublicKey::new(algorithm, key).verify(self.signed.as_bytes(), &self.signature)
        };
        let rsa = |parameters: &RsaParameters| {
            let (n, e) = (part(&key.n), part(&key.e));
            let key = RsaPublicKeyComponents { n, e };
            key.verify(parameters, self.signed.as_bytes(), &self.signature)
        };
        let verified = match self.algorithm {
            Algorithm::Rs256 => rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Ps256 => rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Es256 => {
                let point = [vec![4], part(&key.x), part(&key.y)].concat();
                plain(&ECDSA_P256_SHA256_FIXED, point)
            }
            Algorithm::EdDsa => plain(&ED25519, part(&key.x)),
        };
        verified.is_ok()
    }
}

impl Jwk {
    /// Returns `true` if the key is for signatures by this algorithm.
    fn fits(&self, algorithm: Algorithm) -> bool {
        let (name, kind, curve) = match algorithm {
            Algorithm::Rs256 => ("RS256", "RSA", ""),
            Algorithm::Ps256 => ("PS256", "RSA", ""),
            Algorithm::Es256 => ("ES256", "EC", "P-256"),
            Algorithm::EdDsa => ("EdDSA", "OKP", "Ed25519"),
        };
        self.kty == kind
            && (curve.is_empty() || self.crv == curve)
            && self.usage.as_deref().is_none_or(|it| it == "sig")
            && self.alg.as_deref().is_none_or(|it| it == name)
    }
}
