//! Paths in `file://` URLs.

/// Returns the path of a `file://` URL. The name of a host before it is ignored.
pub(crate) fn path(url: &str) -> Option<String> {
    let rest = url.strip_prefix("file://")?;
    let path = rest.find('/').map_or(rest, |start| &rest[start..]);
    Some(decoded(path))
}

/// Replaces `%20` and similar sequences by the characters that they encode.
fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = hex.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            plain.push(byte);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_path_without_host_and_escapes() {
        let expect = |url, expect: Option<&str>| assert_eq!(path(url).as_deref(), expect, "{url}");
        expect("file:///w/a%20b.rs", Some("/w/a b.rs"));
        expect("file://localhost/w/%C3%A4%", Some("/w/ä%"));
        expect("/w/a%20b.rs", None);
        expect("https://example.com/a", None);
    }
}
