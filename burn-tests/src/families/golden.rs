//! Values that PyTorch and NumPy computed in f64. `golden/generate.py` wrote them, together with the versions
//! used.
//!
//! Every dtype gets the same inputs, which are exact in every dtype. So results differ only by the rounding
//! of the dtype.

mod call;

use crate::array::Array;
use crate::compare::{Tolerance, compare_floats};
use crate::kind::{Bool, Float, Int};
use crate::row::{Context, Row};
use crate::support::{expect_int, read_float, upload, wrap};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, TensorMetadata};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

const FILE: &[u8] = include_bytes!("../../golden/golden.json.gz");

/// A tensor of the file.
#[derive(Clone, Debug)]
enum Stored {
    Float(Array<f64>),
    Int(Array<i128>),
    Bool(Array<bool>),
}

/// A call with its expected results.
#[derive(Clone, Debug)]
struct Case {
    op: String,
    params: Value,
    inputs: Vec<Stored>,
    outputs: Vec<Stored>,
}

/// A tensor of the backend.
enum Given<B: Backend> {
    Float(FloatTensor<B>),
    Int(IntTensor<B>),
    Bool(BoolTensor<B>),
}

impl<B: Backend> Clone for Given<B> {
    fn clone(&self) -> Self {
        match self {
            Given::Float(t) => Given::Float(t.clone()),
            Given::Int(t) => Given::Int(t.clone()),
            Given::Bool(t) => Given::Bool(t.clone()),
        }
    }
}

fn read() -> Vec<Case> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(FILE).read_to_string(&mut text).expect("golden.json.gz is gzip");
    let file: Value = serde_json::from_str(&text).expect("golden.json.gz holds JSON");
    let list = |value: &Value| value.as_array().expect("an array").iter().map(stored).collect();
    let cases = file["cases"].as_array().expect("cases");
    cases
        .iter()
        .map(|case| Case {
            op: case["op"].as_str().expect("an operation").into(),
            params: case["params"].clone(),
            inputs: list(&case["inputs"]),
            outputs: list(&case["outputs"]),
        })
        .collect()
}

fn stored(value: &Value) -> Stored {
    let list = |v: &Value| v.as_array().expect("an array").clone();
    let shape: Vec<usize> =
        list(&value["shape"]).iter().map(|n| n.as_u64().expect("a size") as usize).collect();
    let data = list(&value["data"]);
    // JSON has no NaN and no infinities: the file holds them as strings.
    let number = |v: &Value| v.as_f64().or_else(|| v.as_str()?.parse().ok()).expect("a number");
    match value["kind"].as_str() {
        Some("float") => Stored::Float(Array::new(shape, data.iter().map(number).collect())),
        Some("int") => Stored::Int(Array::new(
            shape,
            data.iter().map(|v| v.as_i64().expect("an integer").into()).collect(),
        )),
        _ => Stored::Bool(Array::new(shape, data.iter().map(|v| v.as_bool().expect("a boolean")).collect())),
    }
}

/// One row for every operation of the file.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let mut by_op: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in read() {
        by_op.entry(case.op.clone()).or_default().push(case);
    }
    let row = |(op, cases): (String, Vec<Case>)| {
        let methods =
            call::methods(&op).unwrap_or_else(|| panic!("golden.json.gz has {op}, which nothing calls"));
        Row::new(methods, move |context| cases.iter().for_each(|case| check(context, case, methods)))
    };
    by_op.into_iter().map(row).collect()
}

fn check<B: Backend>(context: &Context<'_, B>, case: &Case, methods: &[&str]) {
    let what = |dtype: DType| move || format!("{dtype:?} {}", case.params);
    let is_float = |s: &Stored| matches!(s, Stored::Float(_));
    if case.inputs.iter().any(is_float) {
        // A spectrum does not consist of multiples of 1/64: the half types would round the inputs.
        let exact = |dtype: &DType| case.op != "irfft" || dtype.size() >= 4;
        for dtype in context.floats(methods).into_iter().filter(exact) {
            context.attempt(what(dtype), || run(context, case, dtype, DType::I64));
        }
    } else {
        // Operands fit a byte; results may wrap.
        for dtype in context.ints(methods).into_iter().filter(|d| [DType::I64, DType::I32].contains(d)) {
            context.attempt(what(dtype), || run(context, case, DType::F32, dtype));
        }
    }
}

fn run<B: Backend>(context: &Context<'_, B>, case: &Case, float: DType, int: DType) -> Result<(), String> {
    let given = |input: &Stored| match input {
        Stored::Float(a) => Given::Float(upload::<B, Float>(context, a, float)),
        Stored::Int(a) => Given::Int(upload::<B, Int>(context, a, int)),
        Stored::Bool(a) => Given::Bool(upload::<B, Bool>(context, a, context.bools(&[])[0])),
    };
    let results = call::call::<B>(&case.op, &case.params, case.inputs.iter().map(given).collect());
    if results.len() != case.outputs.len() {
        return Err(format!("{} results, expected {}", results.len(), case.outputs.len()));
    }
    for (k, (result, want)) in results.into_iter().zip(&case.outputs).enumerate() {
        let outcome = match (result, want) {
            (Given::Float(got), Stored::Float(want)) => {
                let (tolerance, scale) = tolerance(context, &case.op, float);
                read_float::<B>(got, float)
                    .and_then(|got| compare_floats(float, &got, want, tolerance, scale))
            }
            (Given::Int(got), Stored::Int(want)) => {
                let dtype = got.dtype();
                expect_int::<B>(got, dtype, &want.map(|x| wrap(dtype, x)))
            }
            _ => Err("the kinds differ".into()),
        };
        outcome.map_err(|reason| format!("result {k}: {reason}"))?;
    }
    Ok(())
}

/// The allowed error of a result, and the scale of sums: terms are below 4 in magnitude, and no sum has more
/// than about 200 terms.
fn tolerance<B: Backend>(context: &Context<'_, B>, op: &str, dtype: DType) -> (Tolerance, f64) {
    let tolerance = match op {
        "floor" | "ceil" | "trunc" | "round" | "sign" | "abs" | "relu" | "clamp" | "max_dim" | "min_dim"
        | "cummax" | "cummin" | "sort" | "gather" | "select" | "embedding" | "unfold4d" => Tolerance::EXACT,
        _ => {
            let t = Tolerance::accumulated(dtype, 16);
            // Burn's definition may have several steps, with a rounding to the dtype in each.
            Tolerance { ulps: 4.0, ..t }
        }
    };
    let scale = match op {
        // Sums of products, and functions of such sums.
        "matmul" | "linear" | "cross" | "attention" | "layer_norm" | "ctc_loss" | "rfft" | "irfft" => 16.0,
        "cumsum" | "cumprod" | "sum_dim" | "mean_dim" | "scatter_add" | "select_add" | "interpolate"
        | "grid_sample" => 16.0,
        // Differences of numbers around one, in PyTorch's formulas too.
        "gelu" | "gelu_backward" | "sigmoid_backward" | "log_sigmoid_backward" | "log_softmax" => 2.0,
        _ if op.starts_with("conv") || op.contains("pool") => 256.0,
        _ => 0.0,
    };
    (context.tolerance(tolerance), scale)
}
