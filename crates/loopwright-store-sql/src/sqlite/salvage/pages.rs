//! The pages of a damaged file, each in its last committed version.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use super::file;

/// The first bytes of a file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The page sizes to try if neither the file nor its log has one: that of files from other programs or earlier
/// versions, and the current one.
const USUAL: [u32; 2] = [4096, super::super::PAGE];
/// The number of bytes that are examined to choose between them.
const GLANCE: u64 = 4 << 20;
/// The sizes of the header of a log, and of the header of each frame.
const LOG_HEAD: usize = 32;
const FRAME_HEAD: usize = 24;

/// The pages of a file. Those in its log replace those in the file.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    log: Vec<u8>,
    /// The offset of the latest version of each page in the log.
    places: BTreeMap<u32, usize>,
    size: usize,
    /// The number of usable bytes in a page.
    pub(super) usable: usize,
    /// The number of the last page.
    pub(super) last: u32,
}

impl Pages {
    /// Opens a file that SQLite may not be able to open.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        (&mut file).take(100).read_to_end(&mut head)?;
        let log = match fs::read(file::beside(path, "-wal")) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            log => log.unwrap_or_default(),
        };
        let is_known = head.starts_with(MAGIC);
        let told = if is_known { short(&head, 16).map(page_size) } else { long(&log, 8) };
        let is_size = |it: &u32| it.is_power_of_two() && (512..=65_536).contains(it);
        let size = match told.filter(is_size) {
            Some(size) => size,
            None => guessed(&mut file)?,
        } as usize;
        let reserved = if is_known { head.get(20).copied().unwrap_or_default() } else { 0 };
        let places = committed(&log, size);
        let in_file = u32::try_from(file.metadata()?.len().div_ceil(size as u64));
        let in_log = places.keys().next_back().copied().unwrap_or_default();
        let last = in_file.unwrap_or(u32::MAX).max(in_log);
        Ok(Self { file, log, places, size, usable: size - usize::from(reserved), last })
    }

    /// Returns a page. Bytes that the file does not have are zero.
    pub(super) fn read(&self, number: u32) -> io::Result<Vec<u8>> {
        if let Some(page) =
            self.places.get(&number).and_then(|it| self.log.get(*it..it + self.size))
        {
            return Ok(page.to_vec());
        }
        let mut page = Vec::with_capacity(self.size);
        let place = u64::from(number.saturating_sub(1)) * self.size as u64;
        let mut file = &self.file;
        file.seek(SeekFrom::Start(place))?;
        file.take(self.size as u64).read_to_end(&mut page)?;
        page.resize(self.size, 0);
        Ok(page)
    }
}

/// Returns the size with which more of the file looks like table pages.
fn guessed(file: &mut File) -> io::Result<u32> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(GLANCE).read_to_end(&mut bytes)?;
    let alike = |size: u32| bytes.chunks_exact(size as usize).filter(|it| is_of_table(it)).count();
    let [usual, ours] = USUAL;
    Ok(if alike(ours) > alike(usual) { ours } else { usual })
}

/// Returns `true` if bytes can be a table or index page, judging by its type and the start of its content.
fn is_of_table(page: &[u8]) -> bool {
    let (count, begins) = (short(page, 3).unwrap_or_default(), short(page, 5).unwrap_or_default());
    let (count, begins) = (usize::from(count), usize::from(begins));
    matches!(page[0], 2 | 5 | 10 | 13) && count > 0 && (8 + 2 * count..page.len()).contains(&begins)
}

/// The largest size does not fit, and is stored as 1.
fn page_size(written: u16) -> u32 {
    if written == 1 { 65_536 } else { written.into() }
}

/// Returns the offset of the latest committed version of each page in the log.
fn committed(log: &[u8], size: usize) -> BTreeMap<u32, usize> {
    let (mut places, mut open) = (BTreeMap::new(), BTreeMap::new());
    let Some(head) = log.get(..LOG_HEAD) else { return places };
    let is_big = match long(head, 0) {
        Some(0x377f_0682) => false,
        Some(0x377f_0683) => true,
        _ => return places,
    };
    let mut sum = added((0, 0), &head[..24], is_big);
    for (number, frame) in log[LOG_HEAD..].chunks_exact(FRAME_HEAD + size).enumerate() {
        sum = added(added(sum, &frame[..8], is_big), &frame[FRAME_HEAD..], is_big);
        let is_whole = (long(frame, 16), long(frame, 20)) == (Some(sum.0), Some(sum.1));
        if frame[8..16] != head[16..24] || !is_whole {
            break;
        }
        let place = LOG_HEAD + number * (FRAME_HEAD + size) + FRAME_HEAD;
        open.insert(long(frame, 0).unwrap_or_default(), place);
        // The writes of a transaction count once its last frame exists.
        if long(frame, 4) != Some(0) {
            places.append(&mut open);
        }
    }
    places
}

/// Adds bytes to the checksum of a log.
fn added(sum: (u32, u32), bytes: &[u8], is_big: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes = bytes.first_chunk().copied().unwrap_or_default();
        if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    bytes.chunks_exact(8).fold(sum, |(one, two), pair| {
        let one = one.wrapping_add(word(pair)).wrapping_add(two);
        (one, two.wrapping_add(word(&pair[4..])).wrapping_add(one))
    })
}

/// Reads an integer of two bytes.
pub(super) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|it| u16::from_be_bytes(*it))
}

/// Reads an integer of four bytes.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|it| u32::from_be_bytes(*it))
}
