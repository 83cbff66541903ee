//! What a run found: the table, a summary of each family, JSON.

use crate::cases::Family;
use crate::limits::Limits;
use serde_json::{Value, json};

/// The medians of one case.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the case.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// Fewest seconds that the machine's limits allow, 0 when no limit was stated.
    pub limit: f64,
    /// Median seconds per call, in the order of the peers; `None` where a peer cannot run the case.
    pub seconds: Vec<Option<f64>>,
}

impl Row {
    /// Time of peer `k` over the time of the first peer: above one, the first peer is faster.
    pub fn ratio(&self, k: usize) -> Option<f64> {
        Some((*self.seconds.get(k)?)? / self.seconds[0]?)
    }

    /// Share of the limit that the first peer reaches.
    pub fn share(&self) -> Option<f64> {
        (self.limit > 0.0).then_some(self.limit / self.seconds[0]?)
    }
}

/// A run of the harness.
#[derive(Clone, Debug)]
pub struct Report {
    /// Processor and instruction set.
    pub machine: String,
    /// Threads of every peer.
    pub threads: usize,
    /// What the machine can do.
    pub limits: Limits,
    /// Names of the peers, Flex first.
    pub peers: Vec<String>,
    /// The cases.
    pub rows: Vec<Row>,
}

/// A peer's ratios over the cases of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Geometric mean.
    pub mean: f64,
    /// Case of the lowest ratio.
    pub worst: String,
    /// The lowest ratio.
    pub lowest: f64,
}

impl Report {
    /// Families that occur, in their order.
    pub fn families(&self) -> Vec<Family> {
        let mut families: Vec<Family> = self.rows.iter().map(|r| r.family).collect();
        families.sort();
        families.dedup();
        families
    }

    /// Ratios of peer `k` in one family or (`None`) in all; nothing when the peer runs none of the cases.
    pub fn summary(&self, family: Option<Family>, k: usize) -> Option<Summary> {
        let rows = self.rows.iter().filter(|r| family.is_none_or(|f| f == r.family));
        let ratios: Vec<(&Row, f64)> = rows.filter_map(|r| Some((r, r.ratio(k)?))).collect();
        let (worst, lowest) = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let mean = (ratios.iter().map(|(_, r)| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        Some(Summary { mean, worst: worst.name.clone(), lowest: *lowest })
    }

    /// Markdown: the limits, microseconds per call with each peer's ratio to Flex, and the families.
    pub fn table(&self) -> String {
        let mut text = format!("{}, {} threads\n\n", self.machine, self.threads);
        text += &format!("* fused multiply-adds: {:.0} GFLOP/s\n", self.limits.flops / 1e9);
        for stream in &self.limits.streams {
            let plain = stream.plain / 1e9;
            text += &format!("* `c = a + b` over {} KiB: {plain:.0} GB/s", stream.footprint / 1024);
            if let Some(non_temporal) = stream.non_temporal {
                text += &format!(", with non-temporal stores {:.0} GB/s", non_temporal / 1e9);
            }
            text += "\n";
        }
        let mut line = |cells: Vec<String>| text += &format!("| {} |\n", cells.join(" | "));
        let ratios = || self.peers[1..].iter().map(|p| format!("{p} / flex"));
        let count = 2 * self.peers.len();
        line(vec![]);
        line(
            ["op".to_string()]
                .into_iter()
                .chain(self.peers.iter().map(|p| format!("{p} us")))
                .chain(ratios())
                .chain(["of limit".to_string()])
                .collect(),
        );
        line(["---".to_string()].into_iter().chain((0..count).map(|_| "---:".to_string())).collect());
        let number = |value: Option<f64>, scale: f64, digits: usize| {
            value.map_or("-".to_string(), |v| format!("{:.digits$}", v * scale))
        };
        for row in &self.rows {
            let micros = row.seconds.iter().map(|&s| number(s, 1e6, 2));
            let ratios = (1..self.peers.len()).map(|k| number(row.ratio(k), 1.0, 2));
            let share = row.share().map_or("-".to_string(), |s| format!("{:.0} %", 100.0 * s));
            line([row.name.clone()].into_iter().chain(micros).chain(ratios).chain([share]).collect());
        }
        line(vec![]);
        line(["family".to_string()].into_iter().chain(ratios()).collect());
        line(["---"].into_iter().chain((1..self.peers.len()).map(|_| "---:")).map(String::from).collect());
        for family in self.families().into_iter().map(Some).chain([None]) {
            let name = family.map_or("all".to_string(), |f| format!("{f:?}").to_lowercase());
            let cells = (1..self.peers.len()).map(|k| match self.summary(family, k) {
                Some(s) => format!("{:.2} (worst {:.2}, {})", s.mean, s.lowest, s.worst),
                None => "-".to_string(),
            });
            line([name].into_iter().chain(cells).collect());
        }
        // `line(vec![])` above made rows without cells: they separate the tables.
        text.replace("|  |\n", "\n")
    }

    /// Everything, for other programs. Times are seconds.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let seconds: serde_json::Map<String, Value> =
                self.peers.iter().cloned().zip(row.seconds.iter().map(|&s| json!(s))).collect();
            let family = format!("{:?}", row.family).to_lowercase();
            json!({ "name": row.name, "family": family, "seconds": seconds, "limit_seconds": row.limit })
        });
        let streams = self
            .limits
            .streams
            .iter()
            .map(|s| json!({ "bytes": s.footprint, "plain": s.plain, "non_temporal": s.non_temporal }));
        json!({
            "machine": self.machine,
            "threads": self.threads,
            "limits": { "flops": self.limits.flops, "bytes_per_second": streams.collect::<Vec<_>>() },
            "peers": self.peers,
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::limits::Stream;

    pub(crate) fn sample() -> Report {
        let row = |name: &str, family, a, b| Row {
            name: name.into(),
            family,
            limit: 0.5,
            seconds: vec![Some(a), b],
        };
        let streams = vec![Stream { footprint: 4096, plain: 1e9, non_temporal: None }];
        Report {
            machine: "a machine".into(),
            threads: 2,
            limits: Limits { streams, flops: 1e9 },
            peers: vec!["flex".into(), "peer".into()],
            rows: vec![
                row("exp_1", Family::Maths, 1.0, Some(4.0)),
                row("add_1", Family::Simple, 2.0, Some(2.0)),
                row("add_2", Family::Simple, 1.0, None),
            ],
        }
    }

    #[test]
    fn ratios_are_relative_to_the_first_peer() {
        let report = sample();
        let all = report.summary(None, 1).unwrap();
        assert_eq!((all.worst.as_str(), all.lowest), ("add_1", 1.0));
        assert!((all.mean - 2.0).abs() < 1e-12);
        assert_eq!(report.summary(Some(Family::Maths), 1).unwrap().mean, 4.0);
        assert_eq!(report.summary(Some(Family::Norm), 1), None);
        assert_eq!(report.rows[2].ratio(1), None);
        assert_eq!(report.rows[1].share(), Some(0.25));
    }

    #[test]
    fn table_and_json_hold_every_row() {
        let report = sample();
        let (table, json) = (report.table(), report.json());
        assert!(table.contains("| add_1 | 2000000.00 | 2000000.00 | 1.00 | 25 % |"), "{table}");
        assert!(table.contains("| maths | 4.00 (worst 4.00, exp_1) |"), "{table}");
        assert_eq!(json["rows"][0]["seconds"]["peer"], 4.0);
        assert!(json["rows"][2]["seconds"]["peer"].is_null());
    }
}
