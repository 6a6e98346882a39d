//! Broadcasting, through the public interface.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod console;
#[cfg(test)]
mod sinks;
#[cfg(test)]
mod support;
