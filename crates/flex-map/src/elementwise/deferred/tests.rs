//! Chains against the same operations one by one, bit for bit. A result that is read at once is computed by
//! the operation alone, so reading each result is the oracle of the results that wait.

mod by_row;

use super::program::LARGE;
use super::rows::{MAX_REDUCTIONS, MAX_REDUCTIONS_OF_READY};
use super::*;
use crate::elementwise::{
    Binary, Compare, Unary, binary, binary_scalar, cast, clamp, compare, compare_scalar, full, hard_sigmoid,
    leaky_relu, mask_fill, mask_where, prelu, unary,
};
use crate::error::Error;
use crate::storage::{Adopted, Cut, Finish, PieceReduction, RowReducer, RowReduction};
use crate::{BoolStore, Element, Scalar, bf16, f16};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::RwLock;

const NATIVE: BoolStore = BoolStore::Native;

/// Computing all results that wait is the whole process's: it would compute those of other tests.
static EVALUATING_ALL: RwLock<()> = RwLock::new(());

/// A tensor of values between -2 and 2 that repeat after 1,009 elements.
fn values(shape: &[usize], seed: usize) -> Tensor {
    let count = shape.iter().product();
    let value = |k: usize| ((k * 37 + seed * 101) % 1009) as f32 / 252.0 - 2.0;
    Tensor::from_slice(&(0..count).map(value).collect::<Vec<_>>(), Shape::from(shape)).unwrap()
}

fn waits(tensor: &Tensor) -> bool {
    tensor.computation::<Node>().is_some_and(Node::waits)
}

/// The bits of the elements, in row-major order.
fn bits(tensor: &Tensor) -> Vec<u8> {
    tensor.to_contiguous().unwrap().into_bytes().unwrap().to_vec()
}

/// [`bits`] with the same bits for every NaN. The sign and the payload of a NaN that is computed are an
/// operand's, and the compiler may swap the operands of a sum.
fn bits_of_numbers(tensor: &Tensor) -> Vec<u8> {
    fn of<T: Element>(tensor: &Tensor, nan: T) -> Vec<u8> {
        let number = |x: T| if x.to_f64().is_nan() { nan } else { x };
        bytemuck::cast_slice(&tensor.to_vec::<T>().into_iter().map(number).collect::<Vec<T>>()).to_vec()
    }
    match tensor.dtype() {
        DType::F64 => of(tensor, f64::NAN),
        DType::F32 => of(tensor, f32::NAN),
        DType::F16 => of(tensor, f16::NAN),
        DType::BF16 => of(tensor, bf16::NAN),
        _ => bits(tensor),
    }
}

/// Images of 4 channels, large enough to wait for a reader.
const IMAGES: [usize; 4] = [3, 4, 100, 101];

fn scaled(x: Tensor, by: f64) -> Tensor {
    binary_scalar(Binary::Mul, x, Scalar::Float(by)).unwrap()
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
fn what_is_lost_in_a_panic_is_an_error() {
    let x = values(&IMAGES, 1);
    let y = binary(Binary::Add, x, values(&IMAGES, 2)).unwrap();
    let z = unary(Unary::Exp, y.clone()).unwrap();
    assert!(waits(&z));
    let sums = z.reduce_when_computed(row_reduction(&z, Panics)).unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sums.evaluate())).is_err());
    // Readers of all results are told, and do not wait for ever.
    for lost in [y, z, sums] {
        assert!(!waits(&lost));
        assert!(lost.evaluate().unwrap_err().to_string().contains("lost in a panic"));
    }
}

/// The axis that [`row_sums`] reduces: the last with more than one element.
fn row_axis(tensor: &Tensor) -> usize {
    tensor.shape().iter().rposition(|&size| size > 1).unwrap()
}

fn row_reduction(tensor: &Tensor, reducer: impl RowReducer + 'static) -> RowReduction {
    let (axis, mut shape) = (row_axis(tensor), tensor.shape().clone());
    let row = core::mem::replace(&mut shape[axis], 1);
    RowReduction { name: "row_sums", row, shape, dtype: tensor.dtype(), reducer: Box::new(reducer) }
}

/// A kernel, or a reduction, that does not come to an end.
struct Panics;

impl RowReducer for Panics {
    fn fold(&self, _: &[u8], _: &mut [u8]) {
        panic!("in a fold");
    }

    fn reduce(&self, _: Tensor) -> Result<Tensor> {
        panic!("in a reduction");
    }
}

/// Sums of rows of floats, element by element, rounded once.
struct RowSums {
    row: usize,
    dtype: DType,
}

impl RowReducer for RowSums {
    fn fold(&self, rows: &[u8], out: &mut [u8]) {
        fn fold<T: crate::Element>(row: usize, rows: &[u8], out: &mut [u8]) {
            let (rows, out): (&[T], &mut [T]) = (bytemuck::cast_slice(rows), bytemuck::cast_slice_mut(out));
            assert_eq!(rows.len(), row * out.len(), "whole rows");
            for (row, out) in rows.chunks_exact(row).zip(out) {
                *out = T::from_f64(row.iter().map(|x| x.to_f64()).sum());
            }
        }
        match self.dtype {
            DType::F32 => fold::<f32>(self.row, rows, out),
            DType::F64 => fold::<f64>(self.row, rows, out),
            DType::F16 => fold::<crate::f16>(self.row, rows, out),
            _ => fold::<crate::bf16>(self.row, rows, out),
        }
    }

    fn reduce(&self, tensor: Tensor) -> Result<Tensor> {
        let mut shape = tensor.shape().clone();
        shape[row_axis(&tensor)] = 1;
        let rows = bits(&tensor);
        let mut sums = Tensor::full(shape, 0.0, self.dtype)?;
        self.fold(&rows, sums.dense_bytes_mut().unwrap());
        Ok(sums)
    }
}

/// The [`RowSums`] of a tensor; of a tensor that waits as a tensor that waits.
fn row_sums(tensor: &Tensor) -> Tensor {
    let sums = || RowSums { row: tensor.shape()[row_axis(tensor)], dtype: tensor.dtype() };
    let waiting = tensor.reduce_when_computed(row_reduction(tensor, sums()));
    waiting.unwrap_or_else(|| sums().reduce(tensor.clone()).unwrap())
}

