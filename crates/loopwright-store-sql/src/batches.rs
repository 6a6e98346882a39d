//! Reading the changes of a session, a page of batches in each row.
//!
//! Reading a row costs more than the content of most batches. So the database joins the batches of a page: a line
//! of text with the position, count, length and checksum of each batch, an empty line, and all bodies.

use loopwright_sessions::stored::StoredBatch;

use crate::{
    database::Transaction,
    error::Failure,
    head::SessionRow,
    row::{Row, values},
};

#[cfg(test)]
mod tests;

/// A body of at least this size is read separately, so that no page is larger than a database allows.
const LARGE: usize = 64 << 10;

/// The difference between the numbers of two changes in a page is smaller than this.
const PAGE: usize = 256;

/// Passes on the batches that lead to a state as they arrive, in any order, including those of the branches from
/// which its own branch descends.
pub(crate) async fn batches(
    transaction: &mut dyn Transaction,
    head: &SessionRow,
    mut take: impl FnMut(Vec<StoredBatch>) + Send,
) -> Result<(), Failure> {
    let page = transaction.page();
    let sql = format!(
        "
        WITH RECURSIVE chain (session, branch, until) AS (
            SELECT session, branch, $3 FROM branches WHERE session = $1 AND branch = $2
            UNION
            SELECT l.from_session, l.from_branch, CASE WHEN l.at < c.until THEN l.at ELSE c.until END
            FROM chain c JOIN branches l ON l.session = c.session AND l.branch = c.branch
            WHERE l.from_session IS NOT NULL
        ), pages (session, branch, page, until) AS (
            SELECT c.session, c.branch, (
                SELECT MIN(b.first) FROM batches b WHERE b.session = c.session AND b.branch = c.branch
            ), c.until
            FROM chain c
            UNION ALL
            SELECT p.session, p.branch, (
                SELECT MIN(b.first) FROM batches b
                WHERE b.session = p.session AND b.branch = p.branch AND b.first >= p.page + {PAGE}
            ), p.until
            FROM pages p WHERE p.page < p.until
        )
        SELECT p.session, p.branch, p.until, (
            SELECT {page} FROM batches b
            WHERE b.session = p.session AND b.branch = p.branch AND b.first >= p.page
                AND b.first < p.page + {PAGE} AND b.first < p.until
        )
        FROM pages p WHERE p.page < p.until"
    );
    let mut large = Vec::new();
    let mut page = |mut row: Row| {
        let (session, branch) = (row.int(0)?, row.int(1)?);
        let (until, page): (u64, _) = (row.number(2)?, row.bytes(3)?);
        let mut batches = Vec::new();
        for Piece { first, count, body, sum } in pieces(&page)? {
            let own = body.unwrap_or_default().to_vec();
            let batch = StoredBatch { first, count, body: own, sum }.until(until);
            match body {
                Some(_) => batches.push(batch),
                None => large.push((session, branch, batch)),
            }
        }
        take(batches);
        Ok(())
    };
    transaction.each(&sql, values![head.key, head.branch, head.length], &mut page).await?;
    for (session, branch, batch) in large {
        let body = body(transaction, session, branch, batch.first).await?;
        take(vec![StoredBatch { body, ..batch }]);
    }
    Ok(())
}

/// Returns a body that is read separately.
async fn body(
    transaction: &mut dyn Transaction,
    session: i64,
    branch: i64,
    first: u64,
) -> Result<Vec<u8>, Failure> {
    let sql = "SELECT body FROM batches WHERE session = $1 AND branch = $2 AND first = $3";
    let row = transaction.row(sql, values![session, branch, first]).await?;
    row.ok_or_else(|| Failure::Form(format!("the batch at change {first} is missing")))?.bytes(0)
}

/// A batch in a page.
#[derive(Debug, PartialEq)]
struct Piece<'a> {
    first: u64,
    count: usize,
    /// `None` if it is read separately.
    body: Option<&'a [u8]>,
    /// The checksum of the body, if it was written with one.
    sum: Option<u32>,
}

/// Splits a page into its batches.
fn pieces(page: &[u8]) -> Result<Vec<Piece<'_>>, Failure> {
    if page.is_empty() {
        return Ok(Vec::new());
    }
    let mut pieces = Vec::new();
    let damaged = |pieces: &[Piece<'_>]| {
        let after = pieces.last().map_or(0, |piece| piece.first);
        Failure::Form(format!("the data after the batch at change {after} is damaged"))
    };
    let end = page.windows(2).position(|two| two == b"\n\n").ok_or_else(|| damaged(&pieces))?;
    let mut bodies = &page[end + 2..];
    for place in page[..end].split(|byte| *byte == b'\n') {
        let (piece, rest) = piece(place, bodies).ok_or_else(|| damaged(&pieces))?;
        pieces.push(piece);
        bodies = rest;
    }
    if bodies.is_empty() { Ok(pieces) } else { Err(damaged(&pieces)) }
}

/// Splits the body of a batch off the remaining bodies.
fn piece<'a>(place: &[u8], bodies: &'a [u8]) -> Option<(Piece<'a>, &'a [u8])> {
    let mut numbers = str::from_utf8(place).ok()?.split(' ');
    let (first, count) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let length: usize = numbers.next()?.parse().ok()?;
    let sum = match numbers.next()? {
        "-" => None,
        sum => Some(sum.parse().ok()?),
    };
    if length >= LARGE {
        return Some((Piece { first, count, body: None, sum }, bodies));
    }
    let (body, rest) = bodies.split_at_checked(length)?;
    Some((Piece { first, count, body: Some(body), sum }, rest))
}
