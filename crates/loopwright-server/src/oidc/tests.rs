use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::HeaderMap;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use loopwright_core::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::jwt::Jwk;
use super::*;
use crate::access::AccessControl;

const NOW: u64 = 1_800_000_000;

/// An issuer on this machine, with two keys.
#[derive(Clone)]
struct Issuer {
    url: String,
    documents: Arc<Mutex<Documents>>,
}

struct Documents {
    discovery: Value,
    keys: Vec<Value>,
    is_away: bool,
    requests: usize,
}

enum Signer {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl Signer {
    fn es256() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Es256(EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap())
    }

    fn ed_dsa() -> Self {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::EdDsa(Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap())
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Es256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                let (x, y) = (BASE64.encode(x), BASE64.encode(y));
                json!({ "kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": x, "y": y })
            }
            Self::EdDsa(pair) => {
                let x = BASE64.encode(pair.public_key());
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": x })
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |it: &Value| BASE64.encode(it.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = match self {
            Self::Es256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
                BASE64.encode(signature)
            }
            Self::EdDsa(pair) => BASE64.encode(pair.sign(signed.as_bytes())),
        };
        format!("{signed}.{signature}")
    }
}

impl Issuer {
    async fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/realm", listener.local_addr().unwrap());
        let discovery = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        let documents = Documents { discovery, keys: keys.into(), is_away: false, requests: 0 };
        let issuer = Self { url, documents: Arc::new(Mutex::new(documents)) };
        let served = issuer.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let (status, body) = served.answer(head.split(' ').nth(1).unwrap());
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        issuer
    }

    fn answer(&self, path: &str) -> (u16, String) {
        let mut documents = self.documents.lock().unwrap();
        documents.requests += 1;
        match path {
            _ if documents.is_away => (503, String::new()),
            "/realm/.well-known/openid-configuration" => (200, documents.discovery.to_string()),
            "/realm/keys" => (200, json!({ "keys": documents.keys }).to_string()),
            _ => (404, String::new()),
        }
    }

    fn accepted(&self) -> OidcIssuer {
        OidcIssuer::new(&*self.url, "loopwright").unwrap().with_role(Role::Run)
    }

    fn claims(&self) -> Value {
        json!({
            "iss": self.url, "aud": "loopwright", "sub": "ada", "exp": NOW + 600, "iat": NOW,
        })
    }

    fn requests(&self) -> usize {
        self.documents.lock().unwrap().requests
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn header(algorithm: &str, id: &str) -> Value {
    json!({ "alg": algorithm, "kid": id, "typ": "JWT" })
}

/// Returns the principal, or the reason why there is none.
async fn seen(issuer: &OidcIssuer, token: &str, now: u64) -> Result<Principal, String> {
    issuer.principal(token, at(now)).await.map_err(|refused| match refused {
        Refused::Invalid(reason) => reason.0.to_owned(),
        Refused::Unavailable(reason) => format!("unavailable: {reason}"),
    })
}

#[tokio::test]
async fn tokens_that_the_issuer_has_signed_give_its_principal() {
    for (signer, algorithm) in [(Signer::es256(), "ES256"), (Signer::ed_dsa(), "EdDSA")] {
        let issuer = Issuer::start(&[signer.jwk("1")]).await;
        let token = signer.sign(&header(algorithm, "1"), &issuer.claims());
        let accepted = issuer.accepted();
        let ada = Ok(Principal::new("ada", Role::Run));
        assert_eq!(seen(&accepted, &token, NOW).await, ada);
        let mut claims = issuer.claims();
        claims["aud"] = json!(["other", "loopwright"]);
        let several = signer.sign(&header(algorithm, "1"), &claims);
        assert_eq!(seen(&accepted, &several, NOW).await, ada);
        assert_eq!(issuer.requests(), 2);
    }
}

#[tokio::test]
async fn claims_that_do_not_fit_are_refused() {
    let signer = Signer::es256();
    let issuer = Issuer::start(&[signer.jwk("1")]).await;
    let accepted = issuer.accepted();
    let check = async |name: &str, value: Value, expect: &str| {
        let mut claims = issuer.claims();
        claims[name] = value;
        let token = signer.sign(&header("ES256", "1"), &claims);
        assert_eq!(seen(&accepted, &token, NOW).await, Err(expect.to_owned()), "{name}");
    };
    check("iss", json!("https://other.example"), "the issuer does not match").await;
    check("iss", json!(format!("{}/", issuer.url)), "the issuer does not match").await;
    check("aud", json!("other"), "the audience does not match").await;
    check("aud", json!(["other"]), "the audience does not match").await;
    check("aud", Value::Null, "the audience does not match").await;
    check("exp", json!(NOW - 60), "it has expired").await;
    check("exp", Value::Null, "the expiry time is missing").await;
    check("exp", json!("never"), "the expiry time is missing").await;
    check("nbf", json!(NOW + 61), "the validity period has not started").await;
    check("nbf", json!("later"), "the validity period has not started").await;
    check("iat", json!(NOW + 61), "the validity period has not started").await;
    for name in [json!("local"), json!(""), json!(7), json!("a".repeat(129))] {
        check("sub", name, "the principal is missing or invalid").await;
    }
    // The clocks may differ by a minute.
    let mut claims = issuer.claims();
    (claims["exp"], claims["nbf"]) = (json!(NOW - 59), json!(NOW + 60));
    let token = signer.sign(&header("ES256", "1"), &claims);
    assert!(seen(&accepted, &token, NOW).await.is_ok());
    let strict = issuer.accepted().with_clock_skew(Duration::ZERO);
    assert_eq!(seen(&strict, &token, NOW).await, Err("it has expired".to_owned()));
}

#[tokio::test]
async fn tokens_that_are_forged_or_malformed_are_refused() {
    let (signer, other) = (Signer::es256(), Signer::es256());
    let issuer = Issuer::start(&[signer.jwk("1"), Signer::ed_dsa().jwk("2")]).await;
    let (accepted, claims) = (issuer.accepted(), issuer.claims());
    let token = signer.sign(&header("ES256", "1"), &claims);
    let unsigned = "the signature matches none of the issuer's keys";
    let check = async |token: &str, expect: &str| {
        assert_eq!(seen(&accepted, token, NOW).await, Err(expect.to_owned()), "{token}");
    };
    check(&other.sign(&header("ES256", "1"), &claims), unsigned).await;
    check(&signer.sign(&header("ES256", "2"), &claims), unsigned).await;
    check(&signer.sign(&header("EdDSA", "1"), &claims), unsigned).await;
    for algorithm in ["none", "None", "HS256", "RS512", "ES256K"] {
        let token = signer.sign(&header(algorithm, "1"), &claims);
        check(&token, "the algorithm is not allowed").await;
    }
    let critical = json!({ "alg": "ES256", "kid": "1", "crit": ["b64"], "b64": false });
    check(&signer.sign(&critical, &claims), "critical extensions are not supported").await;
    let (content, _) = token.rsplit_once('.').unwrap();
    check(&format!("{content}."), unsigned).await;
    let mut changed = claims.clone();
    changed["sub"] = "eve".into();
    let (head, signature) = (token.split('.').next().unwrap(), token.rsplit('.').next().unwrap());
    let changed = BASE64.encode(changed.to_string());
    check(&format!("{head}.{changed}.{signature}"), unsigned).await;
    for malformed in ["", "a.b", "..", "a.b.c.d", "e30.e30.", "{}.{}.{}", content] {
        check(malformed, "it is malformed").await;
    }
    check(&signer.sign(&header("ES256", "1"), &json!(["a"])), "it is malformed").await;
    check(&"a".repeat(MAX_TOKEN + 1), "the text is too long").await;
}

#[tokio::test]
async fn a_claim_gives_the_highest_role_of_its_values() {
    let signer = Signer::es256();
    let issuer = Issuer::start(&[signer.jwk("1")]).await;
    let roles = [("readers", Role::Read), ("operators", Role::Admin)];
    let roles = roles.map(|(value, role)| (value.to_owned(), role));
    let accepted = OidcIssuer::new(&*issuer.url, "loopwright").unwrap();
    let accepted = accepted.with_role_claim("groups", roles).with_principal_claim("email");
    let role = async |groups: Value| {
        let mut claims = issuer.claims();
        (claims["groups"], claims["email"]) = (groups, "ada@a.example".into());
        let token = signer.sign(&header("ES256", "1"), &claims);
        seen(&accepted, &token, NOW).await
    };
    let ada = |role| Ok(Principal::new("ada@a.example", role));
    assert_eq!(role(json!(["operators", "readers", "x"])).await, ada(Role::Admin));
    assert_eq!(role(json!("readers")).await, ada(Role::Read));
    for none in [json!(["x"]), json!("operators readers"), Value::Null] {
        assert_eq!(role(none).await, Err("the token grants no role on this server".to_owned()));
    }
}

#[tokio::test]
async fn keys_are_read_again_for_an_unknown_key_but_not_for_each_token() {
    let (first, second) = (Signer::es256(), Signer::es256());
    let issuer = Issuer::start(&[first.jwk("1")]).await;
    let (accepted, claims) = (issuer.accepted(), issuer.claims());
    let of_first = first.sign(&header("ES256", "1"), &claims);
    let of_second = second.sign(&header("ES256", "2"), &claims);
    assert!(seen(&accepted, &of_first, NOW).await.is_ok());
    issuer.documents.lock().unwrap().keys = vec![second.jwk("2")];
    for _ in 0..3 {
        assert!(seen(&accepted, &of_second, NOW + 29).await.is_err());
    }
    assert_eq!(issuer.requests(), 2);
    assert!(seen(&accepted, &of_second, NOW + 30).await.is_ok());
    // The issuer has withdrawn the first key.
    assert!(seen(&accepted, &of_first, NOW + 30).await.is_err());
    assert_eq!(issuer.requests(), 4);
}

#[tokio::test]
async fn an_issuer_that_is_away_makes_no_token_valid_and_known_keys_last_a_day() {
    let signer = Signer::es256();
    let issuer = Issuer::start(&[signer.jwk("1")]).await;
    let mut claims = issuer.claims();
    claims["exp"] = json!(NOW + 1_000_000);
    let (accepted, token) = (issuer.accepted(), signer.sign(&header("ES256", "1"), &claims));
    issuer.documents.lock().unwrap().is_away = true;
    let away = "unavailable: the issuer responded with status 503";
    assert_eq!(seen(&accepted, &token, NOW).await, Err(away.to_owned()));
    issuer.documents.lock().unwrap().is_away = false;
    assert!(seen(&accepted, &token, NOW + 30).await.is_ok());
    issuer.documents.lock().unwrap().is_away = true;
    assert!(seen(&accepted, &token, NOW + 7200).await.is_ok());
    assert_eq!(seen(&accepted, &token, NOW + 30 + 86_400).await, Err(away.to_owned()));
}

#[tokio::test]
async fn a_discovery_document_of_another_issuer_or_with_an_unsafe_address_is_refused() {
    let signer = Signer::es256();
    let issuer = Issuer::start(&[signer.jwk("1")]).await;
    let token = signer.sign(&header("ES256", "1"), &issuer.claims());
    for (discovery, expect) in [
        (
            json!({ "issuer": "https://a.example", "jwks_uri": format!("{}/keys", issuer.url) }),
            "unavailable: the discovery document names another issuer, `https://a.example`",
        ),
        (
            json!({ "issuer": issuer.url, "jwks_uri": "http://a.example/keys" }),
            "unavailable: the address of the issuer's keys is invalid: http://a.example/keys",
        ),
        (json!({ "issuer": issuer.url }), "unavailable: a document from the issuer cannot be read"),
    ] {
        issuer.documents.lock().unwrap().discovery = discovery;
        assert_eq!(seen(&issuer.accepted(), &token, NOW).await, Err(expect.to_owned()));
    }
}

#[test]
fn issuers_need_tls_unless_they_are_on_this_machine() {
    for url in ["https://a.example", "http://127.0.0.1:1", "http://[::1]:1/a", "http://localhost"] {
        assert!(OidcIssuer::new(url, "a").is_ok(), "{url}");
    }
    for url in ["http://a.example", "a.example", "https://a.example?b", "ftp://localhost"] {
        let error = OidcIssuer::new(url, "a").unwrap_err();
        assert_eq!(error, InvalidIssuer::Url(url.to_owned()));
    }
    assert_eq!(OidcIssuer::new("https://a.example", "").unwrap_err(), InvalidIssuer::Audience);
}

/// The key and the signature were made by OpenSSL.
#[test]
fn a_signature_by_rsa_is_verified() {
    let key = json!({
        "kty": "RSA",
        "n": "vkAUR_U4uCQTFTqC0yzbySjvwLMzrmxIgjhUySJ2sqWgx_BhupIkXehdUzJav_iwEigtnrsgN61hbAr8e3J-6l4v3BMb4P1RpI5HB6AQ6o40XYfhKEPo3KFI72o3bib1WIlw4a8TkgT5geg_kh7EA2P18no_kAPCvt88nrcCw2ZaUK07bVjR656P4RS_jSEcS26adz8zsW6rxFeAe5ehN_taYmWezEKuk_DX_qXGXh6_TPTnAwf_n0mcORhaDJhT8ZsdkWKvZvRpQHz-3BDDclqRb-RMqPFGzHnBeGzMgWeGMbhNf0Fba5jSA3NUYYz6j4j5ysTdsQ_oySEYaqHFKQ",
        "e": "AQAB",
    });
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLCJleHAiOjEzMDA4MTkzODB9.MzRB3jg9WZrVMR5E1WIhE8qMZZWl_fYv1rxpLSQe_1z9SOhjWZDrjwkZbqXDHFuk1Kzhkqh5s__BPOuDg5FVlKjrt2ufZTS8QFkW23cFAl9SZ_BsUwIySNyGCGjrySF-cklqy1M9pEadVpzQ1sMgrJXxRvtr1BQUHkoG63nEb8Gfzl6_0I1G-GJXHXFnQwjVzDq_ZKla4VkYVgAIPfbwlUbsH6k1kJR5oO0Fa66SobHAnxhmkpzN2VlQIZal-37ACbpF-yXERAgVghkkx5uuOOouFcD0KdnTkpGDYzoEvL2q8suQY_ws-3HlbifdxfSc06xam4d2dtyN2xVuoo6f3Q";
    let key: Jwk = serde_json::from_value(key).unwrap();
    let claims = Jwt::parse(token).unwrap().verify(std::slice::from_ref(&key)).unwrap();
    assert_eq!(claims["iss"], "joe");
    let other = token.replace("eyJhbGciOiJSUzI1NiJ9", "eyJhbGciOiJQUzI1NiJ9");
    assert!(Jwt::parse(&other).unwrap().verify(&[key]).is_err());
}

#[tokio::test]
async fn requests_with_a_token_of_the_issuer_are_those_of_its_principal() {
    let signer = Signer::es256();
    let issuer = Issuer::start(&[signer.jwk("1")]).await;
    let token = signer.sign(&header("ES256", "1"), &issuer.claims());
    let access = AccessControl::new().with_local_token("secret").with_issuer(issuer.accepted());
    let sent = async |token: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        access.principal(&headers, at(NOW)).await.map_err(|it| it.status().as_u16())
    };
    issuer.documents.lock().unwrap().is_away = true;
    assert_eq!(sent(&token).await, Err(503));
    assert_eq!([sent("secret").await, sent("other").await], [Ok(Principal::local()), Err(401)]);
    issuer.documents.lock().unwrap().is_away = false;
    let expired = signer.sign(&header("ES256", "1"), &json!({ "exp": 0 }));
    let access = AccessControl::new().with_issuer(issuer.accepted());
    let mut headers = HeaderMap::new();
    for (token, expect) in [(&token, Ok(Principal::new("ada", Role::Run))), (&expired, Err(401))] {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let found = access.principal(&headers, at(NOW)).await;
        assert_eq!(found.map_err(|it| it.status().as_u16()), expect);
    }
}
