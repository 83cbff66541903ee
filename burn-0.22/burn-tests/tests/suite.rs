//! This project's backend for Burn 0.22 under the suite: the rows, the laws, the malformed calls and the
//! gradients that Burn 0.21 has, through the traits of Burn 0.22; Fourier transforms, which are no methods of
//! these traits, by the functions that Burn's crate for signals calls.
#![allow(missing_docs)]

use burn_flex::Flex;

mod rows {
    burn_tests::testgen_all!(super::Flex);
}

mod bad_input {
    burn_tests::testgen_bad_input!(super::Flex);
}

mod properties {
    burn_tests::testgen_properties!(super::Flex);
}

mod gradients {
    burn_tests::testgen_gradients!(burn_autodiff::Autodiff<super::Flex>;
        elementwise, activation, reduction, movement, indexing, product, convolution, pooling);
}

mod gradients_checkpointed {
    use burn_autodiff::checkpoint::strategy::BalancedCheckpointing;

    burn_tests::testgen_gradients!(burn_autodiff::Autodiff<super::Flex, BalancedCheckpointing>;
        elementwise, activation, reduction, movement, indexing, product, convolution, pooling);
}
