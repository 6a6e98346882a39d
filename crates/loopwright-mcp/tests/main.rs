//! Tests that use the crate as programs do.
