use super::*;

/// The keys of AWS's own published examples.
fn variable(name: &str) -> Option<String> {
    let value = match name {
        "AWS_ACCESS_KEY_ID" => "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY" => "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        "AWS_SESSION_TOKEN" => "session-token",
        "AWS_REGION" => "eu-west-1",
        _ => return None,
    };
    Some(value.to_owned())
}

fn address(host: &str) -> Url {
    Url::parse(&format!("https://{host}/model/a.b-v1%3A0/converse")).unwrap()
}

fn signed(url: &Url) -> HeaderMap {
    let signer = AwsSigner::of_variables(&variable, url).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let now = Timestamp::from_millis(1_440_938_160_000);
    let context = ErrorContext::new("p");
    signer.sign(url, &mut headers, b"{\"messages\":[]}", now, &context).unwrap();
    headers
}

/// The signature is that of another implementation, written after AWS's description.
#[test]
fn a_signature_is_made_of_the_request_and_the_time() {
    let headers = signed(&address("bedrock-runtime.us-east-1.amazonaws.com"));
    let header = |name: &str| headers[name].to_str().unwrap();
    assert_eq!(header("x-amz-date"), "20150830T123600Z");
    assert_eq!(header("x-amz-security-token"), "session-token");
    assert_eq!(
        header("authorization"),
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, \
         Signature=974a1931c2e49470c7774ceb5826d0001c9d24bd17e99531160c64912a96af4b"
    );
    assert!(headers["authorization"].is_sensitive());
}

#[test]
fn the_region_is_that_of_the_address_or_of_a_variable() {
    for (host, region) in [
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("proxy.example", "eu-west-1"),
    ] {
        let signer = AwsSigner::of_variables(&variable, &address(host)).unwrap();
        assert_eq!(signer.region, region, "{host}");
    }
}

#[test]
fn nothing_is_signed_without_keys_or_a_region() {
    let of = |missing: &'static str| {
        let variables = move |name: &str| variable(name).filter(|_| name != missing);
        AwsSigner::of_variables(&variables, &address("proxy.example")).is_some()
    };
    assert_eq!(
        ["", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"]
            .map(of),
        [true, true, false, false, false]
    );
}

#[test]
fn keys_are_not_shown() {
    let url = address("bedrock-runtime.us-east-1.amazonaws.com");
    let signer = AwsSigner::of_variables(&variable, &url).unwrap();
    let shown = format!("{signer:?}");
    assert!(!shown.contains("AKIDEXAMPLE") && !shown.contains("EXAMPLEKEY"), "{shown}");
    assert_eq!(signer.secrets().len(), 3);
}
