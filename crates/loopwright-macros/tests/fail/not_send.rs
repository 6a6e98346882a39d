use std::rc::Rc;

use loopwright_macros::tool;

async fn wait() {}

/// Keeps what belongs to one thread while it waits.
#[tool(crate = "loopwright_core")]
async fn count(upto: u32) -> u32 {
    let shared = Rc::new(upto);
    wait().await;
    *shared
}

fn main() {}