#[test]
fn reductions_of_rows_are_part_of_the_chain() {
    let _others = EVALUATING_ALL.read();
    let node = |x: &Tensor| x.computation::<Node>().unwrap().extent();
    for row in [2, 60, 101, 1024, 3000] {
        let shape = [400_000 / row, row];
        let x = values(&shape, 1);
        let (held, e) = (scaled(x.clone(), 0.5), scaled(x.clone(), 3.0));
        // The gradient of a softmax: (held - sum(held e)) e, with an operation on the sums and one held sum.
        let product = binary(Binary::Mul, held.clone(), e.clone()).unwrap();
        let sums = row_sums(&product);
        let halved = scaled(sums.clone(), 0.5);
        let expanded = halved.clone().expand(&shape).unwrap();
        let difference = binary(Binary::Sub, held.clone(), expanded).unwrap();
        let top = binary(Binary::Mul, difference, e.clone()).unwrap();
        assert!(waits(&sums) && waits(&halved) && waits(&top));
        assert_eq!((node(&halved).whole, node(&halved).row), (shape[0] * row, row));
        assert_eq!((node(&top).whole, node(&top).row), (shape[0] * row, row));
        drop((product, e, halved));
        top.evaluate().unwrap();
        // By the same pass; the product with a number is postponed.
        assert!(!waits(&sums) && waits(&held));
        let (x, sums, top) = (x.to_vec::<f32>(), sums.to_vec::<f32>(), top.to_vec::<f32>());
        for (r, x) in x.chunks_exact(row).enumerate() {
            let sum = x.iter().map(|x| f64::from(x * 0.5 * (x * 3.0))).sum::<f64>() as f32;
            assert_eq!(sums[r], sum, "row {r} of {row}");
            for (k, x) in x.iter().enumerate() {
                assert_eq!(top[r * row + k], (x * 0.5 - sum * 0.5) * (x * 3.0), "{k} of row {r} of {row}");
            }
        }
    }
}

#[test]
fn a_reduction_waits_for_what_reads_its_operand_too() {
    let sums = |x: &Tensor| row_sums(&operand_of_reduction(x.clone(), row_axis(x)));
    for row in [2, 101, 1024] {
        let x = values(&[300_000 / row, row], 1);
        let want = row_sums(&x).to_vec::<f32>();
        // x - sum(x), and the sum of its squares: one pass over one operand.
        let first = sums(&x);
        assert!(waits(&first), "rows of {row}");
        let centered = binary(Binary::Sub, x.clone(), first.clone()).unwrap();
        let squares = row_sums(&binary(Binary::Mul, centered.clone(), centered).unwrap());
        let extent = squares.computation::<Node>().unwrap().extent();
        assert_eq!((extent.whole, extent.row), (x.num_elements(), row));
        let squares = squares.to_vec::<f32>();
        assert!(!waits(&first) && first.to_vec::<f32>() == want);
        for (r, (x, sum)) in x.to_vec::<f32>().chunks_exact(row).zip(&want).enumerate() {
            let square = |x: &f32| f64::from((x - sum) * (x - sum));
            assert_eq!(squares[r], x.iter().map(square).sum::<f64>() as f32, "row {r} of {row}");
        }
        // Alone, and after its operand was dropped.
        let alone = sums(&x);
        drop(x);
        assert!(waits(&alone) && alone.to_vec::<f32>() == want);
    }
}

#[test]
fn a_reduction_does_not_wait_for_an_operand_that_nobody_else_reads() {
    let x = values(&[1400, 200], 1);
    let reduced = |x: Tensor, axis: usize| operand_of_reduction(x, axis).is_deferred();
    assert!(reduced(x.clone(), 1));
    // Columns; an axis that is wrong, or has one element; another order; a small view; a long row.
    assert!(!reduced(x.clone(), 0));
    assert!(!reduced(x.clone(), 2));
    assert!(!reduced(x.clone().reshape([1400, 200, 1]).unwrap(), 2));
    assert!(!reduced(x.clone().swap_axes(0, 1).unwrap(), 1));
    assert!(!reduced(x.clone().narrow(0, 7, 2).unwrap(), 1));
    let long = values(&[14, 20_000], 1);
    assert!(!reduced(long.clone(), 1));
    assert!(!reduced(x, 1), "the only holder");
}

#[test]
fn few_reductions_keep_their_operands() {
    let read: Vec<Tensor> = (0..3 * MAX_REDUCTIONS_OF_READY)
        .map(|k| {
            let x = values(&[1400, 200], k);
            row_sums(&operand_of_reduction(x.clone(), 1))
        })
        .collect();
    // Other tests of this process may have such reductions too.
    assert!(read.iter().filter(|sums| waits(sums)).count() <= MAX_REDUCTIONS_OF_READY);
    for (k, sums) in read.iter().enumerate() {
        assert_eq!(sums.to_vec::<f32>(), row_sums(&values(&[1400, 200], k)).to_vec::<f32>(), "{k}");
    }
}

#[test]
fn results_have_the_same_bits_one_by_one() {
    for row in [60, 101, 3000] {
        let [x, y] = [1, 2].map(|seed| values(&[120_000 / row, row], seed));
        let chain = || {
            let first = binary(Binary::Mul, x.clone(), y.clone()).unwrap();
            let e = unary(Unary::Exp, x.clone()).unwrap();
            let product = binary(Binary::Mul, first.clone(), e.clone()).unwrap();
            let sums = row_sums(&product);
            let difference = binary(Binary::Sub, first.clone(), sums.clone()).unwrap();
            let wide = cast(difference.clone(), DType::F64).unwrap();
            let top = binary(Binary::Mul, difference, e).unwrap();
            [first, sums, binary(Binary::Add, cast(wide, DType::F32).unwrap(), top).unwrap()]
        };
        let [singly, together] = [chain(), chain()];
        let got = singly[2].computation::<Node>().unwrap().computed_singly();
        together[2].evaluate().unwrap();
        assert_eq!(got.len(), 3);
        for (got, want) in got.iter().zip(&together) {
            assert!(!waits(want) && got[..] == bits(want)[..], "rows of {row}");
        }
    }
}

#[test]
fn reductions_that_nobody_reads_do_not_keep_memory() {
    let x = values(&[1000, 200], 1);
    let sums: Vec<Tensor> = (0..3 * MAX_REDUCTIONS).map(|k| row_sums(&scaled(x.clone(), k as f64))).collect();
    // Other tests of this process may have reductions that wait too.
    assert!(sums.iter().filter(|sums| waits(sums)).count() <= MAX_REDUCTIONS);
    let plain = row_sums(&x).to_vec::<f32>();
    for (k, sums) in sums.iter().enumerate() {
        let sums = sums.to_vec::<f32>();
        assert!(sums.iter().zip(&plain).all(|(a, b)| (a - b * k as f32).abs() < 1e-2), "{k}");
    }
}

