use proptest::prelude::*;

use super::{BadRequest, Kind, Request, read};

type Told = Result<(String, u16, String), (u16, Option<String>)>;

fn told(head: &str) -> Told {
    match read(head.as_bytes()) {
        Ok(Request { host, port, kind: Kind::Tunnel }) => Ok((host, port, String::new())),
        Ok(Request { host, port, kind: Kind::Plain { head, body } }) => {
            Ok((host, port, format!("{}|{body}", String::from_utf8(head).unwrap())))
        }
        Err(BadRequest { status, host, .. }) => Err((status, host)),
    }
}

fn check(head: &str, (host, port): (&str, u16), rest: &str) {
    assert_eq!(told(head), Ok((host.to_owned(), port, rest.to_owned())), "{head:?}");
}

#[test]
fn a_tunnel_names_its_host_and_port() {
    let head = "CONNECT Example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nUser-Agent: x\r\n\r\n";
    check(head, ("example.com", 443), "");
    check("CONNECT a.b:8443 HTTP/1.0\r\n\r\n", ("a.b", 8443), "");
}

#[test]
fn a_plain_request_is_written_anew_for_its_server() {
    let head = "POST http://example.com:8080/a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nAccept: */*\r\n\
                Connection: keep-alive, X\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\n";
    let written = "POST /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nAccept: */*\r\nContent-Length: 3\r\n\
                   Connection: close\r\n\r\n|3";
    check(head, ("example.com", 8080), written);
    let head = "GET http://example.com HTTP/1.1\r\n\r\n";
    let written = "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n|0";
    check(head, ("example.com", 80), written);
}

#[test]
fn another_name_in_the_header_is_refused() {
    for head in [
        "GET http://granted.com/ HTTP/1.1\r\nHost: other.com\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nHost: granted.com\r\nHost: other.com\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nHost: granted.com\r\nhost: granted.com\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nHost: granted.com:81\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nHost:\r\n\r\n",
        "CONNECT granted.com:443 HTTP/1.1\r\nHost: other.com:443\r\n\r\n",
    ] {
        assert_eq!(told(head), Err((403, Some("granted.com".to_owned()))), "{head:?}");
    }
}

#[test]
fn an_ambiguous_request_is_refused() {
    for head in [
        "",
        "\r\n\r\n",
        "GET /path HTTP/1.1\r\nHost: granted.com\r\n\r\n",
        "GET https://granted.com/ HTTP/1.1\r\n\r\n",
        "GET http://granted.com/\nHost: x HTTP/1.1\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\nHost: granted.com\n\n",
        "GET http://granted.com/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nHost : granted.com\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nA: b\nHost: other.com\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET http://granted.com/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        "GET http://granted.com@other.com/ HTTP/1.1\r\n\r\n",
        "GET http://other.com\\@granted.com/ HTTP/1.1\r\n\r\n",
        "GET http://127.0.0.1/ HTTP/1.1\r\n\r\n",
        "GET http://[::1]/ HTTP/1.1\r\n\r\n",
        "GET http://2130706433/ HTTP/1.1\r\n\r\n",
        "GET http://granted.com:/ HTTP/1.1\r\n\r\n",
        "GET http://granted.com:99999/ HTTP/1.1\r\n\r\n",
        "GET  http://granted.com/ HTTP/1.1\r\n\r\n",
        "GET http://granted.com/ HTTP/2.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "CONNECT granted.com HTTP/1.1\r\n\r\n",
        "CONNECT granted.com:443:80 HTTP/1.1\r\n\r\n",
        "CONNECT 169.254.169.254:443 HTTP/1.1\r\n\r\n",
        "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\n\r\n",
        "CONNECT granted.com%00.other.com:443 HTTP/1.1\r\n\r\n",
        "CONNECT http://granted.com:443 HTTP/1.1\r\n\r\n",
    ] {
        assert!(told(head).is_err(), "{head:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(read(&bytes));
    }

    #[test]
    fn the_head_for_a_server_names_the_host_that_was_checked_and_no_other(
        headers in proptest::collection::vec(("[A-Za-z-]{1,9}", "[ -~\t\r\n]{0,12}"), 0..5),
    ) {
        let mut head = "GET http://granted.com/ HTTP/1.1\r\nHost: granted.com\r\n".to_owned();
        for (name, value) in headers {
            head.extend([name.as_str(), ": ", &value, "\r\n"]);
        }
        head.push_str("\r\n");
        if let Ok(Request { host, kind: Kind::Plain { head, .. }, .. }) = read(head.as_bytes()) {
            let text = String::from_utf8(head).unwrap();
            let hosts = text.split("\r\n").filter(|line| line.to_ascii_lowercase().starts_with("host"));
            let hosts: Vec<&str> = hosts.filter(|line| line.len() > 4 && &line[4..5] == ":").collect();
            prop_assert_eq!(hosts, vec!["Host: granted.com"]);
            prop_assert_eq!(host, "granted.com");
            prop_assert_eq!(text.matches("\r\n\r\n").count(), 1);
        }
    }
}
