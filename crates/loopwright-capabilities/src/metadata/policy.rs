//! Limits of the scratchpad.

use loopwright_core::Metadata;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longer names are no names.
const MAX_KEY_BYTES: usize = 256;

/// The limits of the metadata that models write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetadataPolicy {
    /// The maximum number of keys, including those of other writers; 50 by default.
    pub max_keys: usize,
    /// The maximum size of a value as JSON, in bytes; 65,536 by default.
    pub max_value_bytes: usize,
    /// Keys that models cannot write; `tasks`, `skills` and `self_critic` by default. Keys that
    /// start with `_` are reserved for programs.
    pub reserved_keys: Vec<String>,
}

/// An error of the scratchpad, for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The key is empty.
    #[error("the key cannot be empty")]
    EmptyKey,
    /// The key is too long.
    #[error("the key is {0} bytes long; at most {MAX_KEY_BYTES} are allowed")]
    LongKey(usize),
    /// The key is reserved.
    #[error("key `{0}` is reserved; choose another one")]
    Reserved(String),
    /// The value is too large.
    #[error("the value is {bytes} bytes long as JSON; at most {max} are allowed")]
    TooLarge {
        /// The size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The limit of keys is reached.
    #[error("the limit of {0} keys has been reached; overwrite an existing key")]
    TooMany(usize),
    /// The key is unknown.
    #[error("unknown key `{key}`; {known}")]
    Unknown {
        /// The name.
        key: String,
        /// The known keys, as text.
        known: String,
    },
}

impl Default for MetadataPolicy {
    fn default() -> Self {
        Self {
            max_keys: 50,
            max_value_bytes: 65_536,
            reserved_keys: ["tasks", "skills", "self_critic"].map(str::to_owned).to_vec(),
        }
    }
}

impl MetadataPolicy {
    /// Checks whether a value can be stored under a key, regardless of other values.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot.
    pub fn check(&self, key: &str, value: &Value) -> Result<(), MetadataError> {
        if key.trim().is_empty() {
            return Err(MetadataError::EmptyKey);
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(MetadataError::LongKey(key.len()));
        }
        if key.starts_with('_') || self.reserved_keys.iter().any(|it| it == key) {
            return Err(MetadataError::Reserved(key.to_owned()));
        }
        let (bytes, max) = (value.to_string().len(), self.max_value_bytes);
        if bytes > max {
            return Err(MetadataError::TooLarge { bytes, max });
        }
        Ok(())
    }

    /// Returns `true` if there is room for a name beside those that are kept, and those that are about to
    /// be.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub(super) fn check_room(
        &self,
        key: &str,
        kept: &Metadata,
        coming: &[String],
    ) -> Result<(), MetadataError> {
        let is_new = |key: &str| kept.get(key).is_none();
        let mut new: Vec<&str> =
            coming.iter().map(String::as_str).filter(|it| is_new(it)).collect();
        new.sort_unstable();
        new.dedup();
        let there = kept.len() + new.len();
        if !is_new(key) || new.contains(&key) || there < self.max_keys {
            return Ok(());
        }
        Err(MetadataError::TooMany(self.max_keys))
    }
}
