//! The core capabilities.
