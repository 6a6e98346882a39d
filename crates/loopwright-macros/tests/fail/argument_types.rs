use loopwright_macros::tool;

struct Boat {
    name: String,
}

/// Paints a boat that no schema describes.
#[tool(crate = "loopwright_core")]
async fn paint(boat: Boat) -> String {
    boat.name
}

fn main() {}
