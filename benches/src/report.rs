//! The measurements of a run, and the summary of each family.

use crate::cases::Family;
use crate::limits::Limits;
use serde::{Deserialize, Serialize};

/// The medians of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the case.
    pub name: String,
    /// The case's family.
    pub family: Family,
    /// Least number of seconds that the machine's limits allow; 0 if no limit was stated.
    pub limit: f64,
    /// Median seconds per call, in the order of the peers; `None` if a peer cannot run the case.
    pub seconds: Vec<Option<f64>>,
    /// What the peers say about how they ran the case, in the same order; empty if none says anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Option<String>>,
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

/// The cases on one number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Threads of every peer.
    pub threads: usize,
    /// The limits of the machine on this many threads.
    pub limits: Limits,
    /// The cases.
    pub rows: Vec<Row>,
}

/// A run of the harness. Its JSON has these fields; times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Processor and instruction set.
    pub machine: String,
    /// Names of the peers, Flex first.
    pub peers: Vec<String>,
    /// One section per number of threads.
    pub sections: Vec<Section>,
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

impl Section {
    /// The families that occur, in the order of `Family`.
    pub fn families(&self) -> Vec<Family> {
        let mut families: Vec<Family> = self.rows.iter().map(|r| r.family).collect();
        families.sort();
        families.dedup();
        families
    }

    /// Ratios of peer `k` in one family or (`None`) in all families; `None` if the peer runs none of the
    /// cases.
    pub fn summary(&self, family: Option<Family>, k: usize) -> Option<Summary> {
        let rows = self.rows.iter().filter(|r| family.is_none_or(|f| f == r.family));
        let ratios: Vec<(&Row, f64)> = rows.filter_map(|r| Some((r, r.ratio(k)?))).collect();
        let (worst, lowest) = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let mean = (ratios.iter().map(|(_, r)| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        Some(Summary { mean, worst: worst.name.clone(), lowest: *lowest })
    }

    /// `1 thread`, `2 threads`.
    pub fn title(&self) -> String {
        format!("{} thread{}", self.threads, if self.threads == 1 { "" } else { "s" })
    }
}

impl Report {
    /// Combines the sections of several runs with the same peers on the same machine into one report.
    ///
    /// # Errors
    /// Fails if there is no run, or the runs had different peers or machines.
    pub fn merge(reports: Vec<Self>) -> Result<Self, String> {
        let mut reports = reports.into_iter();
        let mut whole = reports.next().ok_or("there is nothing to report")?;
        for report in reports {
            if report.peers != whole.peers {
                return Err(format!("runs of different peers: {:?} and {:?}", whole.peers, report.peers));
            }
            if report.machine != whole.machine {
                let machines = [whole.machine, report.machine];
                return Err(format!("runs on different machines, which need a report each: {machines:?}"));
            }
            whole.sections.extend(report.sections);
        }
        Ok(whole)
    }

    /// Names of files for the sections' charts: sections on the same number of threads are numbered.
    pub fn charts(&self) -> Vec<String> {
        let name = |(k, section): (usize, &Section)| {
            let threads = section.threads;
            match self.sections[..k].iter().filter(|before| before.threads == threads).count() {
                0 => format!("threads-{threads}.svg"),
                before => format!("threads-{threads}-{}.svg", before + 1),
            }
        };
        self.sections.iter().enumerate().map(name).collect()
    }

    /// Peers that Flex is compared with, each with its column.
    pub fn others(&self) -> impl Iterator<Item = (usize, &str)> + Clone {
        self.peers.iter().map(String::as_str).enumerate().skip(1)
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
            notes: Vec::new(),
        };
        let streams = vec![Stream { footprint: 4096, plain: 1e9, non_temporal: None }];
        let rows = vec![
            row("exp_1", Family::Maths, 1.0, Some(4.0)),
            row("add_1", Family::Simple, 2.0, Some(2.0)),
            row("add_2", Family::Simple, 1.0, None),
        ];
        Report {
            machine: "a machine".into(),
            peers: vec!["flex".into(), "peer".into()],
            sections: vec![Section { threads: 2, limits: Limits { streams, flops: 1e9 }, rows }],
        }
    }

    #[test]
    fn ratios_are_relative_to_the_first_peer() {
        let section = &sample().sections[0];
        let all = section.summary(None, 1).unwrap();
        assert_eq!((all.worst.as_str(), all.lowest), ("add_1", 1.0));
        assert!((all.mean - 2.0).abs() < 1e-12);
        assert_eq!(section.summary(Some(Family::Maths), 1).unwrap().mean, 4.0);
        assert_eq!(section.summary(Some(Family::Norm), 1), None);
        assert_eq!(section.rows[2].ratio(1), None);
        assert_eq!(section.rows[1].share(), Some(0.25));
    }

    #[test]
    fn json_holds_every_row_and_comes_back() {
        let report = sample();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["sections"][0]["threads"], 2);
        assert_eq!(json["sections"][0]["rows"][0]["seconds"][1], 4.0);
        assert_eq!(json["sections"][0]["rows"][0]["family"], "maths");
        assert!(json["sections"][0]["rows"][2]["seconds"][1].is_null());
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }

    #[test]
    fn runs_of_the_same_peers_become_one_report() {
        let one = sample();
        assert_eq!(Report::merge(vec![one.clone(), one.clone()]).unwrap().sections.len(), 2);
        let other = Report { peers: vec!["flex".into()], ..one.clone() };
        assert!(Report::merge(vec![one.clone(), other]).is_err());
        let other = Report { machine: "another".into(), ..one.clone() };
        assert!(Report::merge(vec![one, other]).unwrap_err().contains("[\"a machine\", \"another\"]"));
        assert!(Report::merge(vec![]).is_err());
    }

    #[test]
    fn each_section_has_a_chart_of_its_own() {
        let mut report = sample();
        let two = report.sections[0].clone();
        report.sections.extend([Section { threads: 1, ..two.clone() }, two]);
        assert_eq!(report.charts(), ["threads-2.svg", "threads-1.svg", "threads-2-2.svg"]);
    }
}
