//! This project's backend for Burn 0.22 under the suite: the rows, the laws, the malformed calls and the
//! gradients that Burn 0.21 has, through the traits of Burn 0.22.
#![allow(missing_docs)]

use burn_flex::Flex;
use burn_tests::Capabilities;

/// All of Burn, but for the Fourier transforms, which are no methods of 0.22's traits.
/// `burn-flex/tests/face.rs` tests them by name.
fn capabilities() -> Capabilities {
    let reason = "Burn 0.22 calls a function of the backend's crate";
    Capabilities::full().without("rfft", &[], reason).without("irfft", &[], reason)
}

mod rows {
    burn_tests::testgen_all!(super::Flex, super::capabilities());
}

mod bad_input {
    burn_tests::testgen_bad_input!(super::Flex, super::capabilities());
}

mod properties {
    burn_tests::testgen_properties!(super::Flex;
        views: float_views, int_views, bool_views, round_trips, cat_and_slice, broadcasting;
        algebra: matmul_is_linear, conv_is_linear, conv_has_an_adjoint, softmax_rows_sum_to_one;
        ordering: float_sort, int_sort, top_k_is_the_head_of_sort, scatter_inverts_gather, gather_has_an_adjoint;
    );
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
