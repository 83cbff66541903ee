//! Float operations against the oracle, through `burn_tensor::Tensor`.

use crate::common::{self, agree, bool, float, int};
use burn_tensor::backend::Backend;
use burn_tensor::ops::{GridSampleOptions, GridSamplePaddingMode, InterpolateMode};
use burn_tensor::{IndexingUpdateOp, Tensor, TensorData, s};

const CLOSE: f64 = 2e-5;

/// Contiguous, transposed, flipped, stepped and broadcast operands of shape [5, 7].
fn layouts<B: Backend>() -> Vec<Tensor<B, 2>> {
    vec![
        float([5, 7], 1),
        float::<B, 2>([7, 5], 2).transpose(),
        float::<B, 2>([5, 7], 3).flip([0, 1]),
        float::<B, 2>([10, 7], 4).slice([s![..;2], s![..]]),
        float::<B, 2>([1, 7], 5).expand([5, 7]),
    ]
}

fn all<B: Backend>(f: impl Fn(Tensor<B, 2>) -> Tensor<B, 2>) -> Tensor<B, 2> {
    Tensor::cat(layouts::<B>().into_iter().map(f).collect(), 0)
}

macro_rules! unary {
    ($($name:ident: $x:ident => $body:expr;)*) => {$(
        #[test]
        fn $name() {
            agree!(CLOSE, B => all::<B>(|$x| $body));
        }
    )*};
}

unary! {
    abs: x => x.abs();
    neg: x => x.neg();
    sign: x => x.sign();
    recip: x => x.recip();
    sqrt: x => x.abs().sqrt();
    exp: x => x.exp();
    log: x => x.abs().log();
    log1p: x => x.abs().log1p();
    erf: x => x.erf();
    sin: x => x.sin();
    cos: x => x.cos();
    tan: x => x.tan();
    sinh: x => x.sinh();
    cosh: x => x.cosh();
    tanh: x => x.tanh();
    asin: x => (x * 0.49).asin();
    acos: x => (x * 0.49).acos();
    atan: x => x.atan();
    asinh: x => x.asinh();
    acosh: x => (x.abs() + 1.0).acosh();
    atanh: x => (x * 0.49).atanh();
    round: x => x.round();
    floor: x => x.floor();
    ceil: x => x.ceil();
    trunc: x => x.trunc();
    add_scalar: x => x + 1.5;
    sub_scalar: x => x - 1.5;
    mul_scalar: x => x * 1.5;
    div_scalar: x => x / 1.5;
    remainder_scalar: x => x.remainder_scalar(0.7);
    powf_scalar: x => x.abs().powf_scalar(1.7);
    powi_scalar: x => x.powi_scalar(3);
    powi_scalar_negative: x => x.powi_scalar(-2);
    clamp: x => x.clamp(-0.5, 0.5);
    clamp_min: x => x.clamp_min(0.25);
    clamp_max: x => x.clamp_max(0.25);
    cumsum: x => x.cumsum(1);
    cumprod: x => x.cumprod(0);
    cummin: x => x.cummin(1);
    cummax: x => x.cummax(0);
    sum_dim: x => x.sum_dim(1);
    mean_dim: x => x.mean_dim(1);
    prod_dim: x => x.prod_dim(1);
    max_dim: x => x.max_dim(1);
    min_dim: x => x.min_dim(1);
    max_abs_dim: x => x.max_abs_dim(1);
    sort: x => x.sort(1);
    sort_descending: x => x.sort_descending(0);
    repeat_dim: x => x.repeat_dim(1, 3);
    reshape: x => x.reshape([7, 5]).reshape([5, 7]);
}

#[test]
fn binary_operations_broadcast_over_every_pair_of_layouts() {
    fn pairs<B: Backend>(f: impl Fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>) -> Tensor<B, 2> {
        let mut out = Vec::new();
        for a in layouts::<B>() {
            for b in layouts::<B>() {
                out.push(f(a.clone(), b));
            }
            out.push(f(a.clone(), float([1, 7], 8)));
            out.push(f(float([5, 1], 9), a));
        }
        Tensor::cat(out, 0)
    }
    agree!(0.0, B => pairs::<B>(|a, b| a + b));
    agree!(0.0, B => pairs::<B>(|a, b| a - b));
    agree!(0.0, B => pairs::<B>(|a, b| a * b));
    agree!(0.0, B => pairs::<B>(|a, b| a / b));
    // The oracle does not broadcast these.
    fn full<B: Backend>(t: Tensor<B, 2>) -> Tensor<B, 2> {
        t.expand([5, 7])
    }
    agree!(CLOSE, B => pairs::<B>(|a, b| full(a).remainder(full(b))));
    agree!(CLOSE, B => pairs::<B>(|a, b| full(a).abs().powf(full(b))));
    agree!(CLOSE, B => pairs::<B>(|a, b| full(a).atan2(full(b))));
    agree!(0.0, B => pairs::<B>(|a, b| full(a).max_pair(full(b))));
    agree!(0.0, B => pairs::<B>(|a, b| full(a).min_pair(full(b))));
}

