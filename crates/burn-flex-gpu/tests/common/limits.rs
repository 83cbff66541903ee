//! Known results of Burn's cubecl backend that differ from what the suite expects, on every runtime. The
//! causes lie in burn-cubecl 0.21, burn-std 0.21, the defaults of Burn's traits, and cubek 0.2. Both GPU
//! crates test against this list.

use burn_tests::Capabilities;

// Shapes and views.
const RANK_0: &str =
    "tensors without axes: cubecl counts strides from one axis less than there are, which overflows";
const EMPTY: &str = "empty tensors: the test for overlap counts from the last element, broadcasts take the longer of 0 and 1, \
                     sums refuse an axis of length 0, and scatters divide by it";
const SCALAR: &str = "a scalar that the dtype does not hold (as a bound, to compare with, or the -1 that negates unsigned \
                      numbers), and positions counted from the end in slice_assign: unwrapped without a check";
const STEPS: &str =
    "slice_assign with a negative step starts from the end of the range, wherever the slice starts";
const UNIT: &str = "the 1d form appends an axis; burn-std's split_strides does not step over an axis of length one before it";
const WINDOWS: &str = "overlapping windows are refused as operands of matrix products";
const MASK_WHERE: &str = "a tensor that broadcasts to its mask: as many elements are computed as it has, the others stay what they were";
const MASK_FILL: &str = "a tensor that broadcasts to its mask is refused";
const GRID: &str = "the second coordinate is read one element after the first, whatever the stride";
// Numbers.
const NAN: &str = "max and min drop NaN, in reductions, clamps and windows too";
const WINDOW: &str = "maxima of windows start from the smallest finite number";
const ORDER: &str =
    "Burn leaves the order of equal elements open; it is sorted on the host, in no stable way";
const SUM: &str = "sums along an axis have one accumulator for each worker, which rounds at every element";
const POWERS: &str = "integer powers are the trait's default: powers of floats, cut off to integers";
const FORMULA: &str = "the trait's default: a formula that cancels where the result is small";
const TANH: &str = "the trait's default is the gradient of the approximation by tanh";
// Modules.
const STRIDE: &str =
    "the range of inputs that reach an output is empty where the stride exceeds the kernel's extent";
const BIAS: &str = "a bias is read as if it were contiguous; of an expanded one that is beyond its end";
const CEIL: &str =
    "with ceil_mode, windows that start in the right padding are kept, and divisors count all of a window";
const SINGLE: &str = "the gradient of a single window: the vector width is chosen by the input's stride along the width and the \
                      gradient's along the channels, which agree by accident";
const WIDTH: &str = "where the input's channels are one element apart, they are read in vectors as wide as the weights', from positions \
                     rounded down to a multiple of that; overlapping windows start anywhere";
const RACE: &str = "updates of one place by several indices are read, added and written without a lock";
const TAPS: &str =
    "the columns are read at the kernel's first tap for every tap: gradients of offsets and masks are wrong";
const POWER_OF_TWO: &str =
    "transforms have lengths of powers of two from 2 on; others are padded to the next one";
const MODES: &str = "grid_sample is bilinear only";
const NEAREST: &str = "the gradient of interpolation is there for nearest only";
// Quantization.
const WORDS: &str =
    "codes are packed into u32: a last axis, or a block, that does not fill whole words is refused";
const PACKED_AXIS: &str = "codes are unpacked along the last axis, also where the axis that they were packed along is another one by now";
const TILES: &str =
    "the trait's default takes the scale of a block of several axes from as many consecutive elements";
const CODES: &str =
    "no kernel flips, selects, gathers, slices or expands codes, or reshapes those below a byte";

