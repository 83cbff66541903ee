//! The suite on this project's CPU backend.
#![allow(missing_docs)]

burn_tests::testgen_all!(burn_flex::Flex);
