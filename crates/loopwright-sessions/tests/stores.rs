//! The stores of this crate do what every store must.

use loopwright_sessions::{MemoryStore, conformance};
use loopwright_testing::block_on;

#[test]
fn a_store_in_memory_does_what_every_store_must() {
    for fact in conformance::FACTS {
        println!("{}", fact.name);
        block_on((fact.check)(&MemoryStore::new()));
    }
}
