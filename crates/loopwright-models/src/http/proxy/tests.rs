use super::*;

fn proxies(vars: &[(&str, &str)]) -> Proxies {
    Proxies::from_vars(|name| {
        vars.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
    })
}

/// Returns the proxy that leads to a server, as `scheme host:port`.
fn way(vars: &[(&str, &str)], url: &str) -> Option<String> {
    let proxies = proxies(vars);
    let proxy = proxies.leading_to(&Url::parse(url).unwrap())?;
    Some(format!("{:?} {}:{}", proxy.scheme, proxy.host, proxy.port))
}

#[test]
fn variables_name_a_proxy_for_each_scheme() {
    let vars = [("HTTPS_PROXY", "http://a:3128/path"), ("http_proxy", "b")];
    assert_eq!(way(&vars, "https://x").as_deref(), Some("Http a:3128"));
    assert_eq!(way(&vars, "http://x").as_deref(), Some("Http b:80"));
    assert_eq!(way(&[("all_proxy", "https://c")], "http://x").as_deref(), Some("Https c:443"));
    assert_eq!(way(&[("ALL_PROXY", "[::2]:81")], "https://x").as_deref(), Some("Http ::2:81"));
    assert_eq!(way(&[("ALL_PROXY", "socks5h://c")], "http://x").as_deref(), Some("Socks c:80"));
    for text in ["", "ftp://a", "://", "http://"] {
        assert_eq!(way(&[("HTTPS_PROXY", text)], "https://x"), None, "{text}");
    }
}

#[test]
fn upper_case_counts_before_lower_case_even_if_it_is_empty() {
    assert_eq!(way(&[("HTTPS_PROXY", ""), ("https_proxy", "a")], "https://x"), None);
}

#[test]
fn a_cgi_program_takes_no_proxy_from_its_caller() {
    assert_eq!(way(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "a")], "http://x"), None);
}

#[test]
fn servers_on_this_machine_need_no_proxy() {
    for url in ["http://localhost:8080", "https://127.0.0.3", "http://[::1]:1"] {
        assert_eq!(way(&[("ALL_PROXY", "a")], url), None, "{url}");
    }
}

#[test]
fn a_user_in_an_address_is_sent_as_a_header() {
    let proxy = Proxy::parse("http://Aladdin:open%20sesame@a").unwrap();
    assert_eq!(proxy.authorization.unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_eq!(Proxy::parse("u@a").unwrap().authorization.unwrap(), "Basic dTo=");
    assert_eq!(Proxy::parse("a").unwrap().authorization, None);
    assert!(!format!("{:?}", Proxy::parse("u:p@a")).contains("Basic"));
}

#[test]
fn exceptions_are_domains_with_what_is_below_them_addresses_and_networks() {
    let list = " google.com, .example.org ,10.1.0.0/16,192.168.1.42,2001:db8::/32, ,::ffff/129";
    let vars = [("ALL_PROXY", "proxy"), ("no_proxy", list)];
    for (host, is_excepted) in [
        ("google.com", true),
        ("WWW.google.com", true),
        ("notgoogle.com", false),
        ("google.com.evil", false),
        ("example.org", true),
        ("a.b.example.org", true),
        ("example.com", false),
        ("10.1.200.3", true),
        ("10.2.0.0", false),
        ("192.168.1.42", true),
        ("192.168.1.43", false),
        ("[2001:db8:1::9]", true),
        ("[2001:db9::9]", false),
    ] {
        assert_eq!(way(&vars, &format!("https://{host}")).is_none(), is_excepted, "{host}");
    }
    assert_eq!(way(&[("ALL_PROXY", "a"), ("NO_PROXY", "*")], "http://x"), None);
}

#[test]
fn only_localhost_and_loopback_addresses_are_this_machine() {
    let is_local = |url: &str| is_loopback(&Url::parse(url).unwrap());
    for url in ["http://LOCALHOST:8080", "https://127.0.0.3/a", "http://[::1]:1", "http://0x7f.1"] {
        assert!(is_local(url), "{url}");
    }
    for url in [
        "http://localhost.example",
        "http://a.localhost",
        "http://127.0.0.1.example",
        "http://localhost@a.example",
        "http://128.0.0.1",
        "http://0.0.0.0",
        "http://[::2]",
        "http://[::ffff:127.0.0.1]",
        "data:text/plain,localhost",
    ] {
        assert!(!is_local(url), "{url}");
    }
}
