#![allow(unused_variables)]

use loopwright_macros::tool;

/// Takes what it is given apart.
#[tool(crate = "loopwright_core")]
async fn apart((x, y): (i64, i64), _: u8, whole @ _: u8, ref lent: u8) -> i64 {
    x + y + i64::from(whole) + i64::from(*lent)
}

fn main() {}
