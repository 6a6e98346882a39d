#![allow(unused_variables)]

use loopwright_macros::tool;

struct Calculator;

impl Calculator {
    /// Adds two numbers.
    #[tool(crate = "loopwright_core")]
    async fn add(&self, a: i64, b: i64) -> i64 {
        a + b
    }
}

fn main() {}
