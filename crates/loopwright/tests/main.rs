//! Tests of the whole: what users of the facade get.

#[cfg(test)]
mod recorded;
