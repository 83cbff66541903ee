//! Sharing, copying and recycling of buffers; seeds; tensors that remain usable after an error.
#![allow(missing_docs)]

mod common;

use burn_flex::{Flex, FlexTensor, memory};
use burn_tensor::backend::Backend;
use burn_tensor::ops::{FloatTensorOps, IntTensorOps, ModuleOps};
use burn_tensor::{AllocationProperty, Bytes, DType, Distribution, Int, Shape, Tensor, TensorData, s};
use common::{float, int, panic_message};

fn primitive<const D: usize>(tensor: &Tensor<Flex, D>) -> FlexTensor {
    tensor.clone().into_primitive().tensor()
}

#[test]
fn views_share_the_buffer() {
    let x = float::<Flex, 3>([4, 5, 6], 1);
    let base = primitive(&x);
    let mut shares = Vec::new();
    let mut check = |name: &'static str, view: FlexTensor| shares.push((name, view.shares_storage(&base)));
    check("clone", primitive(&x.clone()));
    check("reshape", primitive(&x.clone().reshape([20, 6])));
    check("unsqueeze", primitive(&x.clone().transpose().unsqueeze::<5>()));
    check("transpose", primitive(&x.clone().transpose()));
    check("swap_dims", primitive(&x.clone().swap_dims(0, 2)));
    check("permute", primitive(&x.clone().permute([2, 0, 1])));
    check("flip", primitive(&x.clone().flip([0, 2])));
    check("slice", primitive(&x.clone().slice([s![1..3], s![..;-2], s![..]])));
    check("narrow", primitive(&x.clone().narrow(1, 2, 2)));
    check("expand", primitive(&x.clone().expand([7, 4, 5, 6])));
    check("unfold", primitive(&x.clone().unfold::<4, _>(2, 3, 1)));
    check("detach", primitive(&x.clone().detach()));
    check("to_device", primitive(&x.clone().to_device(&Default::default())));
    check("split", primitive(&x.clone().split(2, 0)[1]));
    assert!(shares.iter().all(|(_, shared)| *shared), "{shares:?}");
    assert!(!primitive(&(x.clone() + 1.0)).shares_storage(&base));
}

#[test]
fn writes_are_not_seen_through_clones_and_views() {
    let x = float::<Flex, 2>([33, 17], 1);
    let before = x.to_data();
    let view = x.clone().transpose().slice([0..5, 0..9]);
    let view_before = view.to_data();
    type Write = fn(Tensor<Flex, 2>) -> Tensor<Flex, 2>;
    let writes: [(&str, Write); 10] = [
        ("exp", |t| t.exp()),
        ("add_scalar", |t| t + 1.0),
        ("add", |t| t.clone() + t),
        ("clamp", |t| t.clamp(-0.1, 0.1)),
        ("mask_fill", |t| t.clone().mask_fill(t.greater_elem(0.0), 9.0)),
        ("slice_assign", |t| t.slice_fill([0..3, 0..3], 9.0)),
        ("select_assign", |t| {
            t.select_assign(0, int([4], 33, 2), float([4, 17], 3), burn_tensor::IndexingUpdateOp::Add)
        }),
        ("cumsum", |t| t.cumsum(0)),
        ("sort", |t| t.sort(1)),
        ("softmax", |t| burn_tensor::activation::softmax(t, 1)),
    ];
    for (name, write) in writes {
        let changed = write(x.clone()).into_data();
        assert_ne!(changed, before, "{name} changes something");
        assert_eq!(x.to_data(), before, "{name} wrote to a shared buffer");
        assert_eq!(view.to_data(), view_before, "{name} wrote to a viewed buffer");
    }
}

#[test]
fn a_unique_buffer_is_reused() {
    let x = float::<Flex, 2>([64, 64], 1);
    let address = primitive(&x).as_core().storage::<f32>().as_ptr();
    let y = (x.exp() * 2.0).clamp(0.0, 3.0);
    assert_eq!(primitive(&y).as_core().storage::<f32>().as_ptr(), address);
}