/// The list, added to the capabilities of a runtime.
pub fn kernels(asked: Capabilities) -> Capabilities {
    let list = [
        ("*", " []", RANK_0),
        ("*", "[2, 0, 3]", EMPTY),
        ("*", "no window: ", EMPTY),
        ("*", "Broadcast dims must be size 1", EMPTY),
        ("*", "attempt to divide by zero", EMPTY),
        ("*", "batch: 0", EMPTY),
        ("linear_bias_backward", "axis_length: 0", EMPTY),
        ("layer_norm", "[0, 5]", EMPTY),
        ("*", "`Option::unwrap()` on a `None` value", SCALAR),
        ("float_slice_assign", "step: -", STEPS),
        ("int_slice_assign", "step: -", STEPS),
        ("bool_slice_assign", "step: -", STEPS),
        ("conv1d", "kernel: [1], ", UNIT),
        ("conv1d", "input: [6], kernel: [6]", UNIT),
        ("conv_transpose1d", "kernel: [1], ", UNIT),
        ("conv_transpose1d", "input: [6], kernel: [6]", UNIT),
        ("adaptive_avg_pool1d", "to [1]", UNIT),
        ("avg_pool1d", "input: [6], kernel: [6]", SINGLE),
        ("avg_pool2d", "input: [4, 6], kernel: [4, 6]", SINGLE),
        ("float_scatter_nd", "wrong)", RACE),
        ("int_scatter_nd", "wrong)", RACE),
        ("attention", "[0, 2, 3, 4", EMPTY),
        ("max_pool1d_with_indices_backward", "input: [6], kernel: [6]", UNIT),
        ("*", "Invalid or non-contiguous matrix layout", WINDOWS),
        ("float_mask_where", "[2, 1, 5]", MASK_WHERE),
        ("int_mask_where", "[2, 1, 5]", MASK_WHERE),
        ("bool_mask_where", "[2, 1, 5]", MASK_WHERE),
        ("float_mask_fill", "Shape should be equal to reference", MASK_FILL),
        ("int_mask_fill", "Shape should be equal to reference", MASK_FILL),
        ("bool_mask_fill", "Shape should be equal to reference", MASK_FILL),
        ("float_grid_sample_2d", "Transposed", GRID),
        ("float_grid_sample_2d", "Permuted", GRID),
        ("float_grid_sample_2d", "Overlapping", GRID),
        ("float_max", "expected NaN", NAN),
        ("float_min", "expected NaN", NAN),
        ("float_max_abs", "expected NaN", NAN),
        ("float_max_dim", "expected NaN", NAN),
        ("float_min_dim", "expected NaN", NAN),
        ("float_cummax", "expected NaN", NAN),
        ("float_cummin", "expected NaN", NAN),
        ("float_argmax", "wrong)", NAN),
        ("float_argmin", "wrong)", NAN),
        ("float_clamp", "expected NaN", NAN),
        ("hard_sigmoid", "expected NaN", NAN),
        ("max_pool1d", "expected NaN", NAN),
        ("max_pool2d", "expected NaN", NAN),
        ("max_pool1d", "expected -inf", WINDOW),
        ("max_pool2d", "expected -inf", WINDOW),
        ("float_sort", "the order of equal elements", ORDER),
        ("float_topk", "the order of equal elements", ORDER),
        ("int_sort", "the order of equal elements", ORDER),
        ("int_topk", "the order of equal elements", ORDER),
        ("float_sum", "the sum of", SUM),
        ("int_powi", "wrong)", POWERS),
        ("log_sigmoid", "is NaN, expected -inf", FORMULA),
        ("avg_pool1d", "ceil: true", CEIL),
        ("avg_pool2d", "ceil: true", CEIL),
        ("max_pool1d", "ceil: true", CEIL),
        ("max_pool2d", "ceil: true", CEIL),
        ("max_pool1d_with_indices_backward", "ceil: true", CEIL),
        ("avg_pool2d", "\"ceil\":true", CEIL),
        ("max_pool2d_with_indices", "\"ceil\":true", CEIL),
        ("deform_conv2d_backward", "offset: ", TAPS),
        ("deform_conv2d_backward", "mask: ", TAPS),
        ("rfft", "got shape", POWER_OF_TWO),
        ("rfft", "must contain at least DC", POWER_OF_TWO),
        ("irfft", "wrong)", POWER_OF_TWO),
        ("irfft", "requires n_fft >= 2", POWER_OF_TWO),
        ("float_grid_sample_2d", "Unsupported grid_sample interpolation mode", MODES),
        ("interpolate_backward", "interpolation backward is not supported", NEAREST),
        ("*", "Can't store in u32", WORDS),
        ("*", "Block size must be divisible by", WORDS),
        ("*", "panicked: not implemented", CODES),
        ("*", "Reshape with sub-byte values is not supported", CODES),
        ("q_swap_dims", "wrong)", PACKED_AXIS),
        ("q_swap_dims", "attempt to subtract with overflow", PACKED_AXIS),
        ("q_matmul", "wrong)", PACKED_AXIS),
        ("quantize_dynamic", "BlockSize([2, ", TILES),
        ("q_swap_dims", "BlockSize([2, ", TILES),
        ("q_cat", "BlockSize([2, ", TILES),
        ("q_topk", "BlockSize([2, ", TILES),
        ("q_any", "BlockSize([2, ", TILES),
        ("q_abs", "BlockSize([2, ", TILES),
        ("tr_execute", "no tensor at all", "takes the device from the first tensor"),
        ("conv2d", "\"stride\":3", STRIDE),
        ("conv3d", "\"stride\":3", STRIDE),
        ("conv_transpose2d", "\"stride\":3", STRIDE),
        ("conv_transpose3d", "\"stride\":3", STRIDE),
    ];
    let all = list.into_iter().fold(asked, |all, (method, case, reason)| all.except(method, case, reason));
    let convolutions: [(&'static str, &'static [&'static str]); 6] = [
        ("conv1d", &["kernel: [1], stride: [2]", "kernel: [2], stride: [4]"]),
        ("conv_transpose1d", &["kernel: [1], stride: [2]", "kernel: [2], stride: [4]"]),
        ("conv2d", &["kernel: [1, 1], stride: [2, 2]", "kernel: [2, 2], stride: [3, 4]"]),
        ("conv_transpose2d", &["kernel: [1, 1], stride: [2, 2]", "kernel: [2, 2], stride: [3, 4]"]),
        ("conv3d", &["kernel: [1, 1, 1], stride: [1, 2, 2]", "kernel: [1, 2, 2], stride: [2, 3, 4]"]),
        (
            "conv_transpose3d",
            &["kernel: [1, 1, 1], stride: [1, 2, 2]", "kernel: [1, 2, 2], stride: [2, 3, 4]"],
        ),
    ];
    let all = convolutions.into_iter().fold(all, |all, (method, cases)| {
        let all = all.except(method, "Expanded", BIAS);
        cases.iter().fold(all, |all, case| all.except(method, case, STRIDE))
    });
    all.except("conv1d", "Overlapping", WIDTH)
        .except("conv_transpose1d", "Overlapping", WIDTH)
        .within_absolute("gelu", 1e-6, FORMULA)
        .within_absolute("log_sigmoid", 1e-6, FORMULA)
        .within_absolute("log_sigmoid_backward", 2e-6, FORMULA)
        .within_absolute("gelu_backward", 3e-3, TANH)
        .within("sigmoid", 64.0, "the trait's default goes through exp, log and exp")
}

/// The capabilities of the fused form. Its operations run on a queue's thread, so a known panic happens
/// there, and its message stays there.
pub fn fused(asked: Capabilities) -> Capabilities {
    const ELSEWHERE: &str = "a panic on the queue's thread, of one of the limits above: the caller only learns that its call failed";
    const FILL: &str =
        "a tensor that broadcasts to its mask reads what is not its own, where the plain form panics";
    const BINS: &str = "transforms of lengths padded to a power of two: the queue states the shape that was asked for, and it is \
                        filled with the first bins of the longer transform";
    let all = Capabilities { isolated: true, ..asked }.except("*", "CallError", ELSEWHERE).except(
        "rfft",
        "real: element",
        BINS,
    );
    ["float_mask_fill", "int_mask_fill", "bool_mask_fill"]
        .into_iter()
        .fold(all, |all, method| all.except(method, "[2, 1, 5]", FILL))
}
