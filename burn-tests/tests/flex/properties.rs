//! Laws of views, order and algebra on this project's CPU backend.

burn_tests::testgen_properties!(burn_flex::Flex);
