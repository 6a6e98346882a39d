//! Paths in manifests: text, or hexadecimal digits if they are not UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::blobs::{from_hex, to_hex};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes { hex: String },
}

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let written = match path.to_str() {
        Some(text) => Written::Text(text.to_owned()),
        None => Written::Bytes { hex: to_hex(path.as_os_str().as_bytes()) },
    };
    written.serialize(serializer)
}

pub(crate) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<PathBuf, D::Error> {
    match Written::deserialize(deserializer)? {
        Written::Text(text) => Ok(text.into()),
        Written::Bytes { hex } => {
            let bytes = from_hex(&hex).ok_or_else(|| D::Error::custom("invalid digits"))?;
            Ok(OsString::from_vec(bytes).into())
        }
    }
}
