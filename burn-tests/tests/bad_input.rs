//! Malformed calls on this project's CPU backend. A test target of its own, so that it can be built under
//! AddressSanitizer by itself.
#![allow(missing_docs)]

burn_tests::testgen_bad_input!(burn_flex::Flex);
