//! Bearer tokens of an issuer.

use std::sync::LazyLock;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::jwt::{Jwk, Jwt};

/// What the only signed token claims.
const CLAIMS: &str =
    r#"{"iss":"https://login.example.com","sub":"ada","aud":"loopwright","exp":1800000300}"#;

static PAIR: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("the seed has 32 bytes"));

/// The keys of the issuer, one for each algorithm. Only that of EdDSA has signed something.
static KEYS: LazyLock<Vec<Jwk>> = LazyLock::new(|| {
    // No input has a signature by these keys.
    let x = "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4";
    let y = "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM";
    let n = BASE64.encode([0xb7; 256]);
    let keys = [
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": "1", "x": BASE64.encode(PAIR.public_key()) }),
        json!({ "kty": "EC", "crv": "P-256", "kid": "2", "use": "sig", "x": x, "y": y }),
        json!({ "kty": "RSA", "kid": "3", "n": n, "e": "AQAB" }),
        json!({ "kty": "RSA", "alg": "PS256", "n": n, "e": "AQAB" }),
    ];
    keys.into_iter().map(|it| serde_json::from_value(it).expect("it is a key")).collect()
});

/// Returns a token with this header, signed by the issuer.
fn signed(header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
    format!("{signed}.{}", BASE64.encode(PAIR.sign(signed.as_bytes())))
}

/// Returns the first inputs: the token, and some that pretend to be.
pub fn seeds() -> Vec<String> {
    let token = signed(r#"{"alg":"EdDSA","kid":"1"}"#, CLAIMS);
    let (body, signature) = token.rsplit_once('.').expect("it has three parts");
    let payload = body.split_once('.').expect("it has three parts").1;
    let headers = [
        r#"{"alg":"none"}"#,
        r#"{"alg":"HS256","kid":"1"}"#,
        r#"{"alg":"RS256","kid":"3"}"#,
        r#"{"alg":"PS256"}"#,
        r#"{"alg":"ES256","kid":"2","typ":"JWT"}"#,
        r#"{"alg":"EdDSA","crit":["exp"]}"#,
        r#"{"alg":["EdDSA"],"kid":null}"#,
    ];
    let other = |header: &&str| format!("{}.{payload}.{signature}", BASE64.encode(header));
    let key = r#"{"kty":"OKP","crv":"Ed25519","x":"","use":"sig"}"#;
    let mut seeds: Vec<String> = headers.iter().map(other).collect();
    seeds.extend([format!("{token}\n{key}"), token]);
    seeds
}

/// Reads a token and, after a line feed, a key. No other claims than those that were signed are believed.
///
/// # Panics
///
/// If a token is believed that the issuer has not signed.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (token, key) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(read) = Jwt::parse(token) else { return };
    if let Ok(claims) = read.verify(&KEYS) {
        let expect: Value = serde_json::from_str(CLAIMS).expect("they are JSON");
        assert_eq!(claims, expect);
        assert!(read.key_id().is_none_or(|it| it == "1"));
    }
    if let Ok(key) = serde_json::from_str::<Jwk>(key) {
        // A key that the input chose may have signed it.
        let _claims = read.verify(&[key]);
    }
}
