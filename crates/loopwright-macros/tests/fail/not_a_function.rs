use loopwright_macros::tool;

/// Is no function.
#[tool(crate = "loopwright_core")]
struct Add {
    a: i64,
}

fn main() {}
