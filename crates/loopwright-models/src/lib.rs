//! Provider wires behind .
