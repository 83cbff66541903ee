//! Malformed calls on this project's CPU backend. A separate test target, so that it can be built under
//! AddressSanitizer alone.
#![allow(missing_docs)]

burn_tests::testgen_bad_input!(burn_flex::Flex);
