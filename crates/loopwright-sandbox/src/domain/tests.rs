use super::AllowedDomain;

fn domain(text: &str) -> AllowedDomain {
    text.parse().unwrap()
}

#[test]
fn a_name_is_reached_on_the_usual_ports_and_on_no_other() {
    let plain = domain("example.com");
    let ports = [443, 80, 22, 8443, 25].map(|port| plain.matches("example.com", port));
    assert_eq!(ports, [true, true, false, false, false]);
    let named = domain("example.com:8443");
    assert_eq!([443, 8443].map(|port| named.matches("example.com", port)), [false, true]);
}

#[test]
fn a_pattern_names_hosts_below_a_domain_and_neither_the_domain_nor_others() {
    let below = domain("*.example.com");
    let hosts =
        ["a.example.com", "b.a.example.com", "example.com", ".example.com", "notexample.com"];
    assert_eq!(hosts.map(|host| below.names(host)), [true, true, false, false, false]);
}

#[test]
fn texts_that_name_no_host_are_refused() {
    for text in [
        "",
        "*",
        "*.com",
        "example.com/path",
        "https://example.com",
        "a b",
        "127.0.0.1",
        "[::1]",
        "0x7f.1",
        "2130706433",
        "1.2.3",
        "example.com:0",
        "example.com:99999",
        "example.com:+1",
        "-a.com",
        "a..b",
        "ex*mple.com",
        "*.example.com@1.2.3.4",
        "example.com@host",
        "user@example.com",
        "exämple.com",
        "a\0b",
    ] {
        assert!(text.parse::<AllowedDomain>().is_err(), "{text:?}");
    }
}

#[test]
fn a_written_domain_pattern_is_read_back() {
    for text in
        ["example.com", "*.example.com:8080", "registry.internal:5000@10.0.0.5", "localhost@::1"]
    {
        assert_eq!(domain(text).to_string(), text);
        assert_eq!(serde_json::to_string(&domain(text)).unwrap(), format!("\"{text}\""));
    }
    assert_eq!(domain(" Example.COM. ").to_string(), "example.com");
}
