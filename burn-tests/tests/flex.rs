//! The suite on this project's CPU backend.
#![allow(missing_docs)]

use burn_tests::Capabilities;

burn_tests::testgen_all!(
    burn_flex::Flex,
    Capabilities::full().documented_in(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))
);
