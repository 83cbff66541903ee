//! Operations with options at extreme values.

use crate::limit::forget_freed_memory;
use crate::numbers::{Few, Size, operand, read};
use arbitrary::{Arbitrary, Result, Unstructured};
use flex_core::attention::{AttentionOptions, attention};
use flex_core::conv::{self, ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions};
use flex_core::pool::{self, AvgPoolOptions, MaxPoolOptions};
use flex_core::vision::{self, GridPadding, Interpolation};
use flex_core::{DType, Error, Tensor, fft};

/// Calls one operation. It has to return `Ok` with a result that can be read, or an error with a message.
pub fn options(bytes: &[u8]) {
    forget_freed_memory();
    // An input that is too short to decode is no case.
    let _ = run(&mut Unstructured::new(bytes));
}

/// The dtypes of the operands.
const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    match u.int_in_range(0..=13u8)? {
        0 => convolve::<1>(u),
        1 => convolve::<2>(u),
        2 => convolve::<3>(u),
        3 => transpose::<1>(u),
        4 => transpose::<2>(u),
        5 => transpose::<3>(u),
        6 => deform(u),
        7 => max_pool(u),
        8 => avg_pool(u),
        9 => adaptive_pool(u),
        10 => unfold(u),
        11 => resize(u),
        12 => transform(u),
        _ => attend(u),
    }
}

/// One of the float dtypes.
fn float(u: &mut Unstructured<'_>) -> Result<DType> {
    Ok(FLOATS[u.int_in_range(0..=3)?])
}

fn sizes<const N: usize>(u: &mut Unstructured<'_>) -> Result<[usize; N]> {
    Ok(<[Size; N]>::arbitrary(u)?.map(|size| size.0))
}

fn few<const N: usize>(u: &mut Unstructured<'_>) -> Result<[usize; N]> {
    Ok(<[Few; N]>::arbitrary(u)?.map(|size| size.0))
}

/// Reads a result, or the message of an error.
fn check(result: Result<Tensor, Error>) -> Option<Tensor> {
    match result {
        Ok(tensor) => {
            read(&tensor);
            Some(tensor)
        }
        Err(error) => {
            assert!(error.to_string().contains(": "), "{error}");
            None
        }
    }
}

/// A gradient of the shape of a result, if there is one; otherwise of any shape.
fn gradient(u: &mut Unstructured<'_>, result: Option<Tensor>, dtype: DType, rank: usize) -> Result<Tensor> {
    match result {
        Some(tensor) if u.ratio(15, 16)? => operand(u, tensor.dtype(), tensor.shape()),
        _ => {
            let shape: [usize; 5] = few(u)?;
            operand(u, dtype, &shape[..rank.min(5)])
        }
    }
}

/// `[a, b, spatial...]`.
fn shape_of<const N: usize>(u: &mut Unstructured<'_>, a: usize, b: usize) -> Result<Vec<usize>> {
    let mut shape = vec![a, b];
    shape.extend(few::<N>(u)?);
    Ok(shape)
}

fn optional(u: &mut Unstructured<'_>, dtype: DType, shape: &[usize]) -> Result<Option<Tensor>> {
    if bool::arbitrary(u)? { Ok(Some(operand(u, dtype, shape)?)) } else { Ok(None) }
}

fn convolve<const N: usize>(u: &mut Unstructured<'_>) -> Result<()> {
    let (dtype, [batch, channels, out]) = (float(u)?, few(u)?);
    let groups = if u.ratio(3, 4)? { u.int_in_range(1..=3)? } else { Size::arbitrary(u)?.0 };
    let options = ConvOptions::<N> { stride: sizes(u)?, padding: sizes(u)?, dilation: sizes(u)?, groups };
    let (x, weight) = if groups <= 3 {
        (shape_of::<N>(u, batch, channels * groups)?, shape_of::<N>(u, out * groups, channels)?)
    } else {
        (shape_of::<N>(u, batch, channels)?, shape_of::<N>(u, out, channels)?)
    };
    let (bias, x, weight) =
        (optional(u, dtype, &weight[..1])?, operand(u, dtype, &x)?, operand(u, dtype, &weight)?);
    let y = check(conv::conv(x.clone(), weight.clone(), bias, &options));
    let grad = gradient(u, y, dtype, N + 2)?;
    check(conv::conv_x_backward(x.clone(), weight.clone(), grad.clone(), &options));
    check(conv::conv_weight_backward(x, weight.clone(), grad.clone(), &options));
    check(conv::conv_bias_backward::<N>(weight, grad));
    Ok(())
}

