//! The base URL of a provider.

use std::fmt;

use super::value::SettingValue;

/// An address of a provider that is safe to print: it has no place for a password or a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SettingValue for BaseUrl {
    const EXPECTED: &'static str =
        "an `http://` or `https://` address without a user name, password, query or fragment";
    const EXAMPLE: &'static str = "\"http://localhost:11434/v1\"";

    fn from_text(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_http = ["http", "https"].iter().any(|http| scheme.eq_ignore_ascii_case(http));
        let authority = rest.split('/').next()?;
        let has_host = !authority.is_empty() && !authority.starts_with(':');
        let is_plain = !authority.contains('@') && !rest.contains(is_out_of_place);
        (is_http && has_host && is_plain).then(|| Self(text.to_owned()))
    }
}

fn is_out_of_place(c: char) -> bool {
    matches!(c, '?' | '#' | '\\') || c.is_whitespace() || c.is_control()
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_are_accepted_as_they_are_written() {
        for url in
            ["http://localhost:8080", "https://api.example.com/v1/", "HTTPS://[::1]:80/a@b/c"]
        {
            assert_eq!(BaseUrl::from_text(url).unwrap().as_str(), url);
        }
    }

    #[test]
    fn whatever_may_carry_a_secret_or_is_no_address_is_refused() {
        for url in [
            "",
            "localhost:8080",
            "ftp://example.com",
            "https://",
            "https:///v1",
            "https://:80/",
            "https://user:password@example.com/v1",
            "https://user@example.com/v1",
            "https://example.com/v1?key=abc",
            "https://example.com/#a",
            "https://example.com\\@other.com",
            "https://example.com/a b",
            "https://example.com/\n",
        ] {
            assert_eq!(BaseUrl::from_text(url), None, "{url}");
        }
    }
}
