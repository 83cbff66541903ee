//! The sums over the channels: for each point a product of a matrix of kernels with a matrix of tiles.
//!
//! The tiles of a small image fill one vector. Then each multiply-add of a vector reads 4 bytes of the points
//! of kernels, which come from memory and are read once. So they lie in the order in which they are read, and
//! are fetched ahead.

use super::{LANES, ROWS, points_pitch};
use core::ops::Range;
use flex_math::simd::{HasVectors, Scalar, Simd, WithSimd, load, prefetch_far, store};

/// How far ahead the points of kernels are fetched, in elements, with vectors of 64 bytes. Layers of 512
/// channels at 7x7, of one image, take 1.42 ms (Zen 4, points from memory), and without, or with 512
/// elements, 1.47 to 1.58.
const AHEAD: usize = 1024;

/// Number of kernels that are multiplied at a time with one vector of tiles, where there are 32 registers.
pub(super) const MANY_ROWS: usize = 16;

/// If at most this many tiles follow the last whole vector of tiles, they are multiplied with vectors along
/// the kernels, at a quarter of the cost of a vector of tiles. One image of 28x28 has 49 tiles: a layer of
/// 128 channels takes 0.81 ms instead of 0.92 (Zen 4).
pub(super) const FEW: usize = 4;

/// Most channels that are multiplied at a time where a task's kernels take several passes ([`is_short`]): the
/// block of kernels and of tiles stays in the first-level cache for all passes, which fetch the next block of
/// kernels, each an equal share.
///
/// One image of 256 channels at 14x14 takes 0.81 of the time that all channels at a time take, of 512
/// channels at 7x7 0.72, and eight of these images 0.93 (one thread of Zen 3). Blocks of 64 and 256 channels
/// gain less.
const CHANNELS: usize = 128;

/// Whether vectors are shorter than 64 bytes. Then they are multiplied by 4 kernels at a time.
const fn is_short<S: Simd>() -> bool {
    size_of::<S::Register>() < 64
}

/// The matrices of all points. A matrix of kernels has a row per channel and a column per kernel, a matrix of
/// tiles a row per channel and a column per tile.
pub(super) struct Factors<'a> {
    pub kernels: &'a [f32],
    pub tiles: &'a [f32],
    pub points: usize,
    pub channels: usize,
    /// Number of kernels: [`ROWS`] or [`MANY_ROWS`].
    pub rows: usize,
    /// The first tile that is multiplied, and the number of tiles. Rows of tiles and of sums have whole
    /// vectors of [`LANES`].
    pub first: usize,
    pub count: usize,
    /// Distance between the matrices of kernels.
    pub kernel_pitch: usize,
    /// Distances between the matrices of tiles, and between their rows.
    pub tile_pitch: usize,
    pub channel_pitch: usize,
    /// Distance between the sums of points, which lie as the tiles do, with a row per kernel.
    pub sum_pitch: usize,
}

/// Writes the sums of all points to `sums`.
pub(super) fn add_up(vectors: HasVectors, factors: Factors<'_>, sums: &mut [f32]) {
    vectors.dispatch(Sums { factors, sums });
}

struct Sums<'a> {
    factors: Factors<'a>,
    sums: &'a mut [f32],
}

impl WithSimd for Sums<'_> {
    type Output = ();

    /// As many accumulators as registers allow: see [`windows`](super::super::product::windows).
    /// Unlike there, 4 x 3 accumulators spill nothing with 16 registers: 25 instructions for 12
    /// multiplications, where 4 x 2 take 20 for 8. 64 channels at 56x56 take 2,143 us instead of 2,381,
    /// 128 at 28x28 1,913 instead of 2,062 (one thread of Zen 3, the other thread of the core busy).
    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { factors, sums } = self;
        let lanes = f32::lanes::<S>();
        let blocks = if const { is_short::<S>() } { factors.channels.div_ceil(CHANNELS) } else { 1 };
        let block = factors.channels.div_ceil(blocks.max(1)).max(1);
        for (point, sums) in sums.chunks_mut(factors.sum_pitch).take(factors.points).enumerate() {
            for start in (0..factors.channels).step_by(block) {
                let channels = start..factors.channels.min(start + block);
                let mut tile = 0;
                while tile < factors.count {
                    if factors.count - tile <= FEW && factors.rows.is_multiple_of(lanes) {
                        if channels.end == factors.channels {
                            factors.few::<S>(point, tile, sums);
                        }
                        break;
                    }
                    let of = (point, channels.clone(), tile);
                    let vectors = match (points_pitch(factors.count) - tile) / lanes {
                        2 | 4 if const { is_short::<S>() } => factors.rows::<S, 4, 2>(of, sums),
                        _ if const { is_short::<S>() } => factors.rows::<S, 4, 3>(of, sums),
                        1 if factors.rows == MANY_ROWS => factors.rows::<S, MANY_ROWS, 1>(of, sums),
                        1 => factors.rows::<S, ROWS, 1>(of, sums),
                        2 => factors.rows::<S, ROWS, 2>(of, sums),
                        _ => factors.rows::<S, ROWS, 3>(of, sums),
                    };
                    tile += vectors * lanes;
                }
            }
        }
    }
}

