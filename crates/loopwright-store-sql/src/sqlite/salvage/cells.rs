//! The records of a page, whatever table it belongs to.

use super::pages::{Pages, long, short};
use crate::row::Cell;

/// The offset of the records in the first page.
const FIRST: usize = 100;
/// The maximum plausible size of a record, in bytes.
const LARGEST: usize = 1 << 30;

/// A row of a table, or an entry of an index.
#[derive(Debug)]
pub(super) struct Record {
    /// The row ID, if it is stored beside the cells.
    pub(super) number: Option<i64>,
    pub(super) cells: Vec<Cell>,
}

/// The layout of the cells of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rows,
    Entries,
    /// Entries, each after the number of a child page.
    Inner,
}

/// Returns the records that begin on a page. Invalid data is skipped.
pub(super) fn records(pages: &Pages, number: u32) -> Vec<Record> {
    let Ok(page) = pages.read(number) else { return Vec::new() };
    let head = if number == 1 { FIRST } else { 0 };
    let (kind, list) = match page.get(head) {
        Some(0x0d) => (Kind::Rows, head + 8),
        Some(0x0a) => (Kind::Entries, head + 8),
        Some(0x02) => (Kind::Inner, head + 12),
        _ => return Vec::new(),
    };
    let count = short(&page, head + 3).unwrap_or_default();
    let places = (0..usize::from(count)).map_while(|it| short(&page, list + 2 * it));
    places.filter_map(|place| record(pages, &page, usize::from(place), kind)).collect()
}

fn record(pages: &Pages, page: &[u8], mut at: usize, kind: Kind) -> Option<Record> {
    if kind == Kind::Inner {
        at += 4;
    }
    // A record cannot be larger than the file.
    let most = LARGEST.min((pages.last as usize).saturating_mul(pages.usable));
    let size = usize::try_from(varint(page, &mut at)?).ok().filter(|it| *it <= most)?;
    let number = if kind == Kind::Rows { Some(varint(page, &mut at)?) } else { None };
    let payload = payload(pages, page, at, size, kind)?;
    Some(Record { number, cells: cells(&payload)? })
}

/// Assembles a record from its page and from overflow pages.
fn payload(pages: &Pages, page: &[u8], at: usize, size: usize, kind: Kind) -> Option<Vec<u8>> {
    let usable = pages.usable;
    let most = if kind == Kind::Rows { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
    if size <= most {
        return page.get(at..at + size).map(<[u8]>::to_vec);
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let fitting = least + (size - least) % (usable - 4);
    let own = if fitting <= most { fitting } else { least };
    let mut payload = page.get(at..at + own)?.to_vec();
    let mut next = long(page, at + own)?;
    while payload.len() < size {
        if next == 0 || next > pages.last {
            return None;
        }
        let page = pages.read(next).ok()?;
        let part = (size - payload.len()).min(usable - 4);
        payload.extend_from_slice(page.get(4..4 + part)?);
        next = long(&page, 0)?;
    }
    Some(payload)
}

/// Splits a record into cells.
fn cells(payload: &[u8]) -> Option<Vec<Cell>> {
    let mut at = 0;
    let head = usize::try_from(varint(payload, &mut at)?).ok()?;
    let mut kinds = Vec::new();
    while at < head {
        kinds.push(varint(payload, &mut at)?);
    }
    if at != head {
        return None;
    }
    let mut cells = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        let bytes = payload.get(at..at.checked_add(length)?)?;
        at += length;
        cells.push(match kind {
            0 => Cell::Null,
            8 | 9 => Cell::Int(kind - 8),
            1..=6 => Cell::Int(int(bytes)),
            12.. if kind % 2 == 0 => Cell::Bytes(bytes.to_vec()),
            12.. => Cell::Text(str::from_utf8(bytes).ok()?.to_owned()),
            _ => return None,
        });
    }
    (at == payload.len()).then_some(cells)
}

/// Reads a big-endian signed integer.
fn int(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|it| it & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// Reads a variable-length integer of one to nine bytes.
fn varint(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut number = 0_i64;
    for place in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if place == 8 {
            return Some(number << 8 | i64::from(byte));
        }
        number = number << 7 | i64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}
