//! This project's CPU backend under the suite. One program, because most of its modules run the same rows,
//! which the compiler translates once for each program.
#![allow(missing_docs)]

mod coverage;
mod elements;
mod properties;
mod upstream;

mod suite {
    use burn_tests::Capabilities;

    burn_tests::testgen_all!(
        burn_flex::Flex,
        Capabilities::full().documented_in(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))
    );
}
