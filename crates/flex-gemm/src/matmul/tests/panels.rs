//! Products by right operands that are kept packed.

use super::*;
use crate::matmul::gemm::PanelShape;
use crate::matmul::plan::RightOperand;
use crate::storage::prepared;
use flex_math::simd::{HasVectors, Level, level};

fn bits(tensor: Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().into_iter().map(f32::to_bits).collect()
}

/// Whether products by this operand read panels.
fn has_panels(rows: usize, w: &Tensor, operand: RightOperand) -> bool {
    let plan = ProductPlan::new("matmul", &Layout::contiguous([rows, w.shape()[0]].into()), w.layout());
    let [_, layout] = plan.unwrap().layouts(0);
    PanelShape::of::<f32>(rows, layout, operand).is_some_and(|shape| w.form(&shape).is_some())
}

/// Lets forms of weights be kept, whatever `FLEX_PREPARE` says.
fn keep_forms() {
    prepared::set_limit(usize::MAX);
}

/// Whether 16 to 80 rows by the transposed weight of a layer read panels.
fn prefers_panels() -> bool {
    cfg!(target_arch = "x86_64") && level() == Level::Vectors
}

/// A weight that is row-major, transposed, or a part of a larger buffer.
fn weight(terms: usize, cols: usize, order: usize) -> Tensor {
    match order {
        0 => sample::<f32>(&[terms, cols], 1),
        1 => sample::<f32>(&[cols, terms], 2).swap_axes(0, 1).unwrap(),
        _ => {
            let rows = sample::<f32>(&[terms + 3, cols + 5], 3).narrow(0, 2, terms).unwrap();
            rows.narrow(1, 4, cols).unwrap()
        }
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn panels_change_no_bits() {
    keep_forms();
    // Around the rows of strips, the widths of panels, and the terms of a block. The last weight does not fit
    // a block: up to 64 rows are multiplied by panel after panel.
    let rows = [2, 3, 4, 5, 6, 7, 8, 13, 40, 64, 65, 96, 97, 130, 512, 2049];
    let weights = [(130, 129), (512, 48), (513, 65), (1100, 33), (1100, 129)];
    let pools = [1, 2, 5].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let mut read = 0;
    for (number, (terms, cols)) in weights.into_iter().enumerate() {
        let bias = sample::<f32>(&[cols], 4);
        for order in 0..3 {
            for rows in rows.into_iter().skip((number + order) % 2).step_by(2) {
                let (x, w) = (sample::<f32>(&[rows, terms], 5), weight(terms, cols, order));
                let multiply = |x: &Tensor| bits(linear(x.clone(), w.clone(), Some(bias.clone())).unwrap());
                // The first use of a weight reads it as it is, each later one may read panels.
                let first = multiply(&x);
                assert!(!has_panels(rows, &w, RightOperand::Weight));
                for (call, pool) in pools.iter().enumerate() {
                    let what = || std::format!("{rows} rows by {terms} x {cols}, order {order}: {call}");
                    assert!(pool.install(|| multiply(&x)) == first, "{}", what());
                    // Fewer rows read the panels of many. Of a transposed weight they are dot products.
                    if rows > 5 && order != 1 {
                        let five = pool.install(|| multiply(&x.clone().narrow(0, 1, 5).unwrap()));
                        assert!(five == first[cols..6 * cols], "{}, five rows", what());
                    }
                }
                read += usize::from(has_panels(rows, &w, RightOperand::Weight));
            }
        }
    }
    if HasVectors::here().is_some() {
        assert!(read > 40, "{read} products read panels");
    } else {
        assert_eq!(read, 0);
    }
}

#[test]
fn panels_are_kept_for_weights_that_gain_by_them() {
    let Some(_) = HasVectors::here() else {
        return crate::skipped::skipped("no vectors at this level");
    };
    keep_forms();
    let kept = |rows: usize, w: &Tensor| {
        let x = sample::<f32>(&[rows, w.shape()[0]], 1);
        for _ in 0..3 {
            float_matmul(x.clone(), w.clone()).unwrap();
        }
        has_panels(rows, w, RightOperand::Any)
    };
    assert!(kept(2, &weight(300, 300, 0)) && kept(512, &weight(300, 300, 1)));
    // One row and many, a small weight, a vector, and one row that stands for all.
    assert!(!kept(1, &weight(300, 300, 0)) && !kept(513, &weight(300, 300, 0)));
    assert!(!kept(64, &weight(128, 128, 0)) && !kept(64, &weight(100_000, 1, 0)));
    let row = weight(1, 300, 0).expand(&[300, 300]).unwrap();
    assert!(!kept(64, &row));
    // Dot products read the weight as it is.
    assert!(!kept(16, &weight(300, 300, 1)));
    // A batch of weights.
    let (x, w) = (sample::<f32>(&[2, 64, 300], 1), sample::<f32>(&[2, 300, 300], 2));
    for _ in 0..3 {
        float_matmul(x.clone(), w.clone()).unwrap();
    }
    let first = w.narrow(0, 0, 1).unwrap().reshape([300, 300]).unwrap();
    assert!(!has_panels(64, &first, RightOperand::Any));
}

#[test]
fn panels_are_kept_for_transposed_weights_of_layers() {
    keep_forms();
    let kept = |rows: usize, w: &Tensor| {
        let x = sample::<f32>(&[rows, w.shape()[0]], 1);
        let bits = [(); 3].map(|_| bits(linear(x.clone(), w.clone(), None).unwrap()));
        assert!(bits[0] == bits[1] && bits[0] == bits[2], "{rows} rows");
        has_panels(rows, w, RightOperand::Weight)
    };
    for rows in [16, 80] {
        assert_eq!(kept(rows, &weight(300, 300, 1)), prefers_panels(), "{rows} rows");
    }
    assert_eq!(kept(2048, &weight(300, 300, 1)), HasVectors::here().is_some());
    assert!(!kept(2049, &weight(300, 300, 1)));
    // Few rows, and columns that would leave half a panel empty.
    assert!(!kept(15, &weight(300, 300, 1)) && !kept(64, &weight(20_000, 8, 1)));
}

#[test]
fn a_weight_that_is_written_has_no_panels() {
    keep_forms();
    let x = sample::<f32>(&[16, 200], 1);
    let mut w = weight(200, 200, 0);
    for change in 0..3 {
        w.storage_mut::<f32>().expect("nobody else holds the weight")[77] = change as f32;
        let fresh = Tensor::from_slice(&w.to_vec::<f32>(), [200, 200]).unwrap();
        let want = bits(float_matmul(x.clone(), fresh).unwrap());
        for call in 0..3 {
            assert!(bits(float_matmul(x.clone(), w.clone()).unwrap()) == want);
            assert_eq!(
                has_panels(16, &w, RightOperand::Any),
                call > 0 && HasVectors::here().is_some(),
                "{change}, {call}"
            );
        }
    }
}
