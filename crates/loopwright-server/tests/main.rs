//! The server's parts, through the public interface.

#[cfg(test)]
mod events;
