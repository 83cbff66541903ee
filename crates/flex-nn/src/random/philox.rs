//! Philox 4x32-10: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
//!
//! A counter of four words goes through ten rounds of multiplications and exclusive ors with a key of two
//! words, to which constants are added between rounds. The result is four random words. The tests check the
//! authors' known answers.

use flex_math::simd::{Simd, WithSimd, dispatch};

const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const BUMPS: [u64; 2] = [0x9E37_79B9, 0xBB67_AE85];
const LOW: u64 = 0xFFFF_FFFF;
const ROUNDS: usize = 10;

/// Counters of a group.
const LANES: usize = 16;

/// Words of a group. [`fill`] produces whole groups.
pub(super) const GROUP: usize = 4 * LANES;

/// Registers per word of the counters that go through the rounds together. With one register, each step
/// would wait for the step before. With four, AVX2's 16 registers would not hold the words before a round and
/// those after it.
const REGISTERS: usize = 2;

/// The ten rounds on `L` counters at once. Each 32-bit word is the lower half of 64 bits, the operand format
/// of the vector units' widening multiplication, which does not read the upper half.
#[inline(always)]
fn rounds<const L: usize>(mut c: [[u64; L]; 4], key: [u32; 2]) -> [[u32; L]; 4] {
    let mut key = key.map(u64::from);
    for _ in 0..ROUNDS {
        let mut next = [[0u64; L]; 4];
        for i in 0..L {
            let a = MULTIPLIERS[0] * (c[0][i] & LOW);
            let b = MULTIPLIERS[1] * (c[2][i] & LOW);
            next[0][i] = (b >> 32) ^ c[1][i] ^ key[0];
            next[1][i] = b;
            next[2][i] = (a >> 32) ^ c[3][i] ^ key[1];
            next[3][i] = a;
        }
        c = next;
        key = [key[0] + BUMPS[0], key[1] + BUMPS[1]];
    }
    c.map(|words| words.map(|word| word as u32))
}

/// Fills `out` with the words of the counters from `counter` on. Each group of [`GROUP`] words holds the
/// first words of its counters, then their second words, and so on.
///
/// # Panics
/// Panics if the length of `out` is not a multiple of [`GROUP`].
pub(super) fn fill(key: u64, counter: u64, out: &mut [u32]) {
    assert!(out.len().is_multiple_of(GROUP), "philox: length {}", out.len());
    dispatch(Fill { key: [key as u32, (key >> 32) as u32], counter, out });
}

/// See [`fill`].
struct Fill<'a> {
    key: [u32; 2],
    counter: u64,
    out: &'a mut [u32],
}

impl Fill<'_> {
    /// Fills all groups, `L` counters at a time.
    #[inline(always)]
    fn run<const L: usize>(self) {
        for (k, group) in self.out.chunks_exact_mut(GROUP).enumerate() {
            for start in (0..LANES).step_by(L) {
                let first = self.counter.wrapping_add((k * LANES + start) as u64);
                let mut c = [[0u64; L]; 4];
                let [low, high, ..] = &mut c;
                for (i, (low, high)) in low.iter_mut().zip(high).enumerate() {
                    let at = first.wrapping_add(i as u64);
                    (*low, *high) = (at, at >> 32);
                }
                let words = rounds(c, self.key);
                for (to, from) in group.chunks_exact_mut(LANES).zip(&words) {
                    to[start..][..L].copy_from_slice(from);
                }
            }
        }
    }
}

impl WithSimd for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        match const { REGISTERS * size_of::<S::Register>() / size_of::<u64>() } {
            LANES => self.run::<LANES>(),
            8 => self.run::<8>(),
            _ => self.run::<4>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn known_answers() {
        // kat_vectors of the Random123 distribution, philox4x32 with 10 rounds.
        for (counter, key, want) in [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ] {
            let got = rounds(counter.map(|word: u32| [word as u64; 1]), key);
            assert_eq!(got, want.map(|word: u32| [word]));
        }
    }

    #[test]
    fn lanes_are_consecutive_counters() {
        let key = 0x0123_4567_89ab_cdef;
        for first in [0, 5, u32::MAX as u64 - 7, u64::MAX - 20] {
            let mut out = vec![0; 3 * GROUP];
            fill(key, first, &mut out);
            // Each instruction set takes one of these.
            let runs: [fn(Fill<'_>); 3] =
                [|fill| fill.run::<4>(), |fill| fill.run::<8>(), |fill| fill.run::<LANES>()];
            for run in runs {
                let mut again = vec![0; 3 * GROUP];
                run(Fill { key: [key as u32, (key >> 32) as u32], counter: first, out: &mut again });
                assert_eq!(again, out);
            }
            for i in 0..3 * LANES {
                let at = first.wrapping_add(i as u64);
                let want = rounds([[at & 0xFFFF_FFFF], [at >> 32], [0], [0]], [0x89ab_cdef, 0x0123_4567]);
                let base = i / LANES * GROUP + i % LANES;
                let got = [0, 1, 2, 3].map(|word| [out[base + word * LANES]]);
                assert_eq!(got, want);
            }
        }
    }
}
