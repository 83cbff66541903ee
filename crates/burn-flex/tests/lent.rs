//! Memory that Burn lends to the engine: an operation on a small view of it takes memory for the view, not
//! for the whole.
#![allow(missing_docs)]

use allocation_counter::measure;
use burn_flex::Flex;
use burn_tensor::activation::softmax;
use burn_tensor::{AllocationProperty, Bytes, DType, Tensor, TensorData};

const ROWS: usize = 16 << 10;
const COLUMNS: usize = 1 << 10;

/// An operation on a tensor that owns the only reference to its buffer.
type Operation = fn(Tensor<Flex, 2>) -> Tensor<Flex, 2>;

#[test]
fn a_small_operation_on_a_view_of_lent_memory_copies_nothing_else() {
    let big = bytes::Bytes::from(vec![0u8; 4 * ROWS * COLUMNS]);
    let shared = |label| Bytes::from_shared(big.clone(), label);
    let lent: [(&str, &dyn Fn() -> Bytes); 4] = [
        ("Other", &|| shared(AllocationProperty::Other)),
        ("Native", &|| shared(AllocationProperty::Native)),
        ("File", &|| shared(AllocationProperty::File)),
        ("a vector", &|| Bytes::from_elems(vec![0f32; ROWS * COLUMNS])),
    ];
    let operations: [(&str, Operation); 8] = [
        ("neg", |t| -t),
        ("exp", |t| t.exp()),
        ("add", |t| t + 1.0),
        ("clamp", |t| t.clamp(-1.0, 1.0)),
        ("cumsum", |t| t.cumsum(1)),
        ("softmax", |t| softmax(t, 1)),
        ("slice_fill", |t| t.slice_fill([0..1, 3..5], 1.0)),
        ("sort", |t| t.sort(1)),
    ];
    for (label, lend) in lent {
        for (name, operation) in operations {
            let data = TensorData::from_bytes(lend(), [ROWS, COLUMNS], DType::F32);
            let row = Tensor::<Flex, 2>::from_data(data, &Default::default()).narrow(0, 7, 1);
            let mut result = None;
            let took = measure(|| result = Some(operation(row))).bytes_max;
            assert!(took < 64 << 10, "{name} of 4 KiB of 64 MiB under the label {label} took {took} bytes");
            assert_eq!(result.unwrap().dims(), [1, COLUMNS]);
        }
    }
    assert!(big.iter().all(|&b| b == 0), "shared memory was written");
}
