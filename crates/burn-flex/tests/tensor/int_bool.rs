//! Integer and bool operations against the oracle, through `burn_tensor::Tensor`.

use crate::common::{agree, bool, int};
use burn_flex::Flex;
use burn_tensor::backend::Backend;
use burn_tensor::{Bool, DType, IndexingUpdateOp, Int, Tensor, TensorData, s};

/// Values around zero.
fn signed<B: Backend, const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D, Int> {
    int::<B, D>(shape, 41, seed) - 20
}

fn nonzero<B: Backend, const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D, Int> {
    int::<B, D>(shape, 9, seed) + 1
}

#[test]
fn arithmetic_agrees() {
    agree!(0.0, B => signed::<B, 2>([5, 7], 1) + signed([1, 7], 2));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1) - signed([5, 1], 2));
    agree!(0.0, B => signed::<B, 2>([7, 5], 1).transpose() * signed([5, 7], 2));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1) / nonzero([5, 7], 2));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).remainder(nonzero([5, 7], 2)));
    agree!(0.0, B => (signed::<B, 2>([5, 7], 1) + 3).sub_scalar(1).mul_scalar(5).div_scalar(3).remainder_scalar(4));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).neg());
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).abs());
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).sign());
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).clamp(-5, 5));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).clamp_min(-5));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).clamp_max(5));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).powi_scalar(3));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).powi(int([5, 7], 4, 2)));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).matmul(signed([7, 3], 2)));
    agree!(0.0, B => signed::<B, 2>([5, 7], 1).float());
    agree!(0.0, B => Tensor::<B, 1, Int>::arange(-3..9, &Default::default()));
    agree!(0.0, B => Tensor::<B, 1, Int>::arange_step(-3..9, 5, &Default::default()));
}

/// An exponent of 257 is not one of 1, the same number modulo 256.
#[test]
fn powers_have_exponents_of_any_dtype() {
    let device = Default::default();
    let bases: Tensor<Flex, 1, Int> = Tensor::from_data([3i8, -3, 2, -1], (&device, DType::I8));
    let exponents: Tensor<Flex, 1, Int> = Tensor::from_data([257i64; 4], (&device, DType::I64));
    let powers = bases.powi(exponents).into_data();
    let expected = [3i8, -3, 2, -1].map(|base| (0..257).fold(1i8, |power, _| power.wrapping_mul(base)));
    powers.assert_eq(&TensorData::from(expected), true);
}

#[test]
fn bits_agree() {
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_and(signed([35], 2)));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_or(signed([35], 2)));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_xor(signed([35], 2)));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_not());
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_and_scalar(6));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_or_scalar(6));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_xor_scalar(6));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_left_shift(int([35], 7, 2)));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_right_shift(int([35], 7, 2)));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_left_shift_scalar(3));
    agree!(0.0, B => signed::<B, 1>([35], 1).bitwise_right_shift_scalar(2));
}

#[test]
fn comparisons_agree() {
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).equal(signed::<B, 2>([9, 9], 1).transpose()));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).not_equal(signed::<B, 2>([9, 9], 1).transpose()));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).greater(signed([9, 9], 2)));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).greater_equal(signed([1, 9], 2)));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).lower(signed([9, 9], 2)));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).lower_equal(signed([9, 1], 2)));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).equal_elem(3));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).not_equal_elem(3));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).greater_elem(3));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).greater_equal_elem(3));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).lower_elem(3));
    agree!(0.0, B => signed::<B, 2>([9, 9], 1).lower_equal_elem(3));
}

