//! Splits a stream of binary messages (`application/vnd.amazon.eventstream`) into events.
//!
//! A message is its length, the length of its headers, a checksum of both, headers, a payload, and a
//! checksum of all of it.

use serde::Deserialize;
use serde_json::json;

use crate::{lenient::Text, sse::Event};

/// The lengths and their checksum.
const PRELUDE: usize = 12;
/// A checksum.
const CHECKSUM: usize = 4;

/// Splits bytes, however they arrive, into messages.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// What has arrived of the next message.
    buffer: Vec<u8>,
}

/// Why no more events are handed out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault<E> {
    /// The bytes are no messages.
    Broken(&'static str),
    /// The callback for events returned it.
    Taken(E),
}

impl Decoder {
    /// Returns the number of bytes held back until their message is complete.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Takes the next bytes and hands out the messages that they complete. An event has the name of
    /// its kind; everything else is an `error` with a code and a message.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are no messages, or what `take` returns.
    pub(crate) fn push<E>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), Fault<E>> {
        self.buffer.extend_from_slice(bytes);
        let mut rest = self.buffer.as_slice();
        while let Some((message, length)) = Frame::first(rest).map_err(Fault::Broken)? {
            rest = &rest[length..];
            message.hand_to(&mut take).map_err(Fault::Taken)?;
        }
        let done = self.buffer.len() - rest.len();
        self.buffer.drain(..done);
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// Returns an error if it broke off within a message.
    pub(crate) fn finish<E>(self) -> Result<(), Fault<E>> {
        if self.buffer.is_empty() { Ok(()) } else { Err(Fault::Broken("the response was cut off")) }
    }
}

/// What is read of a message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame<'a> {
    message_type: &'a str,
    /// The kind of event, or the kind of exception.
    kind: &'a str,
    error_message: &'a str,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads the first message and its length. Returns `None` if it is not complete.
    fn first(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let number = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let (Some(length), Some(headers), Some(checksum)) = (number(0), number(4), number(8))
        else {
            return Ok(None);
        };
        if crc32fast::hash(&bytes[..PRELUDE - CHECKSUM]) != checksum {
            return Err("the length checksum of an event does not match");
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let headers = usize::try_from(headers).unwrap_or(usize::MAX);
        let Some(payload) =
            length.checked_sub(PRELUDE + CHECKSUM).and_then(|it| it.checked_sub(headers))
        else {
            return Err("an event is shorter than its headers");
        };
        let Some(message) = bytes.get(..length) else { return Ok(None) };
        let (checked, checksum) = message.split_at(length - CHECKSUM);
        if checksum != crc32fast::hash(checked).to_be_bytes() {
            return Err("the checksum of an event does not match");
        }
        let (headers, payload) = checked[PRELUDE..].split_at(checked.len() - PRELUDE - payload);
        let mut message = Self { payload, ..Self::default() };
        message.read_headers(headers).ok_or("the headers of an event are malformed")?;
        Ok(Some((message, length)))
    }

    fn read_headers(&mut self, mut bytes: &'a [u8]) -> Option<()> {
        while let Some(name_length) = split(&mut bytes, 1) {
            let name = split(&mut bytes, name_length[0].into())?;
            let value = match split(&mut bytes, 1)?[0] {
                0 | 1 => &[],
                2 => split(&mut bytes, 1)?,
                3 => split(&mut bytes, 2)?,
                4 => split(&mut bytes, 4)?,
                5 | 8 => split(&mut bytes, 8)?,
                6 | 7 => {
                    let length = split(&mut bytes, 2)?.first_chunk().copied()?;
                    split(&mut bytes, u16::from_be_bytes(length).into())?
                }
                9 => split(&mut bytes, 16)?,
                _ => return None,
            };
            let field = match name {
                b":message-type" => &mut self.message_type,
                b":event-type" | b":exception-type" | b":error-code" => &mut self.kind,
                b":error-message" => &mut self.error_message,
                _ => continue,
            };
            *field = std::str::from_utf8(value).ok()?;
        }
        Some(())
    }

    fn hand_to<E>(&self, take: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.message_type == "event" {
            return take(Event { kind: self.kind, data: self.payload, terminated: true });
        }
        let payload: Exception<'_> = serde_json::from_slice(self.payload).unwrap_or_default();
        let words = [&*payload.message, &*payload.capital, self.error_message];
        let message = words.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        let data = json!({ "code": self.kind, "message": message }).to_string();
        take(Event { kind: "error", data: data.as_bytes(), terminated: true })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Exception<'a> {
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(borrow, rename = "Message")]
    capital: Text<'a>,
}

/// Takes this many bytes from the front.
fn split<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(front)
}

#[cfg(test)]
pub(crate) mod tests;
