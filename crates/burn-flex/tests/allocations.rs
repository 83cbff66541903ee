//! The most calls of the allocator that operations may make. An operation that makes a tensor allocates
//! twice: the buffer together with its owner, and the handle that tensors share. A view, or a result in its
//! operand's buffer, allocates nothing.

use allocation_counter::measure;
use burn_flex::Flex;
use burn_tensor::activation::{relu, softmax};
use burn_tensor::backend::Backend;
use burn_tensor::ops::ModuleOps;
use burn_tensor::{Bool, Distribution, Int, Tensor, TensorData};

/// The operands: two matrices, a mask of their shape, and the numbers of their rows.
struct Operands {
    a: Tensor<Flex, 2>,
    b: Tensor<Flex, 2>,
    mask: Tensor<Flex, 2, Bool>,
    rows: Tensor<Flex, 1, Int>,
}

impl Operands {
    fn new(n: usize) -> Self {
        let values: Vec<f32> = (0..n * n).map(|i| (i * 7 % 31) as f32 / 8.0 - 1.5).collect();
        let a = Tensor::from_data(TensorData::new(values, [n, n]), &Default::default());
        let b = a.clone() + 0.5;
        let mask = a.clone().greater_elem(0.0);
        Self { rows: Tensor::arange(0..n as i64, &a.device()), a, b, mask }
    }
}

/// An operation, whose result is dropped.
type Call = fn(&Operands);

/// Checks the counts for 8 x 8 and 64 x 64 elements: buffers of up to 256 bytes are stored in their owner's
/// allocation, larger buffers come from the pool, which has blocks of their size after some calls. Both sizes
/// are far below the sizes at which threads are used, since threads allocate memory of their own.
fn expect(limit: u64, cases: &[(&str, Call)]) {
    let mut wrong = Vec::new();
    for n in [8, 64] {
        let operands = Operands::new(n);
        for (name, call) in cases {
            for _ in 0..3 {
                call(&operands);
            }
            let got = measure(|| call(&operands)).count_total;
            if got > limit {
                wrong.push(format!("{name} of {n} x {n}: {got} allocations, not {limit}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A single test, since parallel tests would take blocks from the pool.
#[test]
fn operations_allocate_for_their_result() {
    expect(0, &[("clone", |o| drop(o.a.clone())), ("transpose", |o| drop(o.a.clone().transpose()))]);

    expect(
        2,
        &[
            ("three of which two in place", |o| drop((o.a.clone() + 1.0).exp().mul_scalar(3.0))),
            ("add", |o| drop(o.a.clone() + o.b.clone())),
            ("mul_scalar", |o| drop(o.a.clone() * 1.5)),
            ("clamp", |o| drop(o.a.clone().clamp(-1.0, 1.0))),
            ("exp", |o| drop(o.a.clone().exp())),
            ("relu", |o| drop(relu(o.a.clone()))),
            ("greater", |o| drop(o.a.clone().greater(o.b.clone()))),
            ("mask_where", |o| drop(o.a.clone().mask_where(o.mask.clone(), o.b.clone()))),
            ("mask_fill", |o| drop(o.a.clone().mask_fill(o.mask.clone(), 0.5))),
            ("int", |o| drop(o.a.clone().int())),
            ("sum", |o| drop(o.a.clone().sum())),
            ("sum_dim 1", |o| drop(o.a.clone().sum_dim(1))),
            ("max_dim 1", |o| drop(o.a.clone().max_dim(1))),
            ("argmax 1", |o| drop(o.a.clone().argmax(1))),
            ("cumsum 1", |o| drop(o.a.clone().cumsum(1))),
            ("softmax 1", |o| drop(softmax(o.a.clone(), 1))),
            ("uniform", |o| {
                drop(Tensor::<Flex, 2>::random(o.a.dims(), Distribution::Default, &o.a.device()))
            }),
        ],
    );

    // Burn allocates the lists of arguments.
    expect(
        1,
        &[
            ("reshape", |o| drop(o.a.clone().reshape([-1]))),
            ("permute", |o| drop(o.a.clone().permute([1, 0]))),
            ("flip", |o| drop(o.a.clone().flip([0]))),
        ],
    );
    expect(2, &[("narrow", |o| drop(o.a.clone().narrow(0, 1, 4)))]);
    // Two of these are for the narrowed row.
    expect(4, &[("expand", |o| drop(o.a.clone().narrow(0, 0, 1).expand(o.a.dims())))]);

    // Working memory.
    expect(3, &[("add transposed", |o| drop(o.a.clone().transpose() + o.b.clone()))]);
    expect(
        4,
        &[
            ("matmul", |o| drop(o.a.clone().matmul(o.b.clone()))),
            ("select", |o| drop(o.a.clone().select(0, o.rows.clone()))),
            // One of these is the list that Burn is called with.
            ("cat", |o| drop(Tensor::cat(vec![o.a.clone(), o.b.clone()], 0))),
        ],
    );

    // Plans of Fourier transforms are kept until memory is cleaned up.
    let samples = 4800;
    let signal = Tensor::<Flex, 1>::zeros([samples], &Default::default()).into_primitive().tensor();
    let transform = || measure(|| drop(<Flex as ModuleOps<Flex>>::rfft(signal.clone(), 0, None))).bytes_total;
    transform();
    flex_core::storage::cleanup();
    let with_plan = transform();
    <Flex>::memory_cleanup(&Default::default());
    let without_plan = transform();
    assert!(without_plan > with_plan + 4 * samples as u64, "{with_plan} bytes, then {without_plan}");
}
