//! Composition: the builder, the core capabilities, drivers, compilers, guards and definitions.