#[test]
fn results_that_are_read_before_their_chain_are_tensors_that_it_reads() {
    let x = values(&[70_000], 1);
    let sum = |terms: &[Tensor]| {
        let mut terms = terms.iter().cloned();
        let first = terms.next().unwrap();
        terms.fold(first, |sum, term| binary(Binary::Add, sum, term).unwrap())
    };
    let terms: Vec<Tensor> = (0..=MAX_LEAVES)
        .map(|k| binary_scalar(Binary::Add, x.clone(), Scalar::Float(k as f64)).unwrap())
        .collect();
    let top = sum(&terms);
    assert_eq!(top.computation::<Node>().unwrap().extent().leaves, 1);
    terms.iter().for_each(|term| term.evaluate().unwrap());
    let got = top.to_vec::<f32>();
    let want = x.to_vec::<f32>().into_iter().map(|x| (1..=MAX_LEAVES).fold(x, |sum, k| sum + (x + k as f32)));
    assert!(got.into_iter().eq(want));
}

#[test]
fn nothing_waits_without_elements() {
    let x = scaled(values(&IMAGES, 1), 2.0);
    let none = x.clone().narrow(0, 0, 0).unwrap();
    let top = unary(Unary::Relu, scaled(none, 3.0)).unwrap();
    assert!(!waits(&top));
    assert_eq!(top.shape().as_slice(), [0, 4, 100, 101]);
    assert!(bits(&top).is_empty());
}

impl Producer for Panics {
    fn produce(&self, _: Option<Finish<'_>>) -> Result<Tensor> {
        panic!("in a kernel")
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
fn a_kernel_that_panics_leaves_nobody_waiting() {
    for held in [false, true] {
        let x = produce(Panics, Shape::from(IMAGES), DType::F32).unwrap();
        let y = scaled(x.clone(), 3.0);
        let x = held.then_some(x);
        let read = || y.evaluate();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).is_err());
        for lost in x.iter().chain([&y]) {
            assert!(lost.evaluate().unwrap_err().to_string().contains("lost in a panic"));
        }
    }
}

/// A kernel for which there is no memory.
struct Fails;

impl Producer for Fails {
    fn produce(&self, _: Option<Finish<'_>>) -> Result<Tensor> {
        Err(Error::Memory { op: "kernel", shape: vec![1], bytes: 4 })
    }
}

#[test]
fn an_operand_that_failed_is_an_error_of_its_readers() {
    let x = produce(Fails, Shape::from(IMAGES), DType::F32).unwrap();
    // An operation alone, a chain, and copies of another layout.
    let y = unary(Unary::Relu, x.clone()).unwrap();
    let z = scaled(scaled(x.clone(), 2.0), 3.0);
    assert!(x.evaluate().is_err());
    // Operations that do not wait, of one layout and of two.
    let few = x.clone().narrow(0, 0, 1).unwrap().narrow(1, 0, 1).unwrap();
    let turned = few.clone().swap_axes(2, 3).unwrap();
    let side = turned.shape().to_vec();
    for failed in [unary(Unary::Exp, few), binary(Binary::Pow, turned, values(&side, 1))] {
        assert!(matches!(failed, Err(Error::Memory { op: "kernel", .. })));
    }
    // One element that stands for a number beside a tensor that may wait.
    let one = x.clone().reshape(vec![IMAGES.iter().product()]).unwrap().narrow(0, 0, 1).unwrap();
    let scaled_by_one = binary(Binary::Mul, values(&[1 << 18], 1), one);
    let read = scaled_by_one.and_then(|tensor| tensor.evaluate());
    assert!(matches!(read, Err(Error::Memory { op: "kernel", .. })));
    // A buffer that is to be written.
    let mut written = unary(Unary::Relu, x.clone()).unwrap();
    let write = core::panic::AssertUnwindSafe(|| written.dense_bytes_mut().map(|bytes| bytes.len()));
    let panic = std::panic::catch_unwind(write).expect_err("nothing was computed");
    assert!(panic.downcast_ref::<alloc::string::String>().unwrap().starts_with("kernel: "));
    assert!(matches!(written.evaluate(), Err(Error::Memory { op: "kernel", .. })), "the error stays");
    // A chain whose pieces are to be folded.
    let (mut top, mut partials) = (scaled(x.clone(), 5.0), vec![0; IMAGES.iter().product()]);
    assert!(waits(&top));
    let fold = |_: &[u8], _: &mut [u8]| panic!("nothing was computed");
    let pieces = PieceReduction { cut: Cut::Even(1), partials: &mut partials, partial: 1, fold: &fold };
    assert!(matches!(top.fold_when_computed(pieces), Err(Error::Memory { op: "kernel", .. })));
    for tensor in [&y, &z, &x] {
        for _ in 0..2 {
            assert!(matches!(tensor.evaluate(), Err(Error::Memory { op: "kernel", .. })));
        }
        let turned = tensor.clone().swap_axes(0, 1).unwrap();
        assert!(matches!(turned.to_contiguous(), Err(Error::Memory { op: "kernel", .. })));
        assert!(matches!(turned.into_bytes(), Err(Error::Memory { op: "kernel", .. })));
    }
}

#[test]
fn a_small_view_does_not_keep_a_large_buffer() {
    let large = values(&[40, 100, 100], 1);
    let [half, few] = [20, 7].map(|n| scaled(large.clone().narrow(0, 0, n).unwrap(), 2.0));
    assert!(waits(&half) && !waits(&few));
}

/// A kernel that takes a while.
struct Slow;

impl Producer for Slow {
    fn produce(&self, _: Option<Finish<'_>>) -> Result<Tensor> {
        std::thread::sleep(core::time::Duration::from_millis(100));
        Ok(values(&IMAGES, 1))
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn nothing_waits_after_two_threads_have_evaluated_all() {
    let _alone = EVALUATING_ALL.write();
    // The first thread computes the latest node, and has to come to the others then.
    let first = scaled(values(&IMAGES, 2), 3.0);
    let slow = produce(Slow, Shape::from(IMAGES), DType::F32).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(evaluate_all);
        std::thread::sleep(core::time::Duration::from_millis(30));
        // Other tests of this process may have results that fail.
        let _ = evaluate_all();
        assert!(!waits(&first) && !waits(&slow));
    });
}

#[test]
fn a_chain_is_computed_when_it_is_read() {
    let x = values(&IMAGES, 1);
    let scale = values(&[1, 4, 1, 1], 2);
    let y = binary(Binary::Mul, x.clone(), scale.clone()).unwrap();
    let z = unary(Unary::Relu, binary(Binary::Add, y, x.clone()).unwrap()).unwrap();
    assert!(waits(&z));
    let (x, scale, got) = (x.to_vec::<f32>(), scale.to_vec::<f32>(), z.to_vec::<f32>());
    assert!(!waits(&z));
    for (k, &got) in got.iter().enumerate() {
        let want = (x[k] * scale[k / (100 * 101) % 4] + x[k]).max(0.0);
        assert_eq!(got, want, "element {k}");
    }
}