#[test]
fn data_moves_in_and_out_without_a_copy() {
    let data = TensorData::new(common::values(1000, 1), [10, 100]);
    let address = data.bytes.as_ptr();
    let x = Tensor::<Flex, 2>::from_data(data, &Default::default());
    assert_eq!(primitive(&x).as_core().storage::<f32>().as_ptr().cast(), address);
    assert_eq!(x.into_data().bytes.as_ptr(), address);

    // As from a memory-mapped file of weights: bytes with a foreign owner.
    let raw: Vec<u8> = common::values(1000, 1).iter().flat_map(|v| v.to_le_bytes()).collect();
    let owner = bytes::Bytes::from(raw);
    let shared = Bytes::from_shared(owner.clone(), AllocationProperty::File);
    let address = shared.as_ptr();
    let before = owner.to_vec();
    let x =
        Tensor::<Flex, 1>::from_data(TensorData::from_bytes(shared, [1000], DType::F32), &Default::default());
    if (address as usize).is_multiple_of(4) {
        assert_eq!(primitive(&x).as_core().storage::<f32>().as_ptr().cast(), address);
    }
    let _ = x.exp();
    assert_eq!(owner.to_vec(), before, "the file's pages are read only");
}

#[test]
fn a_buffer_that_is_not_aligned_is_copied_once() {
    let raw: Vec<u8> = (0..64).collect();
    let shared = Bytes::from_shared(bytes::Bytes::from(raw).slice(1..9), AllocationProperty::Other);
    assert!(!(shared.as_ptr() as usize).is_multiple_of(4));
    let data = TensorData::from_bytes(shared, [2], DType::I32);
    let x = Tensor::<Flex, 1, Int>::from_data(data, &Default::default());
    assert_eq!(x.into_data().to_vec::<i32>().unwrap(), [[1, 2, 3, 4], [5, 6, 7, 8]].map(i32::from_ne_bytes));
}

#[test]
fn a_seed_fixes_the_numbers_of_every_distribution() {
    // The stream is global, and other tests of this file draw from it: only one test at a time may seed.
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let device = Default::default();
    let draw = |seed| {
        <Flex>::seed(&device, seed);
        let shape = Shape::new([3000]);
        let mut out: Vec<TensorData> = [
            Distribution::Default,
            Distribution::Uniform(-3.0, 5.0),
            Distribution::Normal(1.0, 2.0),
            Distribution::Bernoulli(0.3),
        ]
        .map(|d| Tensor::<Flex, 1>::random(shape.clone(), d, &device).into_data())
        .into();
        out.push(Tensor::<Flex, 1, Int>::random(shape.clone(), Distribution::Default, &device).into_data());
        out.push(
            Tensor::<Flex, 1, Int>::random(shape, Distribution::Uniform(-3.0, 5.0), &device).into_data(),
        );
        out
    };
    let first = draw(42);
    assert_eq!(first, draw(42));
    for (a, b) in first.iter().zip(&draw(43)) {
        assert_ne!(a, b);
    }
    let within =
        |data: &TensorData, low: f64, high: f64| data.iter::<f64>().all(|v| (low..high).contains(&v));
    assert!(within(&first[0], 0.0, 1.0));
    assert!(within(&first[1], -3.0, 5.0));
    assert!(within(&first[4], 0.0, 255.0));
    assert!(within(&first[5], -3.0, 5.0));
    let mean = |data: &TensorData| data.iter::<f64>().sum::<f64>() / 3000.0;
    assert!((mean(&first[0]) - 0.5).abs() < 0.03, "{}", mean(&first[0]));
    assert!((mean(&first[2]) - 1.0).abs() < 0.15, "{}", mean(&first[2]));
    assert!((mean(&first[3]) - 0.3).abs() < 0.04, "{}", mean(&first[3]));
    // Without a call of `seed` in between, the stream continues.
    let again = Tensor::<Flex, 1>::random([3000], Distribution::Default, &device).into_data();
    assert_ne!(again, first[0]);
}

