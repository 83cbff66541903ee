//! The choice of the next token.

use rand::{Rng, RngExt};

/// The number of the next token, by its score in `scores` (logits). At temperature 0 it is the highest;
/// above, tokens are drawn with probabilities `softmax(scores / temperature)`.
///
/// # Panics
/// Panics if there is no score.
pub fn choose(scores: &[f32], temperature: f64, rng: &mut impl Rng) -> usize {
    let highest = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).expect("a score");
    if temperature <= 0.0 {
        return highest;
    }
    let weight = |&score: &f32| ((score - scores[highest]) as f64 / temperature).exp();
    let mut left = rng.random::<f64>() * scores.iter().map(weight).sum::<f64>();
    let reached = scores.iter().position(|score| {
        left -= weight(score);
        left < 0.0
    });
    // The sums may round differently at the very end.
    reached.unwrap_or(highest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn tokens_come_as_often_as_their_scores_say() {
        let mut rng = StdRng::seed_from_u64(1);
        // Weights of 1, 2 and 5 at temperature 2.
        let scores = [0.0, 2.0 * 2f32.ln(), 2.0 * 5f32.ln()];
        let mut counts = [0; 3];
        (0..8000).for_each(|_| counts[choose(&scores, 2.0, &mut rng)] += 1);
        for (count, expected) in counts.iter().zip([1000.0, 2000.0, 5000.0]) {
            // Four standard deviations of a binomial count are below 180.
            assert!((f64::from(*count) - expected).abs() < 180.0, "{counts:?}");
        }
        assert!((0..100).all(|_| choose(&scores, 0.0, &mut rng) == 2));
    }
}
