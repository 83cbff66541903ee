use super::{Draw, Operation, Run};
use flex_core::DType::{F16, F32, F64, I8, I32, I64};
use flex_core::attention::{AttentionOptions, attention};
use flex_core::conv::{self, ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions};
use flex_core::elementwise::{
    Binary, Compare, Unary, binary, binary_scalar, cast, compare, compare_scalar, mask_fill, mask_where,
    unary,
};
use flex_core::index::{self, Update};
use flex_core::pool::{self, AvgPoolOptions, MaxPoolOptions};
use flex_core::quant::{
    self, BlockSize, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue,
};
use flex_core::random::{Distribution, Generator, random};
use flex_core::vision::{self, GridPadding, Interpolation};
use flex_core::{BoolStore, Result, Slice, Tensor};
use flex_core::{fft, loss, matmul, movement, norm, reduce, sort};

const NATIVE: BoolStore = BoolStore::Native;

fn run(run: impl FnOnce() -> Result<Vec<Tensor>> + 'static) -> Result<Run> {
    Ok(Box::new(run))
}

/// A matrix of different numbers, or of few, so that many are equal.
fn with_ties(d: &mut Draw, shape: &[usize]) -> Result<Tensor> {
    let dtype = d.float();
    if d.flag() { cast(d.integers(shape, 40)?, dtype) } else { d.values(shape, dtype) }
}