fn transpose<const N: usize>(u: &mut Unstructured<'_>) -> Result<()> {
    let (dtype, [batch, channels, out]) = (float(u)?, few(u)?);
    let groups = if u.ratio(3, 4)? { u.int_in_range(1..=3)? } else { Size::arbitrary(u)?.0 };
    let options = ConvTransposeOptions::<N> {
        stride: sizes(u)?,
        padding: sizes(u)?,
        padding_out: sizes(u)?,
        dilation: sizes(u)?,
        groups,
    };
    let channels = channels * if groups <= 3 { groups } else { 1 };
    let (x, weight) = (shape_of::<N>(u, batch, channels)?, shape_of::<N>(u, channels, out)?);
    let bias = optional(u, dtype, &[out * groups.min(3)])?;
    let (x, weight) = (operand(u, dtype, &x)?, operand(u, dtype, &weight)?);
    let y = check(conv::conv_transpose(x.clone(), weight.clone(), bias, &options));
    let grad = gradient(u, y, dtype, N + 2)?;
    check(conv::conv_transpose_x_backward(weight.clone(), grad.clone(), &options));
    check(conv::conv_transpose_weight_backward(x, weight, grad, &options));
    Ok(())
}

fn deform(u: &mut Unstructured<'_>) -> Result<()> {
    let (dtype, [batch, channels, out, height, width]) = (float(u)?, few(u)?);
    let (kernel, groups): ([usize; 2], [usize; 2]) =
        (few(u)?, [u.int_in_range(1..=3)?, u.int_in_range(1..=3)?]);
    let wild: [Size; 2] = if u.ratio(1, 8)? { u.arbitrary()? } else { groups.map(Size) };
    let options = DeformConvOptions {
        stride: sizes(u)?,
        padding: sizes(u)?,
        dilation: sizes(u)?,
        weight_groups: wild[0].0,
        offset_groups: wild[1].0,
    };
    let channels_in = channels * groups[0] * groups[1];
    // The extent of the output along an axis; a wrong one is an error that the operation has to find.
    let extent = |axis: usize, size: usize| {
        let window = options.dilation[axis].wrapping_mul(kernel[axis].wrapping_sub(1)).wrapping_add(1);
        let padded = size.wrapping_add(options.padding[axis].wrapping_mul(2));
        padded.wrapping_sub(window).checked_div(options.stride[axis]).map_or(1, |n| n.wrapping_add(1)).min(40)
    };
    let (rows, columns, taps) = (extent(0, height), extent(1, width), kernel[0] * kernel[1]);
    let x = operand(u, dtype, &[batch, channels_in, height, width])?;
    let weight = operand(u, dtype, &[out * groups[0], channels * groups[1], kernel[0], kernel[1]])?;
    let offset = operand(u, dtype, &[batch, 2 * groups[1] * taps, rows, columns])?;
    let mask = optional(u, dtype, &[batch, groups[1] * taps, rows, columns])?;
    let bias = optional(u, dtype, &[out * groups[0]])?;
    let y =
        conv::deform_conv2d(x.clone(), offset.clone(), weight.clone(), mask.clone(), bias.clone(), &options);
    let y = check(y);
    let grad = gradient(u, y, dtype, 4)?;
    let gradients = conv::deform_conv2d_backward(x, offset, weight, mask, bias, grad, &options);
    if let Ok(gradients) = gradients {
        [Some(gradients.x), Some(gradients.offset), Some(gradients.weight), gradients.mask, gradients.bias]
            .iter()
            .flatten()
            .for_each(read);
    }
    Ok(())
}

fn max_pool(u: &mut Unstructured<'_>) -> Result<()> {
    fn run<const N: usize>(u: &mut Unstructured<'_>) -> Result<()> {
        let (dtype, [batch, channels]) = (float(u)?, few(u)?);
        let options = MaxPoolOptions::<N> {
            kernel: sizes(u)?,
            stride: sizes(u)?,
            padding: sizes(u)?,
            dilation: sizes(u)?,
            ceil_mode: u.arbitrary()?,
        };
        let shape = shape_of::<N>(u, batch, channels)?;
        let x = operand(u, dtype, &shape)?;
        check(pool::max_pool(x.clone(), &options));
        let index = [DType::I64, DType::I32, DType::U8, DType::F32][u.int_in_range(0..=3)?];
        match pool::max_pool_with_indices(x.clone(), &options, index) {
            Ok((y, indices)) => {
                [&y, &indices].into_iter().for_each(read);
                let grad = gradient(u, Some(y.clone()), dtype, N + 2)?;
                check(pool::max_pool_backward(x.clone(), grad.clone(), indices, &options));
                // Indices that no forward pass made.
                let wrong = operand(u, index, y.shape())?;
                check(pool::max_pool_backward(x, grad, wrong, &options));
            }
            error => {
                check(error.map(|(y, _)| y));
            }
        }
        Ok(())
    }
    if bool::arbitrary(u)? { run::<1>(u) } else { run::<2>(u) }
}

