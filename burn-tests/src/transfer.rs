//! Transfers from the host to the device and back, compared bit by bit: every dtype, sizes that do not fill a
//! word, empty tensors, views.
//!
//! A backend without empty tensors leaves them out by
//! [`without_case`](Capabilities::without_case)`("transfer", "0 elements", ..)`.

use crate::capability::Capabilities;
use crate::kind::{Bool, Float, Int, Kind};
use crate::release::{dtype_of, shape_of};
use crate::support::Stream;
use burn_backend::tensor::Device;
use burn_backend::{Backend, DType, Shape, Slice, TensorData};
use std::cell::Cell;

/// Lengths around words, cache lines and pages, and one unrelated length.
const LENGTHS: [usize; 9] = [0, 1, 2, 3, 31, 33, 1023, 4097, 100_003];

/// Shapes with views that copy.
const SHAPES: [[usize; 2]; 3] = [[5, 7], [64, 33], [0, 3]];

/// Sends every dtype of the capabilities to the device and back. Returns the number of transfers compared.
///
/// # Panics
/// Panics if a tensor comes back with other bits.
pub fn check<B: Backend>(capabilities: &Capabilities, device: &Device<B>) -> usize {
    let mut count = 0;
    let least = usize::from(capabilities.leaves_out(&["transfer"], "0 elements").is_some());
    for &dtype in &capabilities.floats {
        count += check_dtype::<B, Float>(dtype.into(), device, least);
    }
    for &dtype in &capabilities.ints {
        count += check_dtype::<B, Int>(dtype.into(), device, least);
    }
    for &store in &capabilities.bools {
        count += check_dtype::<B, Bool>(DType::Bool(store), device, least);
    }
    count
}

/// Checks the tensors of a dtype that have at least `least` elements.
fn check_dtype<B: Backend, K: Kind<B>>(dtype: DType, device: &Device<B>, least: usize) -> usize {
    let count = Cell::new(0);
    let expect_data = |tensor: K::Tensor, want: &TensorData, what: &str| {
        count.set(count.get() + 1);
        assert_same(&K::into_data(tensor), want, dtype, what);
    };
    for n in LENGTHS.into_iter().filter(|&n| n >= least) {
        let sent = bytes(dtype, &[n]);
        expect_data(K::from_data(sent.clone(), device), &sent, &format!("{n} elements"));
    }
    for [rows, columns] in SHAPES.into_iter().filter(|[rows, _]| *rows >= least) {
        let sent = bytes(dtype, &[rows, columns]);
        let size = dtype.size();
        let send = || K::from_data(sent.clone(), device);
        let expect =
            |view: K::Tensor, what: &str, shape: [usize; 2], source: &dyn Fn(usize, usize) -> usize| {
                let at = (0..shape[0]).flat_map(|r| (0..shape[1]).map(move |c| source(r, c)));
                let picked = at.flat_map(|i| sent.as_bytes()[i * size..(i + 1) * size].to_vec()).collect();
                let want = TensorData::from_bytes_vec(picked, shape, dtype);
                expect_data(view, &want, &format!("{what} of [{rows}, {columns}]"));
            };
        expect(K::swap_dims(send(), 0, 1), "the transpose", [columns, rows], &|r, c| c * columns + r);
        if rows == 0 {
            continue;
        }
        let window = [Slice::new(1, Some(rows as isize - 1), 1), Slice::new(2, None, 1)];
        expect(K::slice(send(), &window), "a window", [rows - 2, columns - 2], &|r, c| {
            (r + 1) * columns + c + 2
        });
        let expanded = K::expand(K::slice(send(), &[Slice::new(0, Some(1), 1)]), Shape::new([3, columns]));
        expect(expanded, "a repeated row", [3, columns], &|_, c| c);
    }
    count.get()
}

/// Arbitrary bits, NaN patterns among them; booleans are zeros and ones.
fn bytes(dtype: DType, shape: &[usize]) -> TensorData {
    let n: usize = shape.iter().product();
    let mut stream = Stream::new(n as u64 + 1);
    let mut bytes: Vec<u8> = (0..n * dtype.size()).map(|_| stream.int(0, 256) as u8).collect();
    if dtype.is_bool() {
        for element in bytes.chunks_mut(dtype.size()) {
            let value = u32::from(element[0] & 1).to_ne_bytes();
            let len = element.len();
            element.copy_from_slice(&value[..len]);
        }
    }
    TensorData::from_bytes_vec(bytes, shape.to_vec(), dtype)
}

fn assert_same(got: &TensorData, want: &TensorData, dtype: DType, what: &str) {
    assert_eq!((dtype_of(got), shape_of(got)), (dtype_of(want), shape_of(want)), "{dtype:?}, {what}");
    let wrong = got.as_bytes().iter().zip(want.as_bytes()).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{dtype:?}, {what}: the first byte that differs");
    assert_eq!(got.as_bytes().len(), want.as_bytes().len(), "{dtype:?}, {what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_backend::BoolStore;

    #[test]
    fn samples_hold_not_a_number_and_booleans_hold_two_values() {
        let floats = crate::release::values::<burn_backend::f16>(&bytes(DType::F16, &[100_003]));
        assert!(floats.iter().any(|x| x.is_nan()));
        for store in [BoolStore::Native, BoolStore::U8, BoolStore::U32] {
            let data = bytes(DType::Bool(store), &[1023]);
            let ones = data.as_bytes().iter().filter(|&&b| b == 1).count();
            assert!((300..700).contains(&ones), "{store:?}: {ones}");
            assert!(data.as_bytes().iter().all(|&b| b <= 1));
        }
    }
}