/// Every operation that uses threads, some of them in the company of others.
pub const OPERATIONS: &[(&str, Operation)] = &[
    ("a layer of convolutions", |d| {
        let (dtype, batch, groups) = (d.float(), d.dim(8), 1 + d.below(2));
        let [inner, outer] = [d.dim(24), d.dim(24)];
        let (size, stride, dilation) = (5 + d.dim(28), 1 + d.below(2), 1 + d.below(2));
        let shape = [batch, groups * inner, size, size + d.below(3)];
        let x = d.values(&shape, dtype)?;
        let weight = d.values(&[groups * outer, inner, 3, 3], dtype)?;
        let bias = d.values(&[groups * outer], dtype)?;
        let options = ConvOptions { stride: [stride; 2], padding: [1; 2], dilation: [dilation; 2], groups };
        run(move || {
            let y = conv::conv(x.clone(), weight.clone(), Some(bias.clone()), &options)?;
            Ok(vec![
                conv::conv_x_backward(x.clone(), weight.clone(), y.clone(), &options)?,
                conv::conv_weight_backward(x, weight, y.clone(), &options)?,
                conv::conv_bias_backward::<2>(bias, y.clone())?,
                unary(Unary::Relu, y)?,
            ])
        })
    }),
    ("convolutions along one and three axes", |d| {
        let (dtype, [inner, outer]) = (d.float(), [d.dim(16), d.dim(16)]);
        let [batch, length, count] = [d.dim(3), d.dim(5000), 1 + d.below(7)];
        let long = d.values(&[batch, inner, length], dtype)?;
        let taps = d.values(&[outer, inner, count], dtype)?;
        let one = ConvOptions { stride: [1], padding: [3], dilation: [1], groups: 1 };
        let shape = [1, inner, 2 + d.dim(16), 2 + d.dim(16), 2 + d.dim(16)];
        let volume = d.values(&shape, dtype)?;
        let cube = d.values(&[outer, inner, 3, 3, 3], dtype)?;
        let three = ConvOptions { stride: [1; 3], padding: [1; 3], dilation: [1; 3], groups: 1 };
        run(move || {
            let line = conv::conv(long.clone(), taps.clone(), None, &one)?;
            let body = conv::conv(volume.clone(), cube.clone(), None, &three)?;
            Ok(vec![
                conv::conv_weight_backward(long.clone(), taps.clone(), line.clone(), &one)?,
                conv::conv_x_backward(long, taps, line.clone(), &one)?,
                conv::conv_weight_backward(volume.clone(), cube.clone(), body.clone(), &three)?,
                conv::conv_x_backward(volume, cube, body.clone(), &three)?,
                line,
                body,
            ])
        })
    }),
    ("transposed convolutions", |d| {
        let (dtype, groups, stride) = (d.float(), 1 + d.below(2), 1 + d.below(2));
        let [inner, outer] = [d.dim(16), d.dim(16)];
        let shape = [d.dim(4), groups * inner, 1 + d.dim(24), 1 + d.dim(24)];
        let x = d.values(&shape, dtype)?;
        let weight = d.values(&[groups * inner, outer, 3, 3], dtype)?;
        let bias = d.values(&[groups * outer], dtype)?;
        let options = ConvTransposeOptions {
            stride: [stride; 2],
            padding: [1; 2],
            padding_out: [stride - 1; 2],
            dilation: [1; 2],
            groups,
        };
        run(move || {
            let y = conv::conv_transpose(x.clone(), weight.clone(), Some(bias), &options)?;
            Ok(vec![
                conv::conv_transpose_x_backward(weight.clone(), y.clone(), &options)?,
                conv::conv_transpose_weight_backward(x, weight, y.clone(), &options)?,
                y,
            ])
        })
    }),
    ("deformed convolutions", |d| {
        let (dtype, groups) = (d.float(), 1 + d.below(2));
        let [batch, inner, outer] = [d.dim(3), d.dim(8), d.dim(8)];
        let [height, width] = [2 + d.dim(24), 2 + d.dim(24)];
        let x = d.values(&[batch, groups * inner, height, width], dtype)?;
        let offset = d.values(&[batch, 18, height, width], dtype)?;
        let weight = d.values(&[groups * outer, inner, 3, 3], dtype)?;
        let mask = Some(d.values(&[batch, 9, height, width], dtype)?);
        let bias = Some(d.values(&[groups * outer], dtype)?);
        let options = DeformConvOptions {
            stride: [1; 2],
            padding: [1; 2],
            dilation: [1; 2],
            weight_groups: groups,
            offset_groups: 1,
        };
        run(move || {
            let (x, offset, weight) = (&x, &offset, &weight);
            let [inputs, again] = [(); 2].map(|()| (x.clone(), offset.clone(), weight.clone()));
            let y = conv::deform_conv2d(inputs.0, inputs.1, inputs.2, mask.clone(), bias.clone(), &options)?;
            let grads =
                conv::deform_conv2d_backward(again.0, again.1, again.2, mask, bias, y.clone(), &options)?;
            let optional = [grads.mask, grads.bias].into_iter().flatten();
            Ok([y, grads.x, grads.offset, grads.weight].into_iter().chain(optional).collect())
        })
    }),
    ("windows", |d| {
        let dtype = d.float();
        let shape = [d.dim(3), d.dim(8), 3 + d.dim(48), 3 + d.dim(48)];
        let x = d.values(&shape, dtype)?;
        let options = UnfoldOptions { stride: [1 + d.below(2); 2], padding: [1; 2], dilation: [1; 2] };
        run(move || {
            let columns = conv::unfold4d(x, [3, 3], &options)?;
            Ok(vec![conv::fold4d(columns.clone(), [shape[2], shape[3]], [3, 3], &options)?, columns])
        })
    }),
    ("attention", |d| {
        let (dtype, [batch, heads]) = (d.float(), [d.dim(2), d.dim(4)]);
        let [queries, keys, width] = [d.dim(300), d.dim(300), d.dim(96)];
        let query = d.values(&[batch, heads, queries, width], dtype)?;
        let key = d.values(&[batch, heads, keys, width], dtype)?;
        let value = d.values(&[batch, heads, keys, width], dtype)?;
        let [mask, bias] = [d.values(&[1, 1, queries, keys], dtype)?, d.values(&[1, heads, 1, keys], dtype)?];
        let mask = if d.flag() { Some(compare_scalar(Compare::Gt, mask, 1.0.into(), NATIVE)?) } else { None };
        let options = AttentionOptions { scale: None, softcap: None, is_causal: d.flag() };
        let (bias, gamma) = (d.flag().then_some(bias), d.values(&[heads * width], dtype)?);
        run(move || {
            let y = attention(query, key, value, mask, bias, options)?;
            let y = y.swap_axes(1, 2)?.reshape([batch * queries, heads * width])?;
            Ok(vec![norm::layer_norm(y, gamma, None, 1e-5)?])
        })
    }),
    ("products", |d| {
        let dtype = d.float();
        let [m, k, n] = [d.dim(300), d.dim(1400), d.dim(300)];
        let a =
            if d.flag() { d.values(&[m, k], dtype)? } else { d.values(&[k, m], dtype)?.swap_axes(0, 1)? };
        let b =
            if d.flag() { d.values(&[k, n], dtype)? } else { d.values(&[n, k], dtype)?.swap_axes(0, 1)? };
        let bias = d.values(&[n], dtype)?;
        run(move || {
            let y = matmul::matmul(a.clone(), b.clone())?;
            Ok(vec![
                matmul::linear(a.clone(), b.clone(), Some(bias))?,
                matmul::linear_x_backward(b, y.clone())?,
                matmul::linear_weight_backward(a, y.clone())?,
                matmul::linear_bias_backward(y.clone())?,
                y,
            ])
        })
    }),
    ("batches of products", |d| {
        let dtype = d.pick(&[F32, F32, F64, F16, I32, I8]);
        let ([batch, m], [k, n]) = ([d.dim(40), d.dim(80)], [d.dim(600), d.dim(80)]);
        let values = |d: &mut Draw, shape: &[usize]| cast(d.values(shape, F32)?, dtype);
        let a = values(d, &[batch, m, k])?;
        let b = if d.flag() { values(d, &[batch, k, n])? } else { values(d, &[1, k, n])? };
        run(move || Ok(vec![matmul::matmul(a, b)?]))
    }),
    ("products of few rows or columns", |d| {
        let (dtype, few, [k, n]) = (d.float(), d.dim(9), d.dims(300_000));
        let a = d.values(&[few, k], dtype)?;
        let b =
            if d.flag() { d.values(&[k, n], dtype)? } else { d.values(&[n, k], dtype)?.swap_axes(0, 1)? };
        run(move || {
            let wide = matmul::matmul(a.clone().narrow(0, 0, 1)?, b.clone())?;
            let tall =
                matmul::matmul(b.clone().swap_axes(0, 1)?, a.clone().narrow(0, 0, 1)?.swap_axes(0, 1)?)?;
            Ok(vec![matmul::matmul(a, b)?, wide, tall])
        })
    }),
    ("elementwise operations", |d| {
        let (dtype, [rows, columns]) = (d.float(), d.dims(400_000));
        let (x, row) = (d.values(&[rows, columns], dtype)?, d.values(&[1, columns], dtype)?);
        run(move || {
            let y = binary(Binary::Mul, x.clone(), row)?;
            let z = binary(Binary::Add, x.clone().swap_axes(0, 1)?, unary(Unary::Exp, y)?.swap_axes(0, 1)?)?;
            let mask = compare(Compare::Gt, z.clone().flip(&[0])?, z.clone(), NATIVE)?;
            let chosen = mask_where(z.clone(), mask.clone(), x.swap_axes(0, 1)?)?;
            let z = mask_fill(z, mask.clone(), 0.5.into())?;
            let part = z.clone().narrow(0, columns / 3, columns - columns / 3)?;
            Ok(vec![unary(Unary::Tanh, part)?, cast(z, F16)?, mask, unary(Unary::Gelu, chosen)?])
        })
    }),
    // Their blocks make others give way in the pool.
    ("large tensors", |d| {
        let count = (1 + d.below(12)) * 300_000 + d.below(1000);
        let x = d.values(&[count], F32)?;
        run(move || Ok(vec![binary(Binary::Add, x.clone(), unary(Unary::Neg, x)?)?]))
    }),
    ("reductions", |d| {
        let (dtype, shape, axis) = (d.float(), d.dims(300_000), d.below(2));
        let (x, y) = (d.values(&shape, dtype)?, with_ties(d, &shape)?);
        run(move || {
            let (largest, at) = reduce::max_dim_with_indices(y.clone(), axis, I32)?;
            Ok(vec![
                reduce::sum(x.clone())?,
                reduce::mean(x.clone())?,
                reduce::prod(x.clone())?,
                reduce::max_abs(x.clone())?,
                reduce::sum_dim(x.clone(), axis)?,
                reduce::mean_dim(x.clone(), axis)?,
                reduce::prod_dim(x.clone(), axis)?,
                reduce::min_dim(x.clone(), axis)?,
                reduce::sum_dim(cast(x, I32)?, axis)?,
                reduce::argmin(y.clone(), axis, I64)?,
                reduce::any_dim(cast(y, I32)?, axis, NATIVE)?,
                largest,
                at,
            ])
        })
    }),
    // Many of these results wait, and are reduced while they are computed.
    ("reductions of chains", |d| {
        let (shape, column) = (d.dims(400_000), d.flag());
        let x = d.values(&shape, F32)?;
        let other = d.values(&[if column { shape[0] } else { 1 }, if column { 1 } else { shape[1] }], F32)?;
        run(move || {
            let chain = || {
                let product = binary(Binary::Mul, x.clone(), other.clone())?;
                binary(Binary::Sub, product, x.clone())
            };
            let shifted = binary(Binary::Sub, x.clone(), reduce::max_dim(x.clone(), 1)?)?;
            let e = unary(Unary::Exp, shifted)?;
            let softmax = binary(Binary::Div, e.clone(), reduce::sum_dim(e, 1)?)?;
            let held = binary(Binary::Mul, softmax.clone(), chain()?)?;
            Ok(vec![
                reduce::sum(chain()?)?,
                reduce::sum_dim(chain()?, 0)?,
                reduce::max_dim(chain()?, 0)?,
                reduce::mean(held.clone())?,
                reduce::mean_dim(held.clone(), 0)?,
                held,
                reduce::sum(softmax)?,
            ])
        })
    }),
    ("sums over several axes", |d| {
        let (dtype, shape) = (d.float(), [d.dim(12), d.dim(40), d.dim(60), d.dim(60)]);
        let axes: Vec<usize> = (0..4).filter(|_| d.flag()).collect();
        let x = d.values(&shape, dtype)?;
        let turned = d.values(&shape, dtype)?.permute(&[2, 0, 3, 1])?;
        run(move || {
            Ok(vec![
                reduce::sum_dims(x.clone(), &axes)?,
                reduce::sum_dims(x, &[0, 2, 3])?,
                reduce::sum_dims(turned, &axes)?,
            ])
        })
    }),
    ("scans", |d| {
        let (dtype, shape, axis) = (d.float(), d.dims(200_000), d.below(2));
        let x = d.values(&shape, dtype)?;
        run(move || {
            Ok(vec![
                reduce::cumsum(x.clone(), axis)?,
                reduce::cumprod(x.clone(), axis)?,
                reduce::cummax(x, axis)?,
            ])
        })
    }),
    ("sorting", |d| {
        let (shape, axis, descending) = (d.dims(100_000), d.below(2), d.flag());
        let (x, k) = (with_ties(d, &shape)?, 1 + d.below(shape[1].min(300)));
        run(move || {
            let (sorted, at) = sort::sort_with_indices(x.clone(), axis, descending, I64)?;
            let (best, best_at) = sort::topk_with_indices(x.clone(), 1, k, I32)?;
            Ok(vec![sorted, at, best, best_at, sort::sort(x, axis, descending)?])
        })
    }),
    ("indexing along an axis", |d| {
        let (dtype, [rows, columns], count) = (d.float(), d.dims(100_000), d.dim(3000));
        let (x, at) = (d.values(&[rows, columns], dtype)?, d.integers(&[count], rows)?);
        let width = 1 + d.below(columns);
        let places = d.integers(&[rows, width], columns)?;
        let (cells, update) = (d.values(&[rows, width], dtype)?, d.pick(&[Update::Add, Update::Max]));
        run(move || {
            let taken = index::select(x.clone(), 0, at.clone())?;
            let added = index::select_update(x.clone(), 0, at.clone(), taken.clone(), update)?;
            Ok(vec![
                index::embedding_backward(x.clone(), taken.clone(), at)?,
                index::gather(1, x.clone(), places.clone())?,
                index::scatter(1, x, places, cells, update)?,
                added,
                taken,
            ])
        })
    }),
    ("indexing by coordinates", |d| {
        let (dtype, [rows, columns], count) = (d.float(), d.dims(40_000), d.dim(30_000));
        let x = d.values(&[rows, columns], dtype)?;
        let at = movement::cat(vec![d.integers(&[count, 1], rows)?, d.integers(&[count, 1], columns)?], 1)?;
        let values = d.values(&[count], dtype)?;
        let mask = compare_scalar(Compare::Gt, d.values(&[rows, columns], F32)?, 0.0.into(), NATIVE)?;
        run(move || {
            Ok(vec![
                index::gather_nd(x.clone(), at.clone())?,
                index::scatter_nd(x.clone(), at, values, Update::Add)?,
                index::mask_select(x, mask.clone())?,
                index::nonzero(mask, I64)?,
            ])
        })
    }),
    ("movement", |d| {
        let (dtype, [rows, columns], times) = (d.float(), d.dims(200_000), 1 + d.below(3));
        let (x, y) = (d.values(&[rows, columns], dtype)?, d.values(&[rows, columns], dtype)?);
        let half = [Slice::new(0, Some(rows.div_ceil(2) as isize), 1), Slice::new(0, None, 2)];
        run(move || {
            let part = y.clone().slice(&half)?;
            Ok(vec![
                movement::slice_assign(x.clone(), &half, part)?,
                movement::repeat(movement::cat(vec![x, y.clone()], 0)?, 1, times)?,
                y.swap_axes(0, 1)?.into_contiguous()?,
            ])
        })
    }),
    ("images", |d| {
        let (dtype, [batch, channels]) = (d.float(), [d.dim(3), d.dim(4)]);
        let [height, width, rows, columns] = [d.dim(90), d.dim(90), d.dim(120), d.dim(120)];
        let x = d.values(&[batch, channels, height, width], dtype)?;
        let grid = d.values(&[batch, rows, columns, 2], dtype)?;
        let mode = d.pick(&[
            Interpolation::Nearest,
            Interpolation::NearestExact,
            Interpolation::Bilinear,
            Interpolation::Bicubic,
            Interpolation::Lanczos3,
        ]);
        let (align, padding) = (d.flag(), d.pick(&[GridPadding::Zeros, GridPadding::Reflection]));
        run(move || {
            let y = vision::interpolate(x.clone(), [rows, columns], mode, align)?;
            let back = vision::interpolate_backward(x.clone(), y.clone(), [rows, columns], mode, align)?;
            Ok(vec![vision::grid_sample(x, grid, Interpolation::Bilinear, padding, align)?, back, y])
        })
    }),
    ("pooling", |d| {
        let (dtype, stride) = (d.float(), 1 + d.below(2));
        let shape = [d.dim(4), d.dim(16), 2 + d.dim(62), 2 + d.dim(62)];
        let x = d.values(&shape, dtype)?;
        let max = MaxPoolOptions {
            kernel: [2 + d.below(2); 2],
            stride: [stride; 2],
            padding: [1; 2],
            dilation: [1; 2],
            ceil_mode: d.flag(),
        };
        let avg = AvgPoolOptions {
            kernel: max.kernel,
            stride: max.stride,
            padding: max.padding,
            count_include_pad: d.flag(),
            ceil_mode: max.ceil_mode,
        };
        let size = [d.dim(9), d.dim(9)];
        run(move || {
            let (largest, at) = pool::max_pool_with_indices(x.clone(), &max, I64)?;
            let (mean, few) = (pool::avg_pool(x.clone(), &avg)?, pool::adaptive_avg_pool(x.clone(), size)?);
            Ok(vec![
                pool::max_pool(x.clone(), &max)?,
                pool::max_pool_backward(x.clone(), largest.clone(), at.clone(), &max)?,
                pool::avg_pool_backward(x.clone(), mean.clone(), &avg)?,
                pool::adaptive_avg_pool_backward::<2>(x, few.clone())?,
                largest,
                at,
                mean,
                few,
            ])
        })
    }),
    ("norms of batches", |d| {
        let (dtype, [images, channels], pixels) = (d.float(), d.dims(20_000), d.dim(50));
        let (x, dy) =
            (d.values(&[images, channels, pixels], dtype)?, d.values(&[images, channels, pixels], dtype)?);
        let (gamma, beta) = (d.values(&[channels], dtype)?, d.values(&[channels], dtype)?);
        run(move || {
            let (y, mean, variance) = norm::batch_norm_train(x.clone(), gamma.clone(), beta.clone(), 1e-5)?;
            let (x_grad, gamma_grad, beta_grad) = norm::batch_norm_train_backward(
                x.clone(),
                gamma.clone(),
                mean.clone(),
                variance.clone(),
                1e-5,
                dy,
            )?;
            let given = norm::batch_norm(x, gamma, beta, mean.clone(), variance.clone(), 1e-5)?;
            Ok(vec![y, mean, variance, x_grad, gamma_grad, beta_grad, given])
        })
    }),
    ("norms", |d| {
        let (dtype, [rows, columns], axis) = (d.float(), d.dims(200_000), d.below(2));
        let (x, gamma, beta) =
            (d.values(&[rows, columns], dtype)?, d.values(&[columns], dtype)?, d.values(&[columns], dtype)?);
        run(move || {
            let (soft, log) = (norm::softmax(x.clone(), axis)?, norm::log_softmax(x.clone(), axis)?);
            let y = norm::layer_norm(x.clone(), gamma.clone(), Some(beta), 1e-5)?;
            let grads = norm::layer_norm_backward(x.clone(), gamma, y.clone(), 1e-5)?;
            Ok(vec![
                norm::softmax_backward(soft.clone(), x.clone(), axis)?,
                norm::log_softmax_backward(log.clone(), x, axis)?,
                soft,
                log,
                y,
                grads.input,
                grads.gamma,
                grads.beta,
            ])
        })
    }),
    ("alignment of labels", |d| {
        let (dtype, [time, batch]) = (d.float(), [2 + d.dim(80), d.dim(24)]);
        let (classes, labels) = (2 + d.dim(30), 1 + d.below(time / 2));
        let scores = norm::log_softmax(d.values(&[time, batch, classes], dtype)?, 2)?;
        let targets = d.integers(&[batch, labels], classes - 1)?;
        let targets = binary_scalar(Binary::Add, targets, 1.into())?;
        let [times, lengths] = [time, labels].map(|n| Tensor::full([batch], n as i64, I64));
        let (times, lengths, grad) = (times?, lengths?, d.values(&[batch], dtype)?);
        run(move || {
            let loss = loss::ctc_loss(scores.clone(), targets.clone(), times.clone(), lengths.clone(), 0)?;
            Ok(vec![loss, loss::ctc_loss_backward(scores, targets, times, lengths, grad, 0)?])
        })
    }),
    ("transforms", |d| {
        let ([rows, n], dtype) = (d.dims(100_000), d.pick(&[F32, F64, F16]));
        let x = d.values(&[rows, n], dtype)?;
        run(move || {
            let (re, im) = fft::rfft(x, 1, None)?;
            Ok(vec![fft::irfft(re.clone(), im.clone(), 1, Some(n))?, re, im])
        })
    }),
    ("quantization", |d| {
        let ([rows, blocks], value) =
            (d.dims(8000), d.pick(&[QuantValue::Q8S, QuantValue::Q4F, QuantValue::E4M3]));
        let level = if d.flag() { QuantLevel::Tensor } else { QuantLevel::Block(BlockSize::new([32])) };
        let (param, tensor_scale) = d.pick(&[
            (QuantParam::F32, false),
            (QuantParam::BF16, false),
            (QuantParam::UE4M3, matches!(level, QuantLevel::Block(_))),
        ]);
        let (store, mode) = (QuantStore::Native, QuantMode::Symmetric);
        let scheme = QuantScheme { value, param, store, level, tensor_scale, mode };
        let x = d.values(&[rows, 32 * blocks], F32)?;
        run(move || {
            let codes = quant::quantize_dynamic(x.clone(), scheme)?;
            let again = quant::quantize(x, codes.scales.clone(), codes.global, scheme)?;
            Ok(vec![again.values, codes.scales.clone(), quant::dequantize(codes, F64)?])
        })
    }),
    ("random numbers", |d| {
        let (dtype, shape, seed) = (d.float(), d.dims(300_000), d.next());
        run(move || {
            let normal = Distribution::Normal { mean: 1.0, std: 2.0 };
            let coin = Distribution::Bernoulli { probability: 0.3 };
            let mut generator = Generator::new(seed);
            [Distribution::Standard, normal, coin]
                .map(|distribution| random(&mut generator, shape.into(), distribution, dtype))
                .into_iter()
                .collect()
        })
    }),
];
