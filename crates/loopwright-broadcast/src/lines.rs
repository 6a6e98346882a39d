//! Envelopes as lines of JSON.

use std::{
    fmt,
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use loopwright_core::BoxError;

use crate::{frame::EncodedEnvelope, transport::BroadcastTransport};

/// Writes each envelope as a line of JSON, and flushes when no more wait.
///
/// Writing may block: give it a thread with [`Broadcasting::attach_transport`](crate::Broadcasting::attach_transport).
pub struct JsonLines<W>(Mutex<W>);

impl<W: Write + Send> JsonLines<W> {
    /// Creates it with a writer.
    pub fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }

    fn write(&self, envelopes: &[EncodedEnvelope]) -> io::Result<()> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for envelope in envelopes {
            writer.write_all(envelope.json().as_bytes())?;
            writer.write_all(b"\n")?;
        }
        writer.flush()
    }
}

#[async_trait]
impl<W: Write + Send> BroadcastTransport for JsonLines<W> {
    async fn broadcast(&self, _channel: &str, envelope: &EncodedEnvelope) -> Result<(), BoxError> {
        Ok(self.write(std::slice::from_ref(envelope))?)
    }

    async fn broadcast_all(&self, envelopes: &[EncodedEnvelope]) -> Result<(), BoxError> {
        Ok(self.write(envelopes)?)
    }
}

impl<W> fmt::Debug for JsonLines<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonLines")
    }
}
