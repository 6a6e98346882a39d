use loopwright_macros::tool;

struct Opaque;

/// Returns what no tool can.
#[tool(crate = "loopwright_core")]
async fn returns() -> Option<Opaque> {
    None
}

/// Returns what no tool can, or fails.
#[tool(crate = "loopwright_core")]
async fn returns_or_fails() -> Result<Opaque, String> {
    Ok(Opaque)
}

/// Fails with what is no error.
#[tool(crate = "loopwright_core")]
async fn fails() -> Result<(), Opaque> {
    Err(Opaque)
}

fn main() {}
