//! Splits a stream of JSON lines into events.

use memchr::memchr;

use crate::sse::Event;

/// Splits bytes, however they arrive, into lines; blank ones are let go.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
}

impl Decoder {
    /// Returns the number of bytes held back until their line is complete.
    pub(crate) fn buffered(&self) -> usize {
        self.line.len()
    }

    /// Takes the next bytes and hands out the lines that they complete.
    ///
    /// # Errors
    ///
    /// Returns the error of `take`; the rest of the bytes is then ignored.
    pub(crate) fn push<E>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            let head = &rest[..end];
            rest = &rest[end + 1..];
            if self.line.is_empty() {
                take(event(head, true))?;
            } else {
                self.line.extend_from_slice(head);
                take(event(&self.line, true))?;
                self.line.clear();
            }
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// Ends the stream and hands out the line that was still open.
    ///
    /// # Errors
    ///
    /// Returns the error of `take`.
    pub(crate) fn finish<E>(
        self,
        mut take: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        take(event(&self.line, false))
    }
}

fn event(data: &[u8], terminated: bool) -> Event<'_> {
    Event { kind: "message", data, terminated }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> Vec<(String, bool)> {
        let mut lines = Vec::new();
        let mut decoder = Decoder::default();
        let mut take = |event: Event<'_>| {
            lines.push((String::from_utf8_lossy(event.data).into_owned(), event.terminated));
            Ok::<(), ()>(())
        };
        for piece in pieces {
            decoder.push(piece.as_bytes(), &mut take).unwrap();
        }
        decoder.finish(&mut take).unwrap();
        lines
    }

    #[test]
    fn lines_are_told_apart_however_they_arrive() {
        let whole = |text: &str| (text.to_owned(), true);
        let expect = vec![whole("{1}"), whole("{2}\r"), (String::new(), false)];
        assert_eq!(split(&["{1}\n{2}\r\n"]), expect);
        assert_eq!(split(&["{", "1}", "\n{2", "}\r", "\n"]), expect);
    }

    #[test]
    fn a_line_without_an_end_is_handed_out_as_such() {
        assert_eq!(split(&["{1"]), [("{1".to_owned(), false)]);
    }
}
