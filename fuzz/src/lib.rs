//! What the targets have in common.

use loopwright_models::WireApi;

#[path = "../../crates/loopwright-models/tests/agreement.rs"]
mod agreement;
#[path = "../../crates/loopwright-server/src/oidc/jwt.rs"]
mod jwt;
pub mod tokens;

/// Reads an answer on the wire of that name. The first byte of the input is the size of the pieces it
/// arrives in, the second says whether it is streamed.
///
/// # Panics
///
/// If what the answer means depends on the pieces.
pub fn answer(wire: &str, input: &[u8]) {
    let [size, streamed, body @ ..] = input else { return };
    let wire = WireApi::named(wire).expect("the program speaks every wire that is tested");
    agreement::check(wire, streamed % 2 == 1, body, *size);
}
