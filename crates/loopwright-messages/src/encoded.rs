//! The encoded form of a turn, cached with the turn.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// A cache of the bytes that a turn was last encoded to.
///
/// It holds one form: that for the wire, model and tool call format of the last request, identified
/// by a number that the wire chooses. The cache is not part of the turn's value: it does not affect
/// equality.
#[derive(Default)]
pub struct EncodedCache(Mutex<Option<(u64, Arc<[u8]>)>>);

impl EncodedCache {
    /// Returns the bytes cached under the key, or encodes and caches them.
    pub fn get_or_encode(&self, key: u64, encode: impl FnOnce() -> Vec<u8>) -> Arc<[u8]> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some((kept, bytes)) if *kept == key => Arc::clone(bytes),
            _ => {
                let bytes: Arc<[u8]> = encode().into();
                *slot = Some((key, Arc::clone(&bytes)));
                bytes
            }
        }
    }
}

impl PartialEq for EncodedCache {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Clone for EncodedCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for EncodedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncodedCache")
    }
}
