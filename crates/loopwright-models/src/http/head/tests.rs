use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    list.iter().map(pair).collect()
}

fn written(
    method: &Method,
    address: &str,
    list: &[(&'static str, &'static str)],
    length: usize,
) -> String {
    String::from_utf8(write_head(method, &url(address), &headers(list), length, Route::default()))
        .unwrap()
}

#[test]
fn a_head_names_server_length_and_what_was_given() {
    let agent = format!("user-agent: {USER_AGENT}\r\n");
    assert_eq!(
        written(&Method::POST, "http://a:81/v1/x?y=%20", &[("authorization", "Bearer k")], 3),
        format!(
            "POST /v1/x?y=%20 HTTP/1.1\r\nhost: a:81\r\n{agent}accept: */*\r\n\
             accept-encoding: identity\r\nauthorization: Bearer k\r\ncontent-length: 3\r\n\r\n"
        )
    );
    assert_eq!(
        written(&Method::GET, "http://[::1]", &[("accept", "a/b")], 0),
        format!(
            "GET / HTTP/1.1\r\nhost: [::1]\r\n{agent}accept-encoding: identity\r\naccept: a/b\r\n\r\n"
        )
    );
    assert_eq!(
        written(
            &Method::GET,
            "http://a",
            &[("host", "b"), ("user-agent", "c"), ("accept", "d")],
            0
        ),
        "GET / HTTP/1.1\r\nhost: b\r\naccept-encoding: identity\r\nuser-agent: c\r\naccept: d\r\n\r\n"
    );
}

#[test]
fn a_caller_cannot_say_where_a_body_ends() {
    let said =
        [("content-length", "9"), ("transfer-encoding", "chunked"), ("expect", "100-continue")];
    let head = written(&Method::POST, "http://a", &said, 0);
    assert!(head.ends_with("content-length: 0\r\n\r\n") && !head.contains("chunked"), "{head}");
}

#[test]
fn a_head_is_read_when_it_is_whole() {
    let text = b"HTTP/1.1 200 OK\r\nA: b\r\na: c\r\n\r\nrest";
    for end in 0..text.len() - 4 {
        assert!(parse(&text[..end]).unwrap().is_none(), "{end}");
    }
    let (length, head) = parse(text).unwrap().unwrap();
    assert_eq!((length, head.status, head.is_kept), (text.len() - 4, 200, true));
    let values: Vec<_> = head.headers.get_all("a").into_iter().map(HeaderValue::as_bytes).collect();
    assert_eq!(values, [b"b", b"c"]);
}

#[test]
fn a_server_says_whether_it_leaves_the_connection_open() {
    for (text, is_kept) in [
        ("HTTP/1.1 200 OK\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", true),
    ] {
        assert_eq!(parse(text.as_bytes()).unwrap().unwrap().1.is_kept, is_kept, "{text}");
    }
}

#[test]
fn an_invalid_head_is_refused() {
    let many = "a: b\r\n".repeat(MAX + 1);
    for text in [
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\na b\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
    ] {
        assert_eq!(
            parse(text.as_bytes()).unwrap_err().kind(),
            io::ErrorKind::InvalidData,
            "{text}"
        );
    }
    let endless = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MAX_LENGTH));
    assert_eq!(
        parse(endless.as_bytes()).unwrap_err().to_string(),
        "the response headers are too \
        long"
    );
}
