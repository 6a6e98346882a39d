//! Splitting and equivalent rewriting of bodies.

use std::ops::Range;

/// The pieces of a streamed body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunking {
    /// Small and uneven pieces, cut within characters, between CR and LF, between the two line ends
    /// that end an event, and within field names.
    #[default]
    Awkward,
    /// Byte by byte.
    One,
    /// The whole body in one piece.
    Whole,
}

impl Chunking {
    /// Cuts a body.
    pub fn pieces(self, body: &[u8]) -> Vec<&[u8]> {
        match self {
            Self::Awkward => awkward(body),
            Self::One => body.chunks(1).collect(),
            Self::Whole if body.is_empty() => Vec::new(),
            Self::Whole => vec![body],
        }
    }
}

/// Bodies that are longer are cut at every character's middle, but otherwise less often.
const LONG: usize = 200_000;

fn awkward(body: &[u8]) -> Vec<&[u8]> {
    const SIZES: [usize; 9] = [1, 1, 2, 3, 5, 7, 11, 13, 23];
    let stretch = if body.len() > LONG { 64 } else { 1 };
    let mut sizes = SIZES.iter().cycle().map(|size| size * stretch);
    let mut next = sizes.next().unwrap_or(1);
    let (mut pieces, mut begin) = (Vec::new(), 0);
    for at in 1..body.len() {
        if at == next || is_awkward(&body[at - 1..]) {
            pieces.push(&body[begin..at]);
            begin = at;
            next = at + sizes.next().unwrap_or(1);
        }
    }
    if begin < body.len() {
        pieces.push(&body[begin..]);
    }
    pieces
}

/// Returns `true` if the place after the first of these bytes is one at which decoders go wrong.
fn is_awkward(bytes: &[u8]) -> bool {
    let beginnings: [&[u8]; 5] = [b"\r\n", b"\n\n", b"data:", b"event:", b"[DONE]"];
    let within_character = bytes.get(1).is_some_and(|byte| byte & 0xC0 == 0x80);
    within_character || beginnings.iter().any(|it| bytes.starts_with(it))
}

/// An equivalent form of server-sent events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Lines end with CR and LF.
    CrLf,
    /// Lines end with CR.
    Cr,
    /// Comments stand between events, and before the first.
    Comments,
    /// No space follows a field's name.
    NoSpace,
    /// A byte order mark comes first.
    Bom,
    /// Events have IDs and retry delays.
    IdRetry,
    /// Empty lines stand between events, and before the first.
    BlankLines,
}

impl Mutation {
    /// All forms.
    pub const ALL: [Self; 7] = [
        Self::CrLf,
        Self::Cr,
        Self::Comments,
        Self::NoSpace,
        Self::Bom,
        Self::IdRetry,
        Self::BlankLines,
    ];

    /// Rewrites a stream of server-sent events.
    pub fn apply(self, body: &[u8]) -> Vec<u8> {
        // Only ends of line and beginnings of lines are looked at: the rest may be any bytes.
        let body = replace(body, b"\r\n", b"\n");
        match self {
            Self::CrLf => replace(&body, b"\n", b"\r\n"),
            Self::Cr => replace(&body, b"\n", b"\r"),
            Self::Comments => {
                let body = replace(&body, b"\n\n", b"\n\n: keep-alive\n\n");
                [b": connected\n\n", &*body].concat()
            }
            Self::NoSpace => {
                let lines = body.split_inclusive(|byte| *byte == b'\n');
                lines.flat_map(without_space).collect()
            }
            Self::Bom => [b"\xEF\xBB\xBF", &*body].concat(),
            Self::IdRetry => with_ids(&body),
            Self::BlankLines => [b"\n", &*replace(&body, b"\n\n", b"\n\n\n\n")].concat(),
        }
    }
}

fn without_space(line: &[u8]) -> Vec<u8> {
    let fields: [&[u8]; 2] = [b"data:", b"event:"];
    for field in fields {
        if let Some(value) = line.strip_prefix(field).and_then(|it| it.strip_prefix(b" ")) {
            return [field, value].concat();
        }
    }
    line.to_vec()
}

fn with_ids(body: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(body.len());
    for (index, event) in events(body).into_iter().enumerate() {
        let event = &body[event];
        if index > 0 && (event.starts_with(b"data") || event.starts_with(b"event")) {
            all.extend_from_slice(format!("id: {index}\nretry: 3000\n").as_bytes());
        }
        all.extend_from_slice(event);
    }
    all
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(from) {
            all.extend_from_slice(to);
            rest = after;
        } else {
            all.push(*first);
            rest = &rest[1..];
        }
    }
    all
}

/// Returns where the events of a stream stand, each with the empty line that ends it.
pub(crate) fn events(body: &[u8]) -> Vec<Range<usize>> {
    split(body, |end| end.ends_with(b"\n\n") || end.ends_with(b"\r\n\r\n"))
}

/// Returns where the lines of a body stand, each with its end.
pub(crate) fn lines(body: &[u8]) -> Vec<Range<usize>> {
    split(body, |end| end.ends_with(b"\n"))
}

fn split(body: &[u8], is_end: impl Fn(&[u8]) -> bool) -> Vec<Range<usize>> {
    let (mut all, mut begin) = (Vec::new(), 0);
    for end in 1..=body.len() {
        if is_end(&body[begin..end]) || end == body.len() {
            all.push(begin..end);
            begin = end;
        }
    }
    all
}

/// Returns where the frames of a binary event stream stand: each begins with its length.
pub(crate) fn frames(body: &[u8]) -> Vec<Range<usize>> {
    let (mut all, mut begin) = (Vec::new(), 0);
    while let Some(length) = body[begin..].first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let end = begin.saturating_add(length).min(body.len());
        if length == 0 {
            break;
        }
        all.push(begin..end);
        begin = end;
    }
    all
}

#[cfg(test)]
mod tests;
