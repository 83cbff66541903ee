//! Weights that are used again: the form that a kernel prepared of them ends when they change.
#![allow(missing_docs)]

mod common;

use burn_flex::Flex;
use burn_flex::memory::prepared;
use burn_tensor::module::conv2d;
use burn_tensor::ops::{ConvOptions, PaddedConvOptions};
use burn_tensor::{Distribution, Tensor, TensorData, s};
use common::float;

type Weight = Tensor<Flex, 4>;

/// A convolution that reads a prepared form of its weight.
fn convolve(x: &Weight, w: &Weight) -> TensorData {
    let options: PaddedConvOptions<2> = ConvOptions::new([1, 1], [1, 1], [1, 1], 1).into();
    conv2d(x.clone(), w.clone(), None, options).into_data()
}

/// A single test, since the bytes of all forms are counted.
#[test]
fn operations_that_write_a_weight_end_its_form() {
    let x = float::<Flex, 4>([1, 64, 28, 28], 1);
    let mut w = float::<Flex, 4>([64, 64, 3, 3], 2);
    let part = float::<Flex, 4>([2, 64, 3, 3], 3);
    assert_eq!(prepared::bytes(), 0);
    type Write<'a> = &'a dyn Fn(Weight) -> Weight;
    let writes: [(&str, Write<'_>); 7] = [
        ("slice_assign", &|w| w.slice_assign(s![3..5], part.clone())),
        ("slice_fill", &|w| w.slice_fill(s![7..8], 0.5)),
        ("add_scalar", &|w| w + 0.25),
        ("mul", &|w| w * float::<Flex, 4>([64, 64, 3, 3], 5)),
        ("sin", &|w| w.sin()),
        ("mask_fill", &|w| w.clone().mask_fill(w.greater_elem(0.9), 0.1)),
        ("inplace", &|mut w| {
            w.inplace(|w| w.clamp(-0.5, 0.75));
            w
        }),
    ];
    for (name, write) in writes {
        let want = convolve(&x, &Tensor::from_data(w.to_data(), &w.device()));
        for call in 0..4 {
            assert_eq!(convolve(&x, &w), want, "before {name}: call {call}");
            assert_eq!(prepared::bytes() > 0, call > 0, "before {name}: call {call}");
        }
        // A clone keeps the bytes and their form.
        let clone = w.clone();
        let changed = write(clone);
        assert!(prepared::bytes() > 0);
        assert_eq!(convolve(&x, &w), want, "{name} on a clone");
        drop(changed);
        w = write(w);
        assert_ne!(convolve(&x, &w), want, "{name}");
        assert_eq!(prepared::bytes(), 0, "{name}");
        // The call above was the first use of the new bytes.
        w = Tensor::from_data(w.into_data(), &x.device());
    }
    drop(w);
    assert_eq!(prepared::bytes(), 0);

    // As in training: a weight changes after each use.
    let mut w = Tensor::<Flex, 4>::random([64, 64, 3, 3], Distribution::Default, &x.device());
    for _ in 0..3 {
        convolve(&x, &w);
        w = w - 0.01;
        assert_eq!(prepared::bytes(), 0);
    }

    prepared::set_limit(0);
    let want = convolve(&x, &w);
    assert!((0..3).all(|_| convolve(&x, &w) == want) && prepared::bytes() == 0);
    prepared::set_limit(prepared::default_limit());
    assert_eq!(prepared::limit(), prepared::default_limit());
}
