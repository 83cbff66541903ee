//! The table.

/// The medians of one case.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the case.
    pub name: String,
    /// Median seconds per call, in the order of the peers; `None` where a peer cannot run the case.
    pub seconds: Vec<Option<f64>>,
}

impl Row {
    /// Time of peer `k` over the time of the first peer: above one, the first peer is faster.
    pub fn ratio(&self, k: usize) -> Option<f64> {
        Some((*self.seconds.get(k)?)? / self.seconds[0]?)
    }
}

/// Prints microseconds per call and each peer's ratio to the first.
pub fn print_table(peers: &[&str], rows: &[Row]) {
    print!("| op |");
    peers.iter().for_each(|p| print!(" {p} us |"));
    peers[1..].iter().for_each(|p| print!(" {p} / {} |", peers[0]));
    print!("\n| --- |");
    (0..2 * peers.len() - 1).for_each(|_| print!(" ---: |"));
    println!();
    for row in rows {
        print!("| {} |", row.name);
        for seconds in &row.seconds {
            match seconds {
                Some(s) => print!(" {:.1} |", s * 1e6),
                None => print!(" - |"),
            }
        }
        for k in 1..peers.len() {
            match row.ratio(k) {
                Some(r) => print!(" {r:.2} |"),
                None => print!(" - |"),
            }
        }
        println!();
    }
}

/// The row with the lowest ratio of peer `k`, and the geometric mean of its ratios.
pub fn worst_and_mean(rows: &[Row], k: usize) -> Option<(&Row, f64)> {
    let ratios: Vec<(&Row, f64)> = rows.iter().filter_map(|r| Some((r, r.ratio(k)?))).collect();
    let worst = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.0;
    let mean = (ratios.iter().map(|(_, r)| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
    Some((worst, mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_relative_to_the_first_peer() {
        let row = |a, b| Row { name: "x".into(), seconds: vec![Some(a), b] };
        let rows = [row(1.0, Some(4.0)), row(2.0, Some(2.0)), row(1.0, None)];
        let (worst, mean) = worst_and_mean(&rows, 1).unwrap();
        assert_eq!(worst.ratio(1), Some(1.0));
        assert!((mean - 2.0).abs() < 1e-12);
        assert_eq!(rows[2].ratio(1), None);
    }
}
