//! Agents as data, and registries.