/// Long rows end tiles early, so that not every tile begins where the short vector does.
#[test]
fn a_vector_repeats_where_tiles_end_with_long_rows() {
    for (rows, row, len) in [(40, 12_500, 16), (100, 5000, 8), (16, 6160, 56)] {
        let x = values(&[rows, row], 1);
        let (scale, shift) = (values(&[rows, 1], 2), values(&[len], 3));
        let y = binary(Binary::Mul, x.clone(), scale.clone()).unwrap();
        let y = y.reshape([rows * row / len, len]).unwrap();
        let z = binary(Binary::Add, y, shift.clone()).unwrap();
        assert!(waits(&z));
        let [x, scale, shift, got] = [x, scale, shift, z].map(|tensor| tensor.to_vec::<f32>());
        for (k, &got) in got.iter().enumerate() {
            assert_eq!(got, x[k] * scale[k / row] + shift[k % len], "{k} of {rows} x {row} and {len}");
        }
    }
}

#[test]
fn small_tensors_do_not_wait() {
    assert!(!waits(&unary(Unary::Neg, values(&[100, 100], 1)).unwrap()));
}

#[test]
fn results_that_somebody_holds_are_stored_by_the_same_pass() {
    let x = values(&IMAGES, 1);
    let held = binary(Binary::Mul, x.clone(), values(&IMAGES, 2)).unwrap();
    let dropped = scaled(held.clone(), 0.5);
    let top = unary(Unary::Neg, dropped.clone()).unwrap();
    drop(dropped);
    top.evaluate().unwrap();
    assert!(!waits(&held));
    let factors = values(&IMAGES, 2).to_vec::<f32>();
    let want: Vec<f32> = x.to_vec::<f32>().iter().zip(factors).map(|(x, y)| x * y).collect();
    assert_eq!(held.to_vec::<f32>(), want);
}

#[test]
fn evaluating_all_stores_what_costs_little_too() {
    let _alone = EVALUATING_ALL.write();
    let x = values(&[300, 400], 1);
    let held = scaled(x, 2.0);
    let top = unary(Unary::Exp, held.clone()).unwrap();
    assert!(waits(&held) && waits(&top));
    evaluate_all().unwrap();
    assert!(!waits(&held) && !waits(&top));
}

/// The sums of pieces, counted, and whether they were folded.
fn sums_of_pieces(mut tensor: Tensor, cut: Cut<'_>, pieces: usize) -> (Vec<f32>, bool) {
    let mut partials = vec![0; 4 * pieces];
    let fold = |piece: &[u8], partial: &mut [u8]| {
        let sum: f32 = bytemuck::cast_slice::<_, f32>(piece).iter().sum();
        partial.copy_from_slice(&sum.to_ne_bytes());
    };
    let reduction = PieceReduction { cut, partials: &mut partials, partial: 4, fold: &fold };
    let folded = tensor.fold_when_computed(reduction).unwrap();
    (partials.chunks_exact(4).map(|sum| f32::from_ne_bytes(sum.try_into().unwrap())).collect(), folded)
}

#[test]
fn pieces_are_folded_without_being_stored() {
    let _others = EVALUATING_ALL.read();
    let x = values(&[200, 3, 1000], 1);
    let turned = |x: &Tensor| x.clone().swap_axes(0, 1).unwrap();
    let copy = |x: &Tensor| row_major(&turned(x), &Shape::from([3, 200_000])).expect("it waits");
    let want: Vec<f32> = turned(&x).to_vec::<f32>().chunks(5000).map(|piece| piece.iter().sum()).collect();
    // Of a tensor that is computed, and of a chain, whose own result is not stored.
    assert_eq!(sums_of_pieces(copy(&x), Cut::Even(5000), 120), (want.clone(), true));
    let chain = || scaled(x.clone(), 2.0);
    let doubled = |sums: &[f32]| sums.iter().map(|sum| 2.0 * sum).collect::<Vec<f32>>();
    assert_eq!(sums_of_pieces(copy(&chain()), Cut::Even(5000), 120), (doubled(&want), true));
    // Where somebody holds the chain's result, it is stored, and gathered.
    let held = chain();
    assert_eq!(sums_of_pieces(copy(&held), Cut::Even(5000), 120), (doubled(&want), true));
    assert!(!waits(&held));
    let kept = copy(&x);
    assert!(!sums_of_pieces(kept.clone(), Cut::Even(5000), 120).1, "the copy has another reader");
    // Two runs for each piece.
    let runs = |k: usize, run: &mut dyn FnMut(Range<usize>)| {
        run(k * 1000..(k + 1) * 1000);
        run(300_000 + k * 1000..300_000 + (k + 1) * 1000);
    };
    let cut = Cut::Runs { of: &runs, longest: 2000 };
    let numbers = x.to_vec::<f32>();
    let sum =
        |k: usize| numbers[k * 1000..][..1000].iter().chain(&numbers[300_000 + k * 1000..][..1000]).sum();
    let want: Vec<f32> = (0..300).map(sum).collect();
    assert_eq!(sums_of_pieces(chain(), cut, 300), (doubled(&want), true));
    let held = chain();
    assert!(!sums_of_pieces(held.clone(), cut, 300).1 && !waits(&held), "computed for its other reader");
}

/// Lent memory whose owner computes what waits when it is given back.
struct Owner(Vec<f32>);

impl Adopted for Owner {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }

    fn is_writable(&self) -> bool {
        false
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        evaluate_all().unwrap();
    }
}

/// The results are there before the operands are dropped. Otherwise the thread would wait for itself.
#[test]
fn destructors_of_operands_may_compute_what_waits() {
    let _alone = EVALUATING_ALL.write();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let shape = [200, 3, 1000];
        let lent = || {
            let bytes = Bytes::adopt(Owner(vec![1.0; shape.iter().product()]));
            Tensor::from_bytes(bytes, shape, DType::F32).unwrap()
        };
        let chain = scaled(scaled(lent(), 2.0), 3.0);
        assert_eq!(chain.to_vec::<f32>()[7], 6.0);
        let sums = sums_of_pieces(scaled(lent(), 2.0), Cut::Even(5000), 120);
        assert_eq!(sums, (vec![10_000.0; 120], true));
        let turned = scaled(lent(), 2.0).swap_axes(0, 1).unwrap();
        let copy = row_major(&turned, &Shape::from([3, 200_000])).expect("it waits");
        drop(turned);
        assert_eq!(copy.to_vec::<f32>()[7], 2.0);
        done.send(()).unwrap();
    });
    let patience = std::time::Duration::from_secs(60);
    is_done.recv_timeout(patience).expect("the thread does not wait for itself, and does not panic");
}

