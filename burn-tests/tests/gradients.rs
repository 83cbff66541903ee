//! Gradients through this project's CPU backend, with and without recomputation in the backward pass.
#![allow(missing_docs)]

mod all_kept {
    burn_tests::testgen_gradients!(burn_autodiff::Autodiff<burn_flex::Flex>);
}

mod checkpointed {
    use burn_autodiff::checkpoint::strategy::BalancedCheckpointing;

    burn_tests::testgen_gradients!(burn_autodiff::Autodiff<burn_flex::Flex, BalancedCheckpointing>);
}
