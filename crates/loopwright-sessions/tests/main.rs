//! Sessions, through the public interface.

#[cfg(test)]
mod stores;