#[test]
fn reductions_scans_and_orderings_agree() {
    agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).sum());
    agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).max());
    agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).min());
    agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).max_abs());
    agree!(0.0, B => nonzero::<B, 2>([2, 3], 1).prod());
    agree!(0.0, B => int::<B, 2>([5, 7], 41, 1).mean());
    for dim in 0..3 {
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).sum_dim(dim));
        agree!(0.0, B => int::<B, 3>([5, 7, 9], 41, 1).mean_dim(dim));
        agree!(0.0, B => nonzero::<B, 3>([4, 3, 5], 1).prod_dim(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).max_dim(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).min_dim(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).max_abs_dim(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).argmax(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).argmin(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).max_dim_with_indices(dim).1);
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).min_dim_with_indices(dim).0);
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).cumsum(dim));
        agree!(0.0, B => nonzero::<B, 3>([4, 3, 5], 1).cumprod(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).cummin(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).cummax(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).sort(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).sort_descending(dim));
        agree!(0.0, B => signed::<B, 3>([5, 7, 9], 1).topk(2, dim));
        agree!(0.0, B => int::<B, 3>([5, 7, 9], 3, 1).any_dim(dim));
        agree!(0.0, B => int::<B, 3>([5, 7, 9], 3, 1).all_dim(dim));
    }
    agree!(0.0, B => int::<B, 1>([5], 3, 1).any());
    agree!(0.0, B => int::<B, 1>([5], 3, 1).all());
    // Distinct values: ties may come in any order.
    agree!(0.0, B => int::<B, 2>([5, 33], 1 << 20, 1).argsort(1));
    agree!(0.0, B => int::<B, 2>([5, 33], 1 << 20, 1).sort_with_indices(1).1);
}

#[test]
fn movement_and_indexing_agree() {
    fn x<B: Backend>() -> Tensor<B, 3, Int> {
        signed([4, 5, 6], 1)
    }
    agree!(0.0, B => x::<B>().permute([2, 0, 1]).flip([1]).slice([s![..;2], s![1..], s![..]]));
    agree!(0.0, B => x::<B>().reshape([6, 20]).transpose().reshape([4, 30]));
    agree!(0.0, B => x::<B>().slice_assign([1..3, 0..5, 2..4], signed([2, 5, 2], 2)));
    agree!(0.0, B => x::<B>().unfold::<4, _>(1, 2, 1).expand([3, 4, 4, 6, 2]));
    agree!(0.0, B => Tensor::cat(vec![x::<B>(), x::<B>().flip([1])], 2));
    agree!(0.0, B => x::<B>().repeat_dim(1, 2));
    agree!(0.0, B => x::<B>().mask_where(bool([4, 5, 6], 2), signed([4, 5, 6], 3)));
    agree!(0.0, B => x::<B>().mask_fill(bool([4, 5, 6], 2), 7));
    agree!(0.0, B => x::<B>().gather(1, int([4, 3, 6], 5, 2)));
    agree!(0.0, B => x::<B>().scatter(1, int([4, 7, 6], 5, 2), signed([4, 7, 6], 3), IndexingUpdateOp::Add));
    agree!(0.0, B => x::<B>().select(2, int([9], 5, 2)));
    agree!(0.0, B => x::<B>().select_assign(1, int([9], 5, 2), signed([4, 9, 6], 3), IndexingUpdateOp::Add));
    agree!(0.0, B => x::<B>().gather_nd::<2, 2>(int([7, 2], 4, 2)));
}

