//! IDs of sessions and jobs.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The most characters of a name.
const MAX_LENGTH: usize = 128;

/// Returns `true` if a text has the form of a name.
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let begins = bytes.next().is_some_and(|it| it.is_ascii_alphanumeric());
    let goes_on = bytes.all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'));
    begins && goes_on && text.len() <= MAX_LENGTH
}

/// Defines an ID type and the error of an invalid ID.
macro_rules! name_type {
    ($(#[$of_name:meta])* $name:ident, $(#[$of_invalid:meta])* $invalid:ident) => {
        $(#[$of_name])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        $(#[$of_invalid])*
        pub struct $invalid(String);

        impl $name {
            /// Creates an ID from a chosen text.
            ///
            /// # Errors
            ///
            /// Returns an error if the text contains characters that an ID cannot have, or too
            /// many.
            pub fn new(name: impl Into<String>) -> Result<Self, $invalid> {
                let name = name.into();
                if is_name(&name) { Ok(Self(name.into())) } else { Err($invalid(name)) }
            }

            /// Creates a unique ID: a random UUID.
            pub fn generate() -> Self {
                Self(uuid::Uuid::new_v4().hyphenated().to_string().into())
            }

            /// Returns the ID.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = $invalid;

            fn from_str(name: &str) -> Result<Self, $invalid> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $invalid;

            fn try_from(name: String) -> Result<Self, $invalid> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.to_string()
            }
        }
    };
}

name_type! {
    /// The name of a session: letters, digits, `-` and `_`, the first one a letter or digit, at most 128.
    /// So it can be the name of a file, and stand in an address, as it is.
    SessionId,
    /// A text that is no name of a session.
    #[error(
        "invalid session ID `{0}`; use at most {MAX_LENGTH} letters, digits, `-` and `_`, starting with a letter or digit"
    )]
    InvalidSessionId
}

name_type! {
    /// The name of a job, of the same form as a session's. A caller that pushes one may choose it, to push it
    /// again without doing it twice.
    JobId,
    /// A text that is no name of a job.
    #[error(
        "invalid job ID `{0}`; use at most {MAX_LENGTH} letters, digits, `-` and `_`, starting with a letter or digit"
    )]
    InvalidJobId
}

/// What stands before the tag of a principal, at the end of a session's name.
const TAG_MARK: &str = "_p";

/// The length of the tag of a principal.
const TAG_LENGTH: usize = 20;

/// The tag of a principal, at the end of the IDs of its sessions: hexadecimal digits, derived from
/// the principal's name by SHA-256.
///
/// It distinguishes the sessions of one principal from those of others without reading them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalTag(Arc<str>);

impl PrincipalTag {
    /// Returns the tag of a principal.
    pub fn of(principal: &str) -> Self {
        Self(format!("{:.TAG_LENGTH$x}", Sha256::digest(principal)).into())
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the end of the names of the principal's sessions.
    pub(crate) fn ending(&self) -> String {
        format!("{TAG_MARK}{}", self.0)
    }
}

impl SessionId {
    /// Creates a unique ID for a session of a principal.
    pub fn generate_tagged(tag: &PrincipalTag) -> Self {
        Self(format!("{}{}", Self::generate(), tag.ending()).into())
    }

    /// Creates an ID from a key, for a session of a principal. The same key and principal always
    /// give the same ID. Without a tag, the ID has none.
    pub fn derived_tagged(tag: Option<&PrincipalTag>, key: &str) -> Self {
        let ending = tag.map(PrincipalTag::ending).unwrap_or_default();
        let name = Self::derived(&format!("{ending}\n{key}"));
        Self(format!("{name}{ending}").into())
    }

    /// Returns the tag at the end of the ID, or `None` if it has none.
    pub fn tag(&self) -> Option<PrincipalTag> {
        let begins = self.0.len().checked_sub(TAG_LENGTH)?;
        let before = self.0.get(..begins)?;
        before.ends_with(TAG_MARK).then(|| PrincipalTag(self.0[begins..].into()))
    }

    /// Makes a name of what it stands for: always the same one, and another one for everything else.
    pub(crate) fn derived(from: &str) -> Self {
        let space = uuid::Uuid::from_u128(0x7d1f_5a0e_93c4_4b6b_8f0a_2f64_15d7_90ce);
        Self(uuid::Uuid::new_v5(&space, from.as_bytes()).hyphenated().to_string().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_file_names() {
        for name in ["a", "A-1_b", "0", &"x".repeat(MAX_LENGTH)] {
            assert_eq!(SessionId::new(name).unwrap().as_str(), name);
        }
        for name in
            ["", "-a", "_a", ".", "..", "a/b", "a b", "ä", "a\n", &"x".repeat(MAX_LENGTH + 1)]
        {
            assert_eq!(SessionId::new(name), Err(InvalidSessionId(name.to_owned())));
        }
    }

    #[test]
    fn names_of_a_principal_end_with_its_tag() {
        let (ada, bob) = (PrincipalTag::of("ada"), PrincipalTag::of("bob"));
        assert_ne!(ada, bob);
        let name = SessionId::generate_tagged(&ada);
        assert_eq!(
            (SessionId::new(name.as_str()), name.tag()),
            (Ok(name.clone()), Some(ada.clone()))
        );
        let derived = |tag, key| SessionId::derived_tagged(tag, key);
        assert_eq!(derived(Some(&ada), "k"), derived(Some(&ada), "k"));
        assert_ne!(derived(Some(&ada), "k"), derived(Some(&ada), "l"));
        assert_ne!(
            derived(Some(&ada), "k").as_str()[..36],
            derived(Some(&bob), "k").as_str()[..36]
        );
        assert_eq!(derived(Some(&bob), "k").tag().as_ref(), Some(&bob));
        assert_eq!((derived(None, "k").tag(), SessionId::generate().tag()), (None, None));
    }

    #[test]
    fn generated_names_are_names_and_differ() {
        let (one, two) = (SessionId::generate(), SessionId::generate());
        assert_eq!(SessionId::new(one.as_str()), Ok(one.clone()));
        assert_ne!(one, two);
    }

    #[test]
    fn a_stored_session_id_is_validated_when_it_is_read() {
        assert!(serde_json::from_str::<SessionId>("\"../etc\"").is_err());
        assert_eq!(serde_json::from_str::<SessionId>("\"a\"").unwrap().as_str(), "a");
    }
}
