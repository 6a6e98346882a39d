//! Splits an event stream into events.

use memchr::memchr2;

/// One event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The event's type; `message` if the stream names none.
    pub kind: &'a str,
    /// The event's data, its lines joined by line feeds.
    pub data: &'a [u8],
    /// Whether a blank line ended it. The last event of a stream may lack one: either the sender
    /// omits it, or the stream broke off there.
    pub terminated: bool,
}

/// Splits bytes, in pieces of any size, into the events of a `text/event-stream`.
///
/// Lines end with CR, LF or both; comments, blank lines and a byte order mark are ignored. So are
/// the `id` and `retry` fields, because responses cannot be resumed. The cost is linear in the
/// bytes, and an event of one data line that arrives in one piece is not copied.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    fields: Fields,
    /// The last byte was a CR: an LF right after it belongs to it.
    after_cr: bool,
    /// The first line was seen, the only one that may begin with a byte order mark.
    begun: bool,
}

/// The fields of the event that is being read.
#[derive(Debug, Default)]
struct Fields {
    kind: String,
    data: Vec<u8>,
    has_data: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl Decoder {
    /// Creates a splitter at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of bytes held back until the event they belong to is complete.
    pub fn buffered(&self) -> usize {
        self.line.len() + self.fields.data.len()
    }

    /// Takes the next bytes and passes the events that they complete to `take`.
    ///
    /// # Errors
    ///
    /// Returns the error of `take`; the rest of the bytes is then ignored.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        // The data of the current event, as long as it is one line of `bytes`.
        let mut lent: Option<&[u8]> = None;
        while let Some(end) = memchr2(b'\r', b'\n', rest) {
            let head = &rest[..end];
            let is_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_cr {
                match rest.first() {
                    Some(b'\n') => rest = &rest[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            if self.line.is_empty() {
                let line = self.begin_line(head);
                if line.is_empty() {
                    self.fields.dispatch(lent.take(), true, &mut take)?;
                } else {
                    self.fields.take_line(line, &mut lent);
                }
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                let whole = self.begin_line(&line);
                if whole.is_empty() {
                    self.fields.dispatch(lent.take(), true, &mut take)?;
                } else {
                    self.fields.keep(lent.take());
                    let mut own = None;
                    self.fields.take_line(whole, &mut own);
                    self.fields.keep(own);
                }
                line.clear();
                self.line = line;
            }
        }
        self.fields.keep(lent);
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// Ends the stream and passes on the last incomplete event, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the error of `take`.
    pub fn finish<E>(mut self, mut take: impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        let line = self.begin_line(&line);
        let mut lent = None;
        self.fields.take_line(line, &mut lent);
        self.fields.dispatch(lent, false, &mut take)
    }

    fn begin_line<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        if self.begun {
            return line;
        }
        self.begun = true;
        line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
    }
}

impl Fields {
    fn take_line<'a>(&mut self, line: &'a [u8], lent: &mut Option<&'a [u8]>) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" if self.has_data || lent.is_some() => {
                self.keep(lent.take());
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
            }
            b"data" => *lent = Some(value),
            b"event" => {
                self.kind.clear();
                self.kind.push_str(&String::from_utf8_lossy(value));
            }
            _ => {}
        }
    }

    /// Copies data that will not outlive this call of `push`.
    fn keep(&mut self, lent: Option<&[u8]>) {
        if let Some(data) = lent {
            self.data.extend_from_slice(data);
            self.has_data = true;
        }
    }

    fn dispatch<E>(
        &mut self,
        lent: Option<&[u8]>,
        terminated: bool,
        take: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let kind = if self.kind.is_empty() { "message" } else { &self.kind };
        let taken = match lent {
            Some(data) => take(Event { kind, data, terminated }),
            None if self.has_data => take(Event { kind, data: &self.data, terminated }),
            None => Ok(()),
        };
        self.kind.clear();
        self.data.clear();
        self.has_data = false;
        taken
    }
}

#[cfg(test)]
mod tests;