/// Otherwise making or dropping the last of many copies would recurse through all of them.
#[test]
fn a_copy_of_a_copy_that_waits_is_taken_of_a_copy_that_is_made() {
    let _others = EVALUATING_ALL.read();
    let x = values(&[200, 3, 1000], 1);
    let copy = |x: &Tensor| row_major(&x.clone().swap_axes(0, 1).unwrap(), &Shape::from([3, 200, 1000]));
    let first = copy(&x).expect("it waits");
    assert!(first.waits());
    let second = copy(&first).expect("it waits");
    assert!(!first.waits() && second.waits());
    // The order of the elements is the first one again.
    assert_eq!(second.to_vec::<f32>(), x.to_vec::<f32>());
}

/// A norm's centred and scaled elements, held as gradients hold them.
#[test]
fn results_that_cost_little_are_computed_again() {
    let _others = EVALUATING_ALL.read();
    let shape = [300, 400];
    let x = values(&shape, 1);
    let sums = row_sums(&operand_of_reduction(x.clone(), 1));
    let centred = binary(Binary::Sub, x.clone(), sums.clone()).unwrap();
    let squares = row_sums(&binary(Binary::Mul, centred.clone(), centred.clone()).unwrap());
    let quotient = binary(Binary::Div, centred.clone(), squares.clone()).unwrap();
    let read = |seed: f64| {
        let top = unary(Unary::Exp, scaled(quotient.clone(), seed)).unwrap();
        assert!(waits(&top));
        top.evaluate().unwrap();
    };
    read(0.5);
    assert!(waits(&centred) && waits(&quotient) && !waits(&sums) && !waits(&squares));
    // The chain of the quotient: the two operations, of `x` and the results of rows.
    let extent = quotient.computation::<Node>().unwrap().extent();
    assert_eq!((extent.nodes, extent.leaves, extent.row), (2, 3, 0));
    read(0.25);
    read(2.0);
    assert!(waits(&centred) && waits(&quotient));
    read(3.0);
    assert!(!waits(&quotient), "stored at last");
    let row = x.to_vec::<f32>()[400..800].to_vec();
    let (sum, square) = (sums.to_vec::<f32>()[1], squares.to_vec::<f32>()[1]);
    let want: Vec<f32> = row.iter().map(|x| x - sum).collect();
    assert_eq!(centred.to_vec::<f32>()[400..800], want);
    let want: Vec<f32> = want.iter().map(|x| x / square).collect();
    assert_eq!(quotient.to_vec::<f32>()[400..800], want);
}

#[test]
fn what_costs_more_to_compute_again_is_stored() {
    let _others = EVALUATING_ALL.read();
    let shape = [300, 400];
    let held = |f: &dyn Fn(Tensor) -> Tensor| {
        let held = f(values(&shape, 1));
        binary(Binary::Mul, held.clone(), values(&shape, 3)).unwrap().evaluate().unwrap();
        !waits(&held)
    };
    assert!(held(&|x| binary(Binary::Add, x, values(&shape, 2)).unwrap()), "two operands");
    let other_order = values(&[20, 15, 400], 2).swap_axes(0, 1).unwrap();
    let turned = |x: Tensor| {
        let sum = binary(Binary::Add, x.reshape([15, 20, 400]).unwrap(), other_order.clone()).unwrap();
        assert!(waits(&sum), "it is read in rows");
        sum.reshape(shape).unwrap()
    };
    assert!(held(&turned), "an operand in another order");
    let part = |x: Tensor| {
        let both = values(&[600, 400], 2);
        drop(x);
        scaled(both.narrow(0, 0, 300).unwrap(), 2.0)
    };
    assert!(held(&part), "a part of a buffer");
    assert!(held(&|x| unary(Unary::Exp, x).unwrap()), "not light");
    assert!(held(&|x| scaled(scaled(scaled(scaled(x, 2.0), 3.0), 4.0), 5.0)), "many operations");
    assert!(!held(&|x| scaled(x, 2.0)));
    assert!(!held(&|x| binary(Binary::Mul, x.clone(), x).unwrap()));
}

#[test]
fn a_buffer_that_only_the_chain_holds_is_taken_over() {
    let x = values(&IMAGES, 1);
    let address = x.storage_bytes().as_ptr();
    let kept = values(&IMAGES, 2);
    let y = scaled(binary(Binary::Sub, x, kept.clone()).unwrap(), 2.0);
    assert_eq!(y.storage_bytes().as_ptr(), address);
    let mut y = y;
    assert_eq!(y.dense_bytes_mut().unwrap().as_ptr(), address, "the result is a plain buffer");
    assert_eq!(y.into_bytes().unwrap().as_ptr(), address);
    assert_eq!(bits(&kept), bits(&values(&IMAGES, 2)));
}

/// Images of 4 channels whose rows end within groups of vectors.
const ODD: [usize; 4] = [3, 4, 97, 61];

/// Functions of a pass, with a second operand that is a tensor, a channel's number or a constant.
fn light(which: usize, x: Tensor) -> Tensor {
    const BINARY: [Binary; 7] =
        [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min, Binary::ReluGrad];
    const UNARY: [Unary; 5] = [Unary::Abs, Unary::Neg, Unary::Recip, Unary::Sqrt, Unary::Relu];
    let number = Scalar::Float(-0.75);
    let shape = x.shape().clone();
    if let Some(&op) = UNARY.get(which) {
        return unary(op, x).unwrap();
    }
    match which - UNARY.len() {
        0 => binary_scalar(Binary::Pow, x, Scalar::Float(2.0)).unwrap(),
        1 => clamp(x, Some(Scalar::Float(-0.5)), Some(Scalar::Float(1.5))).unwrap(),
        2 => binary(Binary::Mul, x.clone(), x).unwrap(),
        3 => hard_sigmoid(x, 0.2, 0.5).unwrap(),
        4 => leaky_relu(x, 0.1).unwrap(),
        5 => prelu(x, values(&[1, 4, 1, 1], 7)).unwrap(),
        k => {
            let (op, way) = (BINARY[(k - 6) / 5], (k - 6) % 5);
            match way {
                0 => binary(op, x, values(&shape, 3)).unwrap(),
                1 => binary(op, values(&shape, 4), x).unwrap(),
                2 => binary(op, x, values(&[1, 4, 1, 1], 5)).unwrap(),
                3 => binary(op, values(&[4, 1, 61], 6), x).unwrap(),
                _ => binary_scalar(op, x, number).unwrap(),
            }
        }
    }
}

