//! Shape arithmetic of attention: validation, tile sizes, and which keys a block of queries can see.

use super::AttentionOptions;
use crate::Tensor;
use crate::error::{Error, Result, check_rank, check_same_dtype};
use crate::layout::{Layout, checked_num_elements, expand_like};
use crate::parallel::thresholds::ATTENTION_TASKS;

/// Queries per task. Smaller blocks spend more time on packing the keys, which happens once per block; with
/// larger blocks the tiles leave the cache.
///
/// Core time on Zen 5 with these blocks, f32, depth 64: 0.33 ms for 12 heads of 128 tokens, 4.4 ms for 12
/// heads of 512 tokens, 44 ms for 8 heads of 2048 tokens (half of that under a causal mask), which is 150 to
/// 200 GFLOP/s per core, exponentials included.
const QUERY_BLOCK: usize = 128;
/// Queries per task if [`QUERY_BLOCK`] would give fewer than [`ATTENTION_TASKS`] tasks.
const SMALL_QUERY_BLOCK: usize = 64;
/// Keys per tile: scores (128 KiB), keys and values (64 KiB each at depth 64) fit into the second-level cache
/// together.
pub(super) const KEY_BLOCK: usize = 256;

/// Sizes and options of an attention.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AttentionPlan {
    pub batch: usize,
    pub heads: usize,
    /// Neighbouring heads of queries that share a head of keys and values; 0 without heads of queries.
    pub sharing: usize,
    /// Queries per head.
    pub queries: usize,
    /// Keys per head.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub depth: usize,
    /// Elements of a value.
    pub value_depth: usize,
    /// Queries per task.
    pub query_block: usize,
    pub scale: f64,
    pub softcap: Option<f64>,
    pub is_causal: bool,
    /// Layout of the mask, broadcast to the shape of the scores.
    pub mask: Option<Layout>,
    /// Layout of the bias, broadcast to the shape of the scores.
    pub bias: Option<Layout>,
}

impl AttentionPlan {
    /// Checks the arguments and chooses the tile sizes.
    pub fn new(
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        bias: Option<&Tensor>,
        options: AttentionOptions,
    ) -> Result<Self> {
        let op = "attention";
        check_rank(op, query.shape(), 4, "a query of shape [batch, heads, queries, depth]")?;
        check_rank(op, key.shape(), 4, "a key of shape [batch, heads, keys, depth]")?;
        check_rank(op, value.shape(), 4, "a value of shape [batch, heads, keys, value_depth]")?;
        check_same_dtype(op, query.dtype(), key.dtype())?;
        check_same_dtype(op, query.dtype(), value.dtype())?;
        let (q, k, v) = (query.shape(), key.shape(), value.shape());
        let sharing = q[1].checked_div(k[1]).unwrap_or(0);
        if q[0] != k[0] || q[1] != sharing * k[1] || q[3] != k[3] {
            let expected = "a query and a key that share batch and depth, and heads of keys that divide those of queries";
            return Err(Error::shapes(op, q, k, expected));
        }
        if k[..3] != v[..3] {
            return Err(Error::shapes(op, k, v, "a key and a value that share batch, heads and keys"));
        }
        if let Some(softcap) = options.softcap.filter(|&c| c.is_nan() || c <= 0.0) {
            return Err(Error::argument(op, "softcap", softcap, "a positive number"));
        }
        let scores = [q[0], q[1], q[2], k[2]];
        checked_num_elements(op, &scores)?;
        checked_num_elements(op, &[q[0], q[1], q[2], v[3]])?;
        let stretch = |t: Option<&Tensor>| t.map(|t| expand_like(op, t.layout(), &scores)).transpose();
        if let Some(mask) = mask.filter(|mask| !mask.dtype().is_bool()) {
            return Err(Error::dtype(op, mask.dtype(), "a mask of dtype bool"));
        }
        if let Some(bias) = bias {
            check_same_dtype(op, query.dtype(), bias.dtype())?;
        }
        let tasks = q[0] * q[1] * q[2].div_ceil(QUERY_BLOCK);
        Ok(Self {
            batch: q[0],
            heads: q[1],
            sharing,
            queries: q[2],
            keys: k[2],
            depth: q[3],
            value_depth: v[3],
            query_block: if tasks < ATTENTION_TASKS { SMALL_QUERY_BLOCK } else { QUERY_BLOCK },
            scale: options.scale.unwrap_or_else(|| 1.0 / libm::sqrt(q[3] as f64)),
            softcap: options.softcap,
            is_causal: options.is_causal,
            mask: stretch(mask)?,
            bias: stretch(bias)?,
        })
    }

