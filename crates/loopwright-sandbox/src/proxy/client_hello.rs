//! The first message of a TLS connection, of which only the name of the server matters here.

/// What is known of a first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientHello {
    /// More bytes are needed.
    Partial,
    /// The client wants to reach this server.
    Named(String),
    /// It is no first message of TLS, or it hides or lacks the name.
    Refused(&'static str),
}

/// A first message is not longer; those of clients take half a kibibyte to two.
pub(super) const MAX_LENGTH: usize = 16 << 10;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_HELLO: u16 = 0xFE0D;
const HOST_NAME: u8 = 0;

/// Reads what a client has sent so far.
pub(super) fn read(bytes: &[u8]) -> ClientHello {
    match hello(bytes) {
        Ok(Some(hello)) => match name(&hello) {
            Ok(name) => ClientHello::Named(name),
            Err(reason) => ClientHello::Refused(reason),
        },
        Ok(None) if bytes.len() < MAX_LENGTH => ClientHello::Partial,
        Ok(None) => ClientHello::Refused("the first TLS message is too long"),
        Err(reason) => ClientHello::Refused(reason),
    }
}

/// Joins the records that the message is spread over. Returns `None` if some of it has not arrived.
fn hello(bytes: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    const NOT_TLS: &str = "the connection does not begin with TLS";
    let mut rest = bytes;
    let mut message = Vec::new();
    loop {
        if let Some(kind) = rest.first()
            && *kind != HANDSHAKE
        {
            return Err(NOT_TLS);
        }
        if rest.get(1).is_some_and(|major| *major != 3) {
            return Err(NOT_TLS);
        }
        let Some((header, after)) = rest.split_first_chunk::<5>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 || length > MAX_LENGTH {
            return Err(NOT_TLS);
        }
        let available = &after[..length.min(after.len())];
        message.extend_from_slice(available);
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(NOT_TLS);
        }
        if let Some(header) = message.first_chunk::<4>() {
            let length = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
            if length > MAX_LENGTH {
                return Err("the first TLS message is too long");
            }
            if message.len() >= 4 + length {
                return Ok(Some(message[4..4 + length].to_vec()));
            }
        }
        if available.len() < length {
            return Ok(None);
        }
        rest = &after[length..];
    }
}

/// Returns the name of the server, of which there has to be exactly one.
fn name(hello: &[u8]) -> Result<String, &'static str> {
    const MALFORMED: &str = "the first TLS message is malformed";
    const UNNAMED: &str = "the TLS connection does not name its server";
    let mut fields = Fields(hello);
    // Version and random number.
    fields.skip(34).ok_or(MALFORMED)?;
    // Session, ciphers and compression.
    let length = fields.byte().ok_or(MALFORMED)?;
    fields.skip(length.into()).ok_or(MALFORMED)?;
    let length = fields.word().ok_or(MALFORMED)?;
    fields.skip(length.into()).ok_or(MALFORMED)?;
    let length = fields.byte().ok_or(MALFORMED)?;
    fields.skip(length.into()).ok_or(MALFORMED)?;
    let Some(length) = fields.word() else { return Err(UNNAMED) };
    if usize::from(length) != fields.0.len() {
        return Err(MALFORMED);
    }
    let mut found = None;
    while !fields.0.is_empty() {
        let kind = fields.word().ok_or(MALFORMED)?;
        let length = fields.word().ok_or(MALFORMED)?;
        let value = fields.take(length.into()).ok_or(MALFORMED)?;
        match kind {
            SERVER_NAME if found.is_some() => return Err(MALFORMED),
            SERVER_NAME => found = Some(server_name(value).ok_or(MALFORMED)?),
            ENCRYPTED_HELLO => return Err("the TLS connection hides the server name"),
            _ => {}
        }
    }
    found.ok_or(UNNAMED)
}

fn server_name(value: &[u8]) -> Option<String> {
    let mut list = Fields(value);
    let length = list.word()?;
    if usize::from(length) != list.0.len() || list.byte()? != HOST_NAME {
        return None;
    }
    let length = list.word()?;
    let name = list.take(length.into())?;
    // One name of each kind is allowed, and there is one kind.
    if !list.0.is_empty() {
        return None;
    }
    crate::domain::host_name(std::str::from_utf8(name).ok()?)
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn word(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}

#[cfg(test)]
pub(super) mod tests;