#[test]
fn functions_in_one_pass_have_the_bits_of_single_ones() {
    const FUNCTIONS: usize = 5 + 6 + 7 * 5;
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-40, f32::MAX];
    let mut start = values(&ODD, 1).to_vec::<f32>();
    start.iter_mut().step_by(5).zip(special.iter().cycle()).for_each(|(x, &value)| *x = value);
    let start = Tensor::from_slice(&start, Shape::from(&ODD[..])).unwrap();
    for first in 0..FUNCTIONS {
        let one = light(first, start.clone());
        one.evaluate().unwrap();
        for (second, third) in (0..FUNCTIONS).map(|second| (second, (first + 7 * second) % FUNCTIONS)) {
            let two = light(second, one.clone());
            two.evaluate().unwrap();
            let want = light(third, two.clone());
            want.evaluate().unwrap();
            let held = light(second, light(first, start.clone()));
            let got = light(third, held.clone());
            assert!(waits(&got));
            assert_eq!(bits(&got), bits(&want), "{first}, {second}, {third}");
            assert_eq!(bits(&held), bits(&two), "{first}, {second}");
            let got = light(third, light(second, light(first, start.clone())));
            assert_eq!(bits(&got), bits(&want), "{first}, {second}, {third}");
        }
    }
}

#[test]
fn light_functions_are_computed_in_one_pass() {
    let passes = |x: Tensor| x.computation::<Node>().unwrap().passes();
    let (x, y, channel) = (values(&IMAGES, 1), values(&IMAGES, 2), values(&[1, 4, 1, 1], 3));
    let op = |op, a: &Tensor, b: &Tensor| binary(op, a.clone(), b.clone()).unwrap();
    let norm = op(Binary::Div, &op(Binary::Sub, &x, &channel), &channel);
    let norm = op(Binary::Add, &op(Binary::Mul, &norm, &channel), &channel);
    let sum = op(Binary::Add, &y, &norm);
    drop(norm);
    assert_eq!(passes(unary(Unary::Relu, sum).unwrap()), 1);
    // A value that two functions read, and a function that is not light.
    let double = scaled(x.clone(), 2.0);
    let (a, b) = (scaled(double.clone(), 3.0), scaled(double, 4.0));
    assert_eq!(passes(op(Binary::Add, &a, &b)), 1);
    let exp = unary(Unary::Exp, scaled(x, 2.0)).unwrap();
    assert_eq!(passes(scaled(exp, 3.0)), 3);
}

/// A mask as wide as the booleans it chooses between. It is a result of the chain, or a leaf that nothing
/// else holds.
/// Results of `LARGE` bytes go past the caches if their memory is new, as far as there are whole vectors.
#[test]
fn large_results_are_those_of_small_ones() {
    for count in [LARGE / 4, LARGE / 4 + 1, LARGE / 4 + 16 * 1024 + 48, LARGE / 2 - 5] {
        let (x, y) = (values(&[count], 1), values(&[count], 2));
        let (a, b) = (x.to_vec::<f32>(), y.to_vec::<f32>());
        let check = |got: Tensor, want: fn(f32, f32) -> f32| {
            let got = got.to_vec::<f32>();
            assert!(a.iter().zip(&b).zip(&got).all(|((&a, &b), &got)| got == want(a, b)), "{count}");
        };
        let add = || binary(Binary::Add, x.clone(), y.clone()).unwrap();
        // One function; several; of which one result is held; and one that is also an operand.
        check(add(), |a, b| a + b);
        check(unary(Unary::Relu, scaled(add(), 3.0)).unwrap(), |a, b| ((a + b) * 3.0).max(0.0));
        let held = add();
        check(unary(Unary::Abs, held.clone()).unwrap(), |a, b| (a + b).abs());
        check(held, |a, b| a + b);
        let sum = add();
        check(binary(Binary::Mul, scaled(sum.clone(), 2.0), sum).unwrap(), |a, b| (a + b) * 2.0 * (a + b));
        // In the memory of an operand.
        check(scaled(binary(Binary::Add, values(&[count], 1), y.clone()).unwrap(), 3.0), |a, b| {
            (a + b) * 3.0
        });
    }
}

#[test]
fn the_place_of_a_mask_is_not_overwritten() {
    let x = values(&[600_000], 1);
    let less = |than| compare_scalar(Compare::Lt, x.clone(), Scalar::Float(than), NATIVE).unwrap();
    let select = |mask| mask_where(less(-1.0), mask, less(0.5)).unwrap();
    let want: Vec<u8> =
        x.to_vec::<f32>().iter().map(|&x| (x < if x < 0.25 { 0.5 } else { -1.0 }) as u8).collect();
    assert_eq!(bits(&select(less(0.25))), want);
    let mask = less(0.25);
    mask.evaluate().unwrap();
    assert_eq!(bits(&select(mask)), want);
}

#[test]
fn shapes_and_dtypes_are_refused_at_the_call() {
    let waiting = unary(Unary::Exp, values(&IMAGES, 1)).unwrap();
    assert!(binary(Binary::Add, waiting.clone(), values(&[7], 1)).is_err());
    assert!(binary(Binary::Add, waiting.clone(), cast(waiting, DType::F64).unwrap()).is_err());
}

#[test]
fn long_chains_are_computed_on_the_way() {
    let start = values(&[70_000], 1);
    let mut x = start.clone();
    for _ in 0..3 * MAX_NODES {
        x = binary_scalar(Binary::Add, x, Scalar::Float(1.0)).unwrap();
        assert!(x.computation::<Node>().unwrap().extent().nodes <= MAX_NODES);
    }
    let mut sum = start.clone();
    for k in 0..3 * MAX_LEAVES {
        sum = binary(Binary::Add, sum, values(&[70_000], k)).unwrap();
        assert!(sum.computation::<Node>().unwrap().extent().leaves <= MAX_LEAVES);
    }
    let one_by_one = (0..3 * MAX_NODES).fold(start, |x, _| {
        let x = binary_scalar(Binary::Add, x, Scalar::Float(1.0)).unwrap();
        x.evaluate().unwrap();
        x
    });
    assert_eq!(bits(&x), bits(&one_by_one));
}