fn avg_pool(u: &mut Unstructured<'_>) -> Result<()> {
    fn run<const N: usize>(u: &mut Unstructured<'_>) -> Result<()> {
        let (dtype, [batch, channels]) = (float(u)?, few(u)?);
        let options = AvgPoolOptions::<N> {
            kernel: sizes(u)?,
            stride: sizes(u)?,
            padding: sizes(u)?,
            count_include_pad: u.arbitrary()?,
            ceil_mode: u.arbitrary()?,
        };
        let shape = shape_of::<N>(u, batch, channels)?;
        let x = operand(u, dtype, &shape)?;
        let y = check(pool::avg_pool(x.clone(), &options));
        let grad = gradient(u, y, dtype, N + 2)?;
        check(pool::avg_pool_backward(x, grad, &options));
        Ok(())
    }
    if bool::arbitrary(u)? { run::<1>(u) } else { run::<2>(u) }
}

fn adaptive_pool(u: &mut Unstructured<'_>) -> Result<()> {
    fn run<const N: usize>(u: &mut Unstructured<'_>) -> Result<()> {
        let (dtype, [batch, channels], size) = (float(u)?, few(u)?, sizes::<N>(u)?);
        let shape = shape_of::<N>(u, batch, channels)?;
        let x = operand(u, dtype, &shape)?;
        let y = check(pool::adaptive_avg_pool(x.clone(), size));
        let grad = gradient(u, y, dtype, N + 2)?;
        check(pool::adaptive_avg_pool_backward::<N>(x, grad));
        Ok(())
    }
    if bool::arbitrary(u)? { run::<1>(u) } else { run::<2>(u) }
}

fn unfold(u: &mut Unstructured<'_>) -> Result<()> {
    let (dtype, shape, kernel) = (float(u)?, few::<4>(u)?, sizes(u)?);
    let options = UnfoldOptions { stride: sizes(u)?, padding: sizes(u)?, dilation: sizes(u)? };
    check(conv::unfold4d(operand(u, dtype, &shape)?, kernel, &options));
    // The view of the same name.
    let (axis, [size, step]) = (u.int_in_range(0..=5)?, sizes(u)?);
    check(operand(u, dtype, &shape)?.unfold(axis, size, step));
    Ok(())
}

fn resize(u: &mut Unstructured<'_>) -> Result<()> {
    let (dtype, shape) = (float(u)?, few::<4>(u)?);
    let mode =
        [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::Bicubic, Interpolation::Lanczos3]
            [u.int_in_range(0..=3)?];
    let (align, x) = (bool::arbitrary(u)?, operand(u, dtype, &shape)?);
    if bool::arbitrary(u)? {
        let size = sizes::<2>(u)?;
        let y = check(vision::interpolate(x.clone(), size, mode, align));
        let grad = gradient(u, y, dtype, 4)?;
        check(vision::interpolate_backward(x, grad, size, mode, align));
    } else {
        let padding =
            [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection][u.int_in_range(0..=2)?];
        let [height, width] = few(u)?;
        let grid = operand(u, dtype, &[shape[0], height, width, 2])?;
        check(vision::grid_sample(x, grid, mode, padding, align));
    }
    Ok(())
}

fn transform(u: &mut Unstructured<'_>) -> Result<()> {
    let (dtype, shape, axis) = (float(u)?, few::<3>(u)?, u.int_in_range(0..=3)?);
    let (x, lengths) = (operand(u, dtype, &shape)?, <[Option<Size>; 2]>::arbitrary(u)?);
    let [n, m] = lengths.map(|n| n.map(|n| n.0));
    match fft::rfft(x.clone(), axis, n) {
        Ok((re, im)) => {
            [&re, &im].into_iter().for_each(read);
            check(fft::irfft(re, im, axis, m));
        }
        error => {
            check(error.map(|(re, _)| re));
        }
    }
    check(fft::irfft(x.clone(), x, axis, m));
    Ok(())
}

fn attend(u: &mut Unstructured<'_>) -> Result<()> {
    let dtype = float(u)?;
    let [batch, heads, queries, keys, depth, width] = few(u)?;
    let options =
        AttentionOptions { scale: u.arbitrary()?, softcap: u.arbitrary()?, is_causal: u.arbitrary()? };
    let query = operand(u, dtype, &[batch, heads, queries, depth])?;
    let key = operand(u, dtype, &[batch, heads, keys, depth])?;
    let value = operand(u, dtype, &[batch, heads, keys, width])?;
    let few_or_one = |size: usize, u: &mut Unstructured<'_>| -> Result<usize> {
        Ok(if bool::arbitrary(u)? { size } else { 1 })
    };
    let scores =
        [few_or_one(batch, u)?, few_or_one(heads, u)?, few_or_one(queries, u)?, few_or_one(keys, u)?];
    let mask = optional(u, DType::Bool(flex_core::BoolStore::Native), &scores)?;
    let bias = optional(u, dtype, &scores)?;
    check(attention(query, key, value, mask, bias, options));
    Ok(())
}