#[test]
fn refusals_name_the_operation_and_leave_other_tensors_usable() {
    let x = primitive(&float::<Flex, 2>([3, 4], 1));
    let y = primitive(&float::<Flex, 2>([5, 4], 2));
    let z = primitive(&float::<Flex, 3>([1, 3, 4], 2));
    let i = int::<Flex, 1>([2], 2, 1).into_primitive();
    let wild = (int::<Flex, 1>([2], 2, 1) + 99).into_primitive();
    let device = Default::default();
    let clone = || (x.clone(), y.clone());
    let cases: Vec<(&str, Box<dyn FnOnce() + '_>)> = vec![
        ("add", Box::new(|| drop(<Flex>::float_add(clone().0, clone().1)))),
        ("matmul", Box::new(|| drop(<Flex>::float_matmul(clone().0, clone().1)))),
        ("matmul", Box::new(|| drop(<Flex>::float_matmul(z.clone(), clone().1)))),
        ("sum", Box::new(|| drop(<Flex>::float_sum_dim(clone().0, 2)))),
        ("argmax", Box::new(|| drop(<Flex>::float_argmax(clone().0, 9, burn_tensor::IntDType::I32)))),
        ("reshape", Box::new(|| drop(<Flex>::float_reshape(clone().0, Shape::new([5, 5]))))),
        ("swap_dims", Box::new(|| drop(<Flex>::float_swap_dims(clone().0, 0, 2)))),
        ("transpose", Box::new(|| drop(<Flex>::int_transpose(i.clone())))),
        ("permute", Box::new(|| drop(<Flex>::float_permute(clone().0, &[0, 0])))),
        ("flip", Box::new(|| drop(<Flex>::float_flip(clone().0, &[3])))),
        ("expand", Box::new(|| drop(<Flex>::float_expand(clone().0, Shape::new([2, 4]))))),
        ("cat", Box::new(|| drop(<Flex>::float_cat(vec![clone().0, z.clone()], 0)))),
        ("cat", Box::new(|| drop(<Flex>::float_cat(vec![], 0)))),
        ("select", Box::new(|| drop(<Flex>::float_select(clone().0, 0, wild.clone())))),
        (
            "embedding",
            Box::new(|| {
                drop(<Flex>::embedding(clone().0, <Flex>::int_reshape(wild.clone(), Shape::new([1, 2]))))
            }),
        ),
        ("exp", Box::new(|| drop(<Flex>::float_exp(i.clone())))),
        ("float_from_data", Box::new(|| drop(<Flex>::float_from_data(TensorData::from([1i32]), &device)))),
        ("int_from_data", Box::new(|| drop(<Flex>::int_from_data(TensorData::from([1f32]), &device)))),
        (
            "full",
            Box::new(|| {
                drop(<Flex>::float_zeros(Shape::new([usize::MAX, 2]), &device, burn_tensor::FloatDType::F32))
            }),
        ),
        (
            "softmax",
            Box::new(|| drop(<Flex as burn_tensor::ops::ActivationOps<Flex>>::softmax(clone().0, 2))),
        ),
    ];
    for (op, case) in cases {
        let message = panic_message(case);
        assert!(message.starts_with(op), "expected a message of `{op}`, got: {message}");
        assert!(message.contains(": "), "{message}");
    }
    assert_eq!(
        Tensor::<Flex, 2>::from_primitive(burn_tensor::TensorPrimitive::Float(x)).into_data(),
        float::<Flex, 2>([3, 4], 1).into_data()
    );
}

#[test]
fn the_pool_is_readable_and_bounded() {
    // Sizes that no other test uses, since the pool is global.
    let bytes = 4 * 3_000_017;
    // Not zeros, which take no memory before they are read.
    let make = || Tensor::<Flex, 1>::empty([3_000_017], &Default::default());
    let live = memory::stats().live_bytes;
    let x = make();
    assert!(memory::stats().live_bytes >= live.saturating_sub(1 << 22) + bytes);
    drop(x);
    assert!(memory::stats().cached_bytes >= bytes);
    <Flex>::memory_cleanup(&Default::default());
    assert!(memory::stats().cached_bytes < bytes);
    memory::set_limit(1 << 20);
    drop(make());
    assert!(memory::stats().cached_bytes <= 1 << 20);
    memory::set_limit(memory::default_limit());
    assert_eq!(memory::stats().limit, memory::default_limit());
}