/// Threads that read results of overlapping chains at once.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn threads_that_read_one_result_compute_it_once() {
    for round in 0..20 {
        let x = values(&IMAGES, round);
        let shared = unary(Unary::Exp, scaled(x.clone(), 0.5)).unwrap();
        let tops: Vec<Tensor> = (0..4).map(|k| scaled(shared.clone(), 1.0 + k as f64)).collect();
        let address = |t: &Tensor| t.storage_bytes().as_ptr() as usize;
        let read = || tops.iter().map(|t| (address(t), address(&shared))).collect::<Vec<_>>();
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|k| {
                    let read = &read;
                    let top = &tops[k];
                    scope.spawn(move || {
                        top.evaluate().unwrap();
                        read()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(found.iter().all(|addresses| *addresses == found[0]));
        let want: Vec<f32> = shared.to_vec::<f32>().iter().map(|x| x * 3.0).collect();
        assert_eq!(tops[2].to_vec::<f32>(), want);
    }
}

/// A step of a random program over a list of tensors.
#[derive(Clone, Debug)]
enum Action {
    Unary(usize, Index),
    Binary(usize, Index, Index),
    /// With a tensor that broadcasts: which, and whether it is the left operand.
    Broadcast(usize, Index, usize, bool),
    Scalar(usize, Index),
    Cast(usize, Index),
    Compare(Index, Index),
    Where(Index, Index, Index),
    Fill(Index),
    Clamp(Index),
    /// A tensor and sums of rows, in one of several forms.
    Sums(usize, usize, Index, Index),
    /// A view of another layout.
    View(usize, Index),
    Drop(Index),
    Read(Index),
}

fn action() -> impl Strategy<Value = Action> {
    let index = any::<Index>;
    prop_oneof![
        3 => (0..6usize, index()).prop_map(|(op, a)| Action::Unary(op, a)),
        4 => (0..5usize, index(), index()).prop_map(|(op, a, b)| Action::Binary(op, a, b)),
        3 => (0..5usize, index(), 0..5usize, any::<bool>()).prop_map(|(op, a, with, left)| Action::Broadcast(op, a, with, left)),
        3 => (0..5usize, index()).prop_map(|(op, a)| Action::Scalar(op, a)),
        1 => (0..5usize, index()).prop_map(|(to, a)| Action::Cast(to, a)),
        2 => (index(), index()).prop_map(|(a, b)| Action::Compare(a, b)),
        2 => (index(), index(), index()).prop_map(|(a, b, c)| Action::Where(a, b, c)),
        1 => index().prop_map(Action::Fill),
        1 => index().prop_map(Action::Clamp),
        3 => (0..5usize, 0..6usize, index(), index()).prop_map(|(op, form, a, b)| Action::Sums(op, form, a, b)),
        1 => (0..5usize, index()).prop_map(|(view, a)| Action::View(view, a)),
        4 => index().prop_map(Action::Drop),
        1 => index().prop_map(Action::Read),
    ]
}

/// A shape of 60,000 to 80,000 elements, with rows shorter and longer than a tile.
const SHAPE: [usize; 4] = [2, 5, 70, 101];

/// Runs a program; `read` sees each new result. Returns the tensors that are left, and some sums of rows.
fn execute(program: &[Action], shape: [usize; 4], read: impl Fn(&Tensor)) -> Vec<Tensor> {
    let [n, c, h, w] = shape;
    let patterns: Vec<Vec<usize>> =
        vec![vec![1, c, 1, 1], vec![w], vec![n, c, 1, 1], vec![1, 1, 1, 1], vec![1, c, h, w]];
    let others: Vec<Tensor> = patterns.iter().enumerate().map(|(k, shape)| values(shape, k)).collect();
    let mut live: Vec<Tensor> = (0..3).map(|k| values(&shape, k)).collect();
    let mut kept = Vec::new();
    let binaries = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max];
    let unaries = [Unary::Neg, Unary::Abs, Unary::Exp, Unary::Relu, Unary::Tanh, Unary::Floor];
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32];
    let as_float = |t: Tensor, d: DType| cast(t, if d.is_float() { d } else { DType::F32 }).unwrap();
    for action in program {
        if live.is_empty() {
            live.push(values(&shape, 3));
        }
        let pick = |index: &Index, live: &Vec<Tensor>| live[index.index(live.len())].clone();
        let new = match action {
            Action::Unary(op, a) => {
                let a = pick(a, &live);
                let dtype = a.dtype();
                Some(unary(unaries[*op], as_float(a, dtype)).unwrap())
            }
            Action::Binary(op, a, b) => {
                let (a, b) = (pick(a, &live), pick(b, &live));
                let dtype = a.dtype();
                Some(
                    binary(
                        binaries[*op],
                        as_float(a, dtype),
                        cast(as_float(b, dtype), if dtype.is_float() { dtype } else { DType::F32 }).unwrap(),
                    )
                    .unwrap(),
                )
            }
            Action::Broadcast(op, a, with, left) => {
                let a = pick(a, &live);
                let dtype = a.dtype();
                let a = as_float(a, dtype);
                let other = cast(others[*with].clone(), a.dtype()).unwrap();
                let (a, b) = if *left { (other, a) } else { (a, other) };
                Some(binary(binaries[*op], a, b).unwrap())
            }
            Action::Scalar(op, a) => {
                let a = pick(a, &live);
                let dtype = a.dtype();
                Some(binary_scalar(binaries[*op], as_float(a, dtype), Scalar::Float(1.3)).unwrap())
            }
            Action::Cast(to, a) => Some(cast(pick(a, &live), dtypes[*to]).unwrap()),
            Action::Compare(a, b) => {
                let (a, b) = (pick(a, &live), pick(b, &live));
                Some(compare(Compare::Lt, as_float(a, DType::F32), as_float(b, DType::F32), NATIVE).unwrap())
            }
            Action::Where(a, b, c) => {
                let (a, b, c) = (pick(a, &live), pick(b, &live), pick(c, &live));
                let mask = compare_scalar(Compare::Ge, as_float(b, DType::F32), Scalar::Float(0.1), NATIVE);
                let dtype = a.dtype();
                Some(mask_where(a, mask.unwrap(), cast(c, dtype).unwrap()).unwrap())
            }
            Action::Fill(a) => {
                let a = pick(a, &live);
                let mask =
                    compare_scalar(Compare::Lt, as_float(a.clone(), DType::F32), Scalar::Float(0.0), NATIVE);
                Some(mask_fill(a, mask.unwrap(), Scalar::Int(1)).unwrap())
            }
            Action::Clamp(a) => {
                let a = pick(a, &live);
                let dtype = a.dtype();
                let (min, max) = (Some(Scalar::Float(-1.0)), Some(Scalar::Float(1.5)));
                Some(clamp(as_float(a, dtype), min, max).unwrap())
            }
            Action::Sums(op, form, a, b) => {
                let (a, b) = (pick(a, &live), pick(b, &live));
                let dtype = a.dtype();
                let a = as_float(a, dtype);
                let b = cast(as_float(b, DType::F32), a.dtype()).unwrap();
                let op = binaries[*op];
                let sums = row_sums(&a);
                Some(
                    match form {
                        0 => binary(op, b, sums),
                        1 => binary(op, sums, b),
                        2 => binary(op, b, unary(Unary::Exp, sums.clone()).unwrap())
                            .and_then(|x| binary(op, x, sums)),
                        3 => binary(op, b.clone(), binary(op, sums, row_sums(&b)).unwrap()),
                        4 => binary(op, b, scaled(sums, 0.25).expand(&shape).unwrap()),
                        _ => {
                            kept.push(sums.clone());
                            binary(op, sums, a)
                        }
                    }
                    .unwrap(),
                )
            }
            Action::View(view, a) => {
                let a = pick(a, &live);
                Some(match view {
                    0 => a.swap_axes(2, 3).unwrap().reshape(shape).unwrap(),
                    1 => a.flip(&[1]).unwrap(),
                    2 => a.reshape([n * c, h * w]).unwrap().reshape(shape).unwrap(),
                    3 => a.narrow(0, 0, 1).unwrap().expand(&shape).unwrap(),
                    _ => a,
                })
            }
            Action::Drop(a) => {
                live.remove(a.index(live.len()));
                None
            }
            Action::Read(a) => {
                pick(a, &live).evaluate().unwrap();
                None
            }
        };
        if let Some(new) = new {
            read(&new);
            live.push(new);
        }
    }
    live.append(&mut kept);
    live
}

