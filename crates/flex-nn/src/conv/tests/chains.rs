//! Convolutions that wait for the operations that follow them, against the same operations on a convolution
//! that is read first: the same bits.

use super::*;
use crate::Scalar;
use flex_map::elementwise::{Binary, Compare, Unary, binary, binary_scalar, cast, compare_scalar, unary};

/// A convolution of one way through the module, whose result is large enough to wait: input, weight and
/// options.
type Case = (&'static str, [usize; 4], [usize; 4], ConvOptions<2>);

fn options(stride: usize, padding: usize, groups: usize) -> ConvOptions<2> {
    ConvOptions { stride: [stride; 2], padding: [padding; 2], dilation: [1; 2], groups }
}

fn cases() -> Vec<Case> {
    vec![
        ("pointwise, long rows", [1, 5, 90, 80], [20, 5, 1, 1], options(1, 0, 1)),
        ("pointwise, short rows", [2, 9, 10, 10], [700, 9, 1, 1], options(1, 0, 1)),
        ("pointwise, many images", [70, 3, 12, 12], [14, 3, 1, 1], options(1, 0, 1)),
        ("tiles", [1, 8, 66, 66], [32, 8, 3, 3], options(1, 1, 1)),
        ("tiles of interleaved images", [8, 32, 13, 13], [100, 32, 3, 3], options(1, 1, 1)),
        ("rows with gaps", [1, 3, 80, 70], [25, 3, 5, 5], options(1, 2, 1)),
        ("strided", [2, 4, 120, 130], [18, 4, 3, 3], options(2, 1, 1)),
        ("product of matrices", [1, 16, 61, 60], [64, 16, 1, 1], options(1, 0, 1)),
        ("product, many images", [17, 16, 14, 14], [75, 16, 1, 1], options(1, 0, 1)),
        ("product of windows", [2, 8, 90, 91], [50, 8, 3, 3], options(2, 1, 1)),
        ("groups", [2, 8, 60, 61], [20, 2, 3, 3], options(1, 1, 4)),
        ("depthwise", [2, 37, 40, 41], [37, 1, 3, 3], options(1, 1, 37)),
        ("depthwise, large planes", [1, 19, 100, 90], [19, 1, 3, 3], options(2, 1, 19)),
        ("no input channels", [1, 0, 100, 100], [14, 0, 1, 1], options(1, 0, 1)),
    ]
}

/// The operations that follow a convolution.
type Chain = fn(Tensor, Tensor, Tensor) -> Tensor;

fn op(op: Binary, a: Tensor, b: Tensor) -> Tensor {
    binary(op, a, b).unwrap()
}

/// What follows, given the convolution, a value per channel, and a tensor of the result's shape.
const CHAINS: [(&str, Chain); 6] = [
    ("norm, residual, relu", |y, each, other| {
        let y = op(Binary::Mul, op(Binary::Sub, y, each.clone()), each);
        unary(Unary::Relu, op(Binary::Add, y, other)).unwrap()
    }),
    ("residual first", |y, _, other| op(Binary::Sub, unary(Unary::Exp, other).unwrap(), y)),
    ("used twice", |y, each, _| {
        let gate = unary(Unary::Sigmoid, op(Binary::Add, y.clone(), each)).unwrap();
        op(Binary::Mul, gate, y)
    }),
    ("another width", |y, _, _| {
        let y = unary(Unary::Abs, y).unwrap();
        compare_scalar(Compare::Gt, y, Scalar::Float(0.25), crate::BoolStore::Native).unwrap()
    }),
    ("through another width", |y, each, _| {
        let dtype = y.dtype();
        let y = cast(op(Binary::Add, y, each), DType::F64).unwrap();
        cast(binary_scalar(Binary::Mul, y, Scalar::Float(3.0)).unwrap(), dtype).unwrap()
    }),
    ("the last of two", |y, each, other| {
        let y = op(Binary::Add, y, each);
        let held = y.clone();
        let z = op(Binary::Mul, y, other);
        // Both results are read.
        op(Binary::Add, z, binary_scalar(Binary::Mul, held, Scalar::Float(2.0)).unwrap())
    }),
];

fn bytes(tensor: Tensor) -> Vec<u8> {
    tensor.into_bytes().unwrap().to_vec()
}

fn check_chains<T: Element>() {
    for (name, x, w, options) in cases() {
        let (x, weight) = (random::<T>(&x, 1), random::<T>(&w, 2));
        let bias = random::<T>(&[w[0]], 3);
        let run = || conv(x.clone(), weight.clone(), Some(bias.clone()), &options).unwrap();
        let each = random::<T>(&[1, w[0], 1, 1], 4);
        let plain = run();
        assert!(plain.waits(), "{name}");
        plain.evaluate().unwrap();
        let other = random::<T>(plain.shape().as_slice(), 5);
        for (chain_name, chain) in CHAINS {
            let want = bytes(chain(plain.to_contiguous().unwrap(), each.clone(), other.clone()));
            let got = bytes(chain(run(), each.clone(), other.clone()));
            assert!(got == want, "{name}, {chain_name}");
            // Somebody else holds the convolution too.
            let held = run();
            let got = bytes(chain(held.clone(), each.clone(), other.clone()));
            assert!(got == want && bytes(held) == bytes(plain.clone()), "{name}, {chain_name}, held");
            // The operand waits as well, for a convolution too.
            let got = bytes(chain(run(), each.clone(), run()));
            let want = bytes(chain(plain.clone(), each.clone(), plain.clone()));
            assert!(got == want, "{name}, {chain_name}, two convolutions");
        }
    }
}

#[test]
fn chains_have_the_same_bits() {
    check_chains::<f32>();
}

#[test]
fn chains_of_halves_have_the_same_bits() {
    check_chains::<bf16>();
}

#[test]
fn gradients_and_transposed_convolutions_wait() {
    let options = options(2, 1, 1);
    let (x, weight) = (random::<f32>(&[2, 10, 60, 61], 1), random::<f32>(&[24, 10, 3, 3], 2));
    let y = conv(x.clone(), weight.clone(), None, &options).unwrap();
    let run = || conv_x_backward(x.clone(), weight.clone(), y.clone(), &options).unwrap();
    let plain = run();
    plain.evaluate().unwrap();
    let masked = |grad: Tensor| {
        let grad = op(Binary::Mul, grad, x.clone());
        binary_scalar(Binary::Mul, grad, Scalar::Float(0.5)).unwrap()
    };
    assert!(run().waits() && bytes(masked(run())) == bytes(masked(plain)));
}

/// As in a residual block that begins with its activation.
#[test]
fn a_chain_may_hold_what_its_convolution_reads() {
    let (x, weight) = (random::<f32>(&[2, 8, 60, 61], 1), random::<f32>(&[8, 8, 3, 3], 2));
    let bias = random::<f32>(&[8], 3);
    let wait = |x: &Tensor| binary_scalar(Binary::Mul, x.clone(), Scalar::Float(0.5)).unwrap();
    let run = |read: bool| {
        let (source, weight, bias) = (wait(&x), wait(&weight), wait(&bias));
        if read {
            [&source, &weight, &bias].into_iter().for_each(|tensor| tensor.evaluate().unwrap());
        }
        let y = conv(source.clone(), weight, Some(bias), &options(1, 1, 1)).unwrap();
        bytes(op(Binary::Add, unary(Unary::Relu, y).unwrap(), source))
    };
    assert!(run(false) == run(true));
}

#[test]
fn a_small_convolution_does_not_wait() {
    let (x, weight) = (random::<f32>(&[1, 4, 20, 20], 1), random::<f32>(&[4, 4, 3, 3], 2));
    assert!(!conv(x, weight, None, &options(1, 1, 1)).unwrap().waits());
}

#[test]
fn a_convolution_that_waits_has_refused_what_is_wrong() {
    let (x, weight) = (random::<f32>(&[1, 4, 200, 200], 1), random::<f32>(&[4, 5, 3, 3], 2));
    assert!(conv(x, weight, None, &options(1, 1, 1)).is_err());
}
