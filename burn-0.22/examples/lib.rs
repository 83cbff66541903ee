//! Holds the examples; see their files.