#[test]
fn comparisons_agree() {
    fn a<B: Backend>() -> Tensor<B, 2> {
        float([6, 9], 1)
    }
    fn b<B: Backend>() -> Tensor<B, 2> {
        a::<B>().mask_where(bool([6, 9], 7), float([6, 9], 2))
    }
    agree!(0.0, B => a::<B>().equal(b::<B>()));
    agree!(0.0, B => a::<B>().not_equal(b::<B>()));
    agree!(0.0, B => a::<B>().greater(b::<B>()));
    agree!(0.0, B => a::<B>().greater_equal(b::<B>()));
    agree!(0.0, B => a::<B>().lower(b::<B>()));
    agree!(0.0, B => a::<B>().lower_equal(b::<B>()));
    agree!(0.0, B => a::<B>().floor().equal_elem(1.0));
    agree!(0.0, B => a::<B>().floor().not_equal_elem(1.0));
    agree!(0.0, B => a::<B>().greater_elem(0.1));
    agree!(0.0, B => a::<B>().floor().greater_equal_elem(0.0));
    agree!(0.0, B => a::<B>().lower_elem(0.1));
    agree!(0.0, B => a::<B>().floor().lower_equal_elem(0.0));
}

#[test]
fn specials_are_told_apart() {
    fn x<B: Backend>() -> Tensor<B, 1> {
        let data =
            [0.0f32, -0.0, 1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, -f32::NAN];
        Tensor::from_data(TensorData::from(data), &Default::default())
    }
    agree!(0.0, B => x::<B>().is_nan());
    agree!(0.0, B => x::<B>().is_inf());
    agree!(0.0, B => x::<B>().is_finite());
    agree!(0.0, B => x::<B>().equal(x::<B>()));
    agree!(0.0, B => x::<B>().not_equal(x::<B>()));
    agree!(0.0, B => x::<B>().contains_nan());
}

#[test]
fn reductions_agree() {
    agree!(CLOSE, B => float::<B, 3>([9, 11, 13], 1).sum());
    agree!(CLOSE, B => float::<B, 3>([9, 11, 13], 1).mean());
    agree!(1e-4, B => float::<B, 2>([3, 4], 1).abs().prod());
    agree!(0.0, B => float::<B, 3>([9, 11, 13], 1).max());
    agree!(0.0, B => float::<B, 3>([9, 11, 13], 1).min());
    agree!(0.0, B => float::<B, 3>([9, 11, 13], 1).max_abs());
    agree!(CLOSE, B => float::<B, 3>([9, 11, 13], 1).sum_dim(0));
    agree!(CLOSE, B => float::<B, 3>([9, 11, 13], 1).sum_dim(1));
    agree!(CLOSE, B => float::<B, 3>([9, 11, 13], 1).mean_dim(0));
    agree!(CLOSE, B => float::<B, 3>([9, 11, 13], 1).swap_dims(0, 2).mean_dim(1));
    for dim in 0..3 {
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).argmax(dim));
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).argmin(dim));
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).max_dim_with_indices(dim).0);
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).max_dim_with_indices(dim).1);
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).min_dim_with_indices(dim).0);
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).min_dim_with_indices(dim).1);
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).floor().any_dim(dim));
        agree!(0.0, B => float::<B, 3>([9, 11, 13], 2).floor().all_dim(dim));
    }
    agree!(0.0, B => float::<B, 1>([9], 2).any());
    agree!(0.0, B => float::<B, 1>([9], 2).all());
    agree!(CLOSE, B => float::<B, 2>([9, 11], 2).var(1));
    agree!(CLOSE, B => float::<B, 2>([9, 11], 2).cov(1, 1));
    agree!(0.0, B => float::<B, 2>([9, 11], 2).median(1));
}

#[test]
fn orderings_agree() {
    for dim in 0..3 {
        agree!(0.0, B => float::<B, 3>([5, 9, 33], 1).sort(dim));
        agree!(0.0, B => float::<B, 3>([5, 9, 33], 1).sort_with_indices(dim).1);
        agree!(0.0, B => float::<B, 3>([5, 9, 33], 1).sort_descending_with_indices(dim).0);
        agree!(0.0, B => float::<B, 3>([5, 9, 33], 1).argsort(dim));
        agree!(0.0, B => float::<B, 3>([5, 9, 33], 1).argsort_descending(dim));
        agree!(0.0, B => float::<B, 3>([5, 9, 33], 1).topk(3, dim));
    }
    // The oracle lacks arg-top-k; it is compared with sorting.
    let x = float::<burn_flex::Flex, 2>([5, 33], 1);
    let expected = x.clone().argsort_descending(1).slice([0..5, 0..4]);
    common::assert_same(&x.clone().argtopk(4, 1).into_data(), &expected.clone().into_data(), 0.0, "argtopk");
    common::assert_same(
        &x.topk_with_indices(4, 1).1.into_data(),
        &expected.into_data(),
        0.0,
        "topk_with_indices",
    );
}