#[test]
fn bools_agree() {
    fn x<B: Backend>() -> Tensor<B, 3, Bool> {
        bool([4, 5, 6], 1)
    }
    fn y<B: Backend>() -> Tensor<B, 3, Bool> {
        bool([4, 5, 6], 2)
    }
    agree!(0.0, B => x::<B>().bool_not());
    agree!(0.0, B => x::<B>().bool_and(y::<B>()));
    agree!(0.0, B => x::<B>().bool_or(y::<B>().flip([0])));
    agree!(0.0, B => x::<B>().bool_xor(y::<B>()));
    agree!(0.0, B => x::<B>().equal(y::<B>()));
    agree!(0.0, B => x::<B>().not_equal(y::<B>()));
    agree!(0.0, B => x::<B>().equal_elem(true));
    agree!(0.0, B => x::<B>().equal_elem(false));
    agree!(0.0, B => x::<B>().not_equal_elem(true));
    agree!(0.0, B => x::<B>().int());
    agree!(0.0, B => x::<B>().float());
    agree!(0.0, B => x::<B>().any());
    agree!(0.0, B => x::<B>().all());
    agree!(0.0, B => x::<B>().any_dim(1));
    agree!(0.0, B => x::<B>().all_dim(1));
    agree!(0.0, B => x::<B>().argwhere());
    agree!(0.0, B => x::<B>().swap_dims(0, 2).argwhere());
    agree!(0.0, B => x::<B>().permute([2, 0, 1]).flip([1]).slice([s![..;2], s![1..], s![..]]));
    agree!(0.0, B => x::<B>().slice_assign([1..3, 0..5, 2..4], y::<B>().slice([1..3, 0..5, 2..4])));
    agree!(0.0, B => Tensor::cat(vec![x::<B>(), y::<B>()], 1).repeat_dim(0, 2));
    agree!(0.0, B => x::<B>().mask_where(y::<B>(), x::<B>().bool_not()));
    agree!(0.0, B => x::<B>().mask_fill(y::<B>(), true));
    agree!(0.0, B => x::<B>().gather(1, int([4, 3, 6], 5, 2)));
    agree!(0.0, B => x::<B>().select(2, int([9], 5, 2)));
    agree!(0.0, B => x::<B>().unfold::<4, _>(1, 2, 1).expand([3, 4, 4, 6, 2]));
    agree!(0.0, B => x::<B>().scatter(1, int([4, 7, 6], 5, 2), bool([4, 7, 6], 3), IndexingUpdateOp::Add));
    agree!(0.0, B => x::<B>().select_assign(1, int([9], 5, 2), bool([4, 9, 6], 3), IndexingUpdateOp::Add));
}

#[test]
fn index_outputs_have_the_tensors_dtype_unless_it_is_too_narrow() {
    let x = Tensor::<Flex, 1, Int>::from_data(
        TensorData::new(vec![3i8, 9, -1], [3]),
        (&Default::default(), DType::I8),
    );
    assert_eq!(x.dtype(), DType::I8);
    assert_eq!(x.clone().argmax(0).dtype(), DType::I8);
    assert_eq!(x.argsort(0).into_data().to_vec::<i8>().unwrap(), [2, 0, 1]);
    let mut values = vec![0i8; 300];
    values[299] = 5;
    let x =
        Tensor::<Flex, 1, Int>::from_data(TensorData::new(values, [300]), (&Default::default(), DType::I8));
    assert_eq!(x.clone().argmax(0).into_data().to_vec::<i64>().unwrap(), [299]);
    assert_eq!(x.max_dim_with_indices(0).1.into_data().to_vec::<i64>().unwrap(), [299]);
}

#[test]
fn arithmetic_wraps_and_means_do_not() {
    let x = Tensor::<Flex, 1, Int>::from_data(
        TensorData::new(vec![100i8; 4], [4]),
        (&Default::default(), DType::I8),
    );
    assert_eq!((x.clone() + x.clone()).into_data().to_vec::<i8>().unwrap(), [-56; 4]);
    assert_eq!(x.clone().mean().into_data().to_vec::<i8>().unwrap(), [100]);
    assert_eq!(x.clamp_min(300).into_data().to_vec::<i8>().unwrap(), [127; 4]);
    let top = Tensor::<Flex, 1, Int>::from_data(
        TensorData::new(vec![u64::MAX], [1]),
        (&Default::default(), DType::U64),
    );
    assert_eq!(top.clone().sub_scalar(u64::MAX - 1).into_data().to_vec::<u64>().unwrap(), [1]);
    assert_eq!(top.equal_elem(u64::MAX).into_data().to_vec::<bool>().unwrap(), [true]);
}