impl Factors<'_> {
    /// The channels' kernels and tiles: for each channel, the kernels of this point, and the tiles of all
    /// points. All of these slices have one length, so the loops over channels check no index: a third of
    /// their instructions at AVX2, where layers of 64 to 256 channels take 0.78 to 0.83 of the time (Zen 3).
    #[inline(always)]
    fn channels(&self, point: usize, channels: Range<usize>) -> impl Iterator<Item = (&[f32], &[f32])> {
        let kernels = &self.kernels[point * self.kernel_pitch..];
        let kernels = &kernels[channels.start * self.rows..channels.end * self.rows];
        let tiles = &self.tiles[channels.start * self.channel_pitch..];
        kernels.chunks_exact(self.rows).zip(tiles.chunks_exact(self.channel_pitch))
    }

    /// The sums of a point for all kernels and for the [`FEW`] tiles from number `tile` on, counted from the
    /// first, with vectors along the kernels.
    #[inline(always)]
    fn few<S: Simd>(&self, point: usize, tile: usize, sums: &mut [f32]) {
        let lanes = f32::lanes::<S>();
        let first = point * self.tile_pitch + self.first + tile;
        for row in (0..self.rows).step_by(lanes) {
            let mut acc = [0f32.splat::<S>(); FEW];
            for (kernels, tiles) in self.channels(point, 0..self.channels) {
                let kernels = load::<S, f32>(&kernels[row..]);
                for (acc, tile) in acc.iter_mut().zip(&tiles[first..first + FEW]) {
                    *acc = kernels.mul_add(tile.splat(), *acc);
                }
            }
            for (t, &acc) in acc.iter().enumerate() {
                let mut column = [0.0; LANES];
                store(acc, &mut column);
                for (r, &sum) in column[..lanes].iter().enumerate() {
                    sums[(row + r) * points_pitch(self.count) + tile + t] = sum;
                }
            }
        }
    }

    /// The sums of a point for all kernels and for `V` vectors of tiles from number `tile` on; returns `V`.
    #[inline(always)]
    fn rows<S: Simd, const R: usize, const V: usize>(
        &self,
        (point, channels, tile): (usize, Range<usize>, usize),
        sums: &mut [f32],
    ) -> usize {
        let lanes = f32::lanes::<S>();
        let first = point * self.tile_pitch + self.first + tile;
        for row in (0..self.rows).step_by(R) {
            let mut acc = [[0f32.splat::<S>(); V]; R];
            let at = |r: usize, v: usize| (row + r) * points_pitch(self.count) + tile + v * lanes;
            if const { is_short::<S>() } && channels.start > 0 {
                for (r, acc) in acc.iter_mut().enumerate() {
                    for (v, acc) in acc.iter_mut().enumerate() {
                        *acc = load::<S, f32>(&sums[at(r, v)..]);
                    }
                }
            }
            let kernels = self.kernels.as_ptr().wrapping_add(point * self.kernel_pitch);
            let (mut ahead, step) = if const { is_short::<S>() } {
                // Each pass over the block fetches an equal share of the next block.
                let passes = self.rows / R * self.count.div_ceil(V * lanes);
                let pass = tile / (V * lanes) * (self.rows / R) + row / R;
                let channel = self.rows * size_of::<f32>();
                let share = channels.len() * channel * pass / passes;
                let next = kernels.wrapping_add(channels.end * self.rows);
                (next.wrapping_byte_add(share), channel / passes)
            } else {
                (kernels.wrapping_add(row + AHEAD), self.rows * size_of::<f32>())
            };
            for (kernels, tiles) in self.channels(point, channels.clone()) {
                let kernels: &[f32; R] = kernels[row..].first_chunk().expect("all kernels");
                let tiles = &tiles[first..first + V * lanes];
                prefetch_far(ahead.cast(), 1);
                ahead = ahead.wrapping_byte_add(step);
                // The next vectors. Images of more tiles exceed the second-level cache: eight of 128 channels
                // at 28x28 take 7.7 ms instead of 8.1.
                if const { R * V == 24 } {
                    prefetch_far(tiles.as_ptr().wrapping_add(V * lanes).cast(), size_of_val(tiles));
                }
                let mut x = [0f32.splat::<S>(); V];
                for (v, x) in x.iter_mut().enumerate() {
                    *x = load::<S, f32>(&tiles[v * lanes..]);
                }
                for r in 0..R {
                    for v in 0..V {
                        acc[r][v] = x[v].mul_add(kernels[r].splat(), acc[r][v]);
                    }
                }
            }
            for (r, acc) in acc.iter().enumerate() {
                for (v, &acc) in acc.iter().enumerate() {
                    store::<S, f32>(acc, &mut sums[at(r, v)..]);
                }
            }
        }
        V
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use flex_math::simd::for_each_isa;

    const POINTS: usize = 2;

    #[derive(Clone)]
    struct Case {
        kernels: Vec<f32>,
        tiles: Vec<f32>,
        channels: usize,
        rows: usize,
        first: usize,
        count: usize,
    }

    impl WithSimd for Case {
        type Output = Vec<f32>;

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Vec<f32> {
            let Self { kernels, tiles, channels, rows, first, count } = &self;
            let (channels, rows, first, count) = (*channels, *rows, *first, *count);
            let (pitch, sum_row) = (points_pitch(first + count), points_pitch(count));
            let factors = Factors {
                kernels,
                tiles,
                points: POINTS,
                channels,
                rows,
                first,
                count,
                kernel_pitch: rows * channels,
                tile_pitch: pitch,
                channel_pitch: POINTS * pitch,
                sum_pitch: rows * sum_row,
            };
            let mut sums = vec![f32::NAN; POINTS * rows * sum_row];
            Sums { factors, sums: &mut sums }.with_simd::<S>();
            sums
        }
    }

    #[test]
    fn sums_match_the_definition_on_every_isa() {
        let whole = |len: usize, factor: usize| -> Vec<f32> {
            (0..len).map(|i| (i * factor % 17) as f32 - 8.0).collect()
        };
        for (rows, channels) in [(ROWS, 1), (ROWS, 5), (ROWS, 300), (MANY_ROWS, 3), (MANY_ROWS, 129)] {
            let counts = [1, FEW, FEW + 1, 16, 17, 32, 32 + FEW, 37, 48, 49, 64, 65, 80, 96, 96 + FEW, 112];
            for (count, first) in counts.into_iter().flat_map(|count| [(count, 0), (count, 3 * LANES)]) {
                let (pitch, sum_row) = (points_pitch(first + count), points_pitch(count));
                let kernels = whole(POINTS * rows * channels, 7);
                let tiles = whole(POINTS * channels * pitch, 5);
                let mut want = vec![];
                for point in 0..POINTS {
                    for row in 0..rows {
                        for tile in 0..count {
                            let products = (0..channels).map(|c| {
                                kernels[(point * channels + c) * rows + row]
                                    * tiles[(c * POINTS + point) * pitch + first + tile]
                            });
                            // Sums of small whole numbers, which are exact in any order.
                            want.push(products.sum::<f32>());
                        }
                    }
                }
                let case = Case { kernels, tiles, channels, rows, first, count };
                for_each_isa(case, |isa, got| {
                    let got: Vec<f32> = got.chunks(sum_row).flat_map(|sums| sums[..count].to_vec()).collect();
                    assert_eq!(got, want, "{isa} {rows} {channels} {count} from {first}");
                });
            }
        }
    }
}