    /// Number of leading keys that query `i` may see. The last query sees the last key.
    pub fn visible(&self, i: usize) -> usize {
        if !self.is_causal {
            return self.keys;
        }
        (i + 1 + self.keys).saturating_sub(self.queries).min(self.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use alloc::string::ToString;

    fn t(shape: [usize; 4]) -> Tensor {
        Tensor::empty(shape, DType::F32).unwrap()
    }

    fn plan(queries: usize, keys: usize, is_causal: bool) -> AttentionPlan {
        let options = AttentionOptions { is_causal, ..Default::default() };
        let (k, v) = (t([2, 3, keys, 16]), t([2, 3, keys, 5]));
        AttentionPlan::new(&t([2, 3, queries, 16]), &k, &v, None, None, options).unwrap()
    }

    #[test]
    fn the_causal_boundary_ends_at_the_last_key() {
        let see = |queries, keys| {
            let p = plan(queries, keys, true);
            (0..queries).map(|i| p.visible(i)).collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(see(3, 3), [1, 2, 3]);
        assert_eq!(see(2, 5), [4, 5]);
        assert_eq!(see(4, 2), [0, 0, 1, 2]);
        assert_eq!(plan(4, 2, false).visible(0), 2);
    }

    #[test]
    fn few_tasks_get_smaller_blocks() {
        assert_eq!(plan(128, 7, false).query_block, SMALL_QUERY_BLOCK);
        assert_eq!(plan(2048, 7, false).query_block, QUERY_BLOCK);
        assert_eq!(plan(1, 1, false).scale, 0.25);
    }

    #[test]
    fn bad_arguments_are_refused() {
        let none = AttentionOptions::default();
        let (q, k, v) = (t([2, 3, 4, 8]), t([2, 3, 5, 8]), t([2, 3, 5, 6]));
        let refused = |r: Result<AttentionPlan>| {
            let message = r.unwrap_err().to_string();
            assert!(message.starts_with("attention: "), "{message}");
        };
        refused(AttentionPlan::new(&q.clone().reshape([6, 4, 8]).unwrap(), &k, &v, None, None, none));
        refused(AttentionPlan::new(&t([2, 3, 4, 7]), &k, &v, None, None, none));
        refused(AttentionPlan::new(&t([1, 3, 4, 8]), &k, &v, None, None, none));
        // Heads of keys that do not divide those of queries, and no heads of keys at all.
        refused(AttentionPlan::new(&t([2, 4, 4, 8]), &k, &v, None, None, none));
        refused(AttentionPlan::new(&q, &t([2, 0, 5, 8]), &t([2, 0, 5, 6]), None, None, none));
        refused(AttentionPlan::new(&q, &k, &t([2, 3, 4, 6]), None, None, none));
        refused(AttentionPlan::new(
            &q,
            &k,
            &Tensor::empty([2, 3, 5, 6], DType::F64).unwrap(),
            None,
            None,
            none,
        ));
        refused(AttentionPlan::new(&q, &k, &v, Some(&t([1, 1, 4, 5])), None, none));
        let mask =
            |shape: [usize; 4]| Tensor::from_bools(&[false; 20][..shape.iter().product()], shape).unwrap();
        refused(AttentionPlan::new(&q, &k, &v, Some(&mask([1, 1, 5, 4])), None, none));
        assert!(
            AttentionPlan::new(&q, &k, &v, Some(&mask([1, 1, 4, 5])), Some(&t([2, 1, 1, 5])), none).is_ok()
        );
        refused(AttentionPlan::new(&q, &k, &v, None, Some(&t([2, 3, 4, 4])), none));
        for softcap in [0.0, -1.0, f64::NAN] {
            refused(AttentionPlan::new(
                &q,
                &k,
                &v,
                None,
                None,
                AttentionOptions { softcap: Some(softcap), ..none },
            ));
        }
    }
}
