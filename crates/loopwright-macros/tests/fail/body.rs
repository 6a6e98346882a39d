use loopwright_macros::tool;

/// Does not do what it says.
#[tool(crate = "loopwright_core")]
async fn wrong() -> u8 {
    "text"
}

/// Waits with what must not be sent.
#[tool(crate = "loopwright_core")]
async fn waits() {
    let lent = std::rc::Rc::new(1);
    std::future::ready(()).await;
    drop(lent);
}

fn main() {}