#[test]
fn movement_and_indexing_agree() {
    fn x<B: Backend>() -> Tensor<B, 3> {
        float([4, 5, 6], 1)
    }
    agree!(0.0, B => x::<B>().permute([2, 0, 1]));
    agree!(0.0, B => x::<B>().swap_dims(0, 2));
    agree!(0.0, B => x::<B>().flip([0, 2]));
    agree!(0.0, B => x::<B>().slice([s![1..3], s![..;-2], s![-4..]]));
    agree!(0.0, B => x::<B>().slice_assign([1..3, 0..5, 2..4], float([2, 5, 2], 2)));
    agree!(0.0, B => x::<B>().slice_assign([s![1..3], s![..;-2], s![..;3]], float([2, 3, 2], 2)));
    agree!(0.0, B => x::<B>().slice_fill([1..3, 0..5, 2..4], 7.0));
    agree!(0.0, B => x::<B>().unfold::<4, _>(2, 3, 2));
    agree!(0.0, B => x::<B>().expand([2, 4, 5, 6]));
    agree!(0.0, B => Tensor::cat(vec![x::<B>(), x::<B>().flip([1])], 1));
    agree!(0.0, B => Tensor::stack::<4>(vec![x::<B>(), x::<B>().flip([1])], 2));
    agree!(0.0, B => x::<B>().repeat(&[2, 1, 3]));
    agree!(0.0, B => x::<B>().roll_dim(2, 1));
    agree!(0.0, B => x::<B>().mask_where(bool([4, 5, 6], 2), float([4, 5, 6], 3)));
    agree!(0.0, B => x::<B>().mask_fill(bool([4, 5, 6], 2), 0.5));
    agree!(0.0, B => x::<B>().triu(1));
    agree!(0.0, B => x::<B>().gather(1, int([4, 3, 6], 5, 2)));
    agree!(CLOSE, B => x::<B>().scatter(1, int([4, 7, 6], 5, 2), float([4, 7, 6], 3), IndexingUpdateOp::Add));
    agree!(0.0, B => x::<B>().select(1, int([9], 5, 2)));
    agree!(CLOSE, B => x::<B>().select_assign(1, int([9], 5, 2), float([4, 9, 6], 3), IndexingUpdateOp::Add));
    agree!(0.0, B => x::<B>().gather_nd::<2, 2>(int([7, 2], 4, 2)));
    let distinct = [[0, 1], [3, 2], [1, 4]];
    for update in
        [IndexingUpdateOp::Assign, IndexingUpdateOp::Add, IndexingUpdateOp::Mul, IndexingUpdateOp::Min]
    {
        agree!(CLOSE, B => {
            let indices = Tensor::<B, 2, burn_tensor::Int>::from_data(distinct, &Default::default());
            x::<B>().scatter_nd::<2, 2>(indices, float([3, 6], 3), update)
        });
    }
}

#[test]
fn products_agree() {
    agree!(CLOSE, B => float::<B, 2>([17, 33], 1).matmul(float([33, 19], 2)));
    agree!(CLOSE, B => float::<B, 2>([33, 17], 1).transpose().matmul(float::<B, 2>([19, 33], 2).transpose()));
    agree!(CLOSE, B => float::<B, 3>([4, 17, 33], 1).matmul(float([1, 33, 19], 2)));
    agree!(CLOSE, B => float::<B, 2>([1, 65], 1).matmul(float([65, 70], 2)));
    agree!(CLOSE, B => float::<B, 2>([5, 3], 1).cross(float([5, 3], 2), 1));
}

#[test]
fn grid_sampling_agrees() {
    for padding in
        [GridSamplePaddingMode::Zeros, GridSamplePaddingMode::Border, GridSamplePaddingMode::Reflection]
    {
        for corners in [false, true] {
            let options = GridSampleOptions::new(InterpolateMode::Bilinear)
                .with_padding_mode(padding)
                .with_align_corners(corners);
            agree!(1e-4, B => float::<B, 4>([2, 3, 5, 6], 1).grid_sample_2d(float([2, 4, 3, 2], 2), options.clone()));
        }
    }
}

#[test]
fn empty_tensors_pass_through() {
    type B = burn_flex::Flex;
    let x = float::<B, 2>([0, 3], 1);
    assert_eq!(x.clone().exp().dims(), [0, 3]);
    assert_eq!((x.clone() + float::<B, 2>([1, 3], 2)).dims(), [0, 3]);
    assert_eq!(x.clone().sum().into_scalar(), 0.0);
    assert_eq!(x.clone().sum_dim(0).into_data().to_vec::<f32>().unwrap(), [0.0; 3]);
    assert_eq!(Tensor::cat(vec![x.clone(), float([2, 3], 1)], 0).dims(), [2, 3]);
    assert_eq!(x.clone().matmul(float([3, 4], 1)).dims(), [0, 4]);
    assert_eq!(x.transpose().matmul(float([0, 4], 1)).into_data().to_vec::<f32>().unwrap(), [0.0; 12]);
}
