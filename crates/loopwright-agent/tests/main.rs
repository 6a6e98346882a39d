//! Composition as facts. One binary: a module below is one theme.

#[cfg(test)]
mod support;
#[cfg(test)]
mod builder;
#[cfg(test)]
mod compilers;
#[cfg(test)]
mod tool_calling;
#[cfg(test)]
mod react;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod error_policy;
#[cfg(test)]
mod continuation;
mod contract;
#[cfg(test)]
mod capabilities;
#[cfg(test)]
mod definitions;
#[cfg(test)]
mod processors;