fn check(program: &[Action], shape: [usize; 4], readers: Range<usize>) {
    let want = execute(program, shape, |tensor| tensor.evaluate().unwrap());
    let got = execute(program, shape, |_| ());
    std::thread::scope(|scope| {
        for reader in readers {
            let got = &got;
            scope.spawn(move || {
                for k in 0..got.len() {
                    got[(k + reader * 7) % got.len()].evaluate().unwrap();
                }
            });
        }
    });
    assert_eq!(got.len(), want.len());
    for (k, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()), "tensor {k}");
        assert!(bits_of_numbers(got) == bits_of_numbers(want), "tensor {k} differs");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "starts threads")]
    fn random_programs_give_the_same_bits(
        program in prop::collection::vec(action(), 1..40),
        shape in prop::sample::select(vec![
            SHAPE, [5, 3, 17, 300], [300, 240, 1, 1], [1, 2, 1, 36_000], [16, 64, 7, 10], [4, 2, 625, 16], [3, 1, 1500, 16],
        ]),
        readers in 1..4usize,
    ) {
        check(&program, shape, 0..readers);
    }
}

#[test]
fn a_number_takes_the_place_of_a_tensor() {
    let ones = || full(IMAGES, 1.5, DType::F32).unwrap();
    let wide = values(&IMAGES, 1);
    let plain = Tensor::full(IMAGES, 1.5, DType::F32).unwrap();
    assert!(ones().waits());
    for shape in [IMAGES, [3, 4, 100, 1], [1, 4, 1, 1], [1, 1, 1, 101], [1, 1, 1, 1]] {
        let x = values(&shape, 2);
        for op in [Binary::Add, Binary::Sub, Binary::Div] {
            let add = |sum: Tensor| binary(Binary::Add, sum, wide.clone()).unwrap();
            let alone = |constant: Tensor| binary(op, constant, x.clone()).unwrap();
            let right = |constant: Tensor| binary(op, x.clone(), constant).unwrap();
            for shaped in [&alone as &dyn Fn(Tensor) -> Tensor, &right] {
                let (got, want) = (shaped(ones()), shaped(plain.clone()));
                want.evaluate().unwrap();
                assert_eq!(got.shape(), want.shape());
                assert_eq!(bits(&got), bits(&want), "{op:?} {shape:?}");
                assert_eq!(bits(&add(shaped(ones()))), bits(&add(want)), "{op:?} {shape:?}, in a chain");
            }
        }
    }
}

#[test]
fn a_product_with_ones_is_the_other_operand() {
    let rows = Tensor::from_slice(&[1.5f32, -0.0, f32::INFINITY], [3, 1, 1, 1]).unwrap();
    for ones in [full(IMAGES, 1.0, DType::F32).unwrap(), Tensor::full([1; 4], 1.0, DType::F32).unwrap()] {
        let ones = ones.expand(&IMAGES).unwrap();
        for x in [values(&IMAGES, 1), rows.clone(), scaled(values(&IMAGES, 1), 2.0)] {
            for product in [
                binary(Binary::Mul, ones.clone(), x.clone()).unwrap(),
                binary(Binary::Mul, x.clone(), ones.clone()).unwrap(),
            ] {
                assert!(product.shares_storage(&x));
                assert_eq!(product.shape().as_slice(), IMAGES);
                assert_eq!(bits(&product), bits(&x.clone().expand(&IMAGES).unwrap()));
            }
        }
    }
    // Not of another number, nor by another operation.
    let x = values(&IMAGES, 1);
    let two = full(IMAGES, 2.0, DType::F32).unwrap();
    let ones = full(IMAGES, 1.0, DType::F32).unwrap();
    for (product, want) in [
        (binary(Binary::Mul, x.clone(), two).unwrap(), scaled(x.clone(), 2.0)),
        (binary(Binary::Div, ones, x.clone()).unwrap(), unary(Unary::Recip, x.clone()).unwrap()),
    ] {
        assert!(!product.shares_storage(&x));
        assert_eq!(bits(&product), bits(&want));
    }
    let ones = full(IMAGES, 1, DType::I32).unwrap();
    let x = cast(scaled(x, 100.0), DType::I32).unwrap();
    assert!(binary(Binary::Mul, ones, x.clone()).unwrap().shares_storage(&x));
}

#[test]
fn operations_on_numbers_alone_compute_one() {
    let ones = full(IMAGES, 1.0, DType::F32).unwrap();
    let thirds = binary_scalar(Binary::Div, ones.clone(), Scalar::Float(3.0)).unwrap();
    let sum = binary(Binary::Add, thirds, ones.swap_axes(0, 1).unwrap().swap_axes(0, 1).unwrap()).unwrap();
    assert!(constant::is_constant(&Input::Tensor(sum.clone())));
    assert_eq!(sum.to_vec::<f32>(), vec![1.0f32 / 3.0 + 1.0; IMAGES.iter().product()]);
    assert!(!sum.waits());
    assert_eq!(full([2, 3], 7, DType::I16).unwrap().to_vec::<i16>(), [7; 6]);
    assert!(!full([2, 3], 7, DType::I16).unwrap().is_deferred(), "small tensors do not wait");
    assert!(full([usize::MAX, 2], 7, DType::I16).is_err());
}

#[test]
fn a_tensor_of_one_number_is_a_plain_buffer_once_it_is_written() {
    let mut ones = full(IMAGES, 1, DType::Bool(NATIVE)).unwrap();
    let shared = ones.clone();
    assert!(ones.dense_bytes_mut().is_none());
    drop(shared);
    ones.dense_bytes_mut().unwrap()[5] = 0;
    assert!(!constant::is_constant(&Input::Tensor(ones.clone())));
    let want = |k: usize| u8::from(k != 5);
    assert_eq!(bits(&ones), (0..IMAGES.iter().product()).map(want).collect::<Vec<_>>());
}
