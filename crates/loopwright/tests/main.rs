//! Tests of the whole: what users of the facade get.

mod recorded;
