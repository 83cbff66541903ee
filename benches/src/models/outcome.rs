//! What a run over models measured, and its tables.

use super::{Workload, workloads};
use crate::markdown::{first, number, ratio, table};
use crate::report::{Report, Row, Section};
use serde::{Deserialize, Serialize};

/// Largest difference of a peer's result from Flex's that counts as rounding, relative to the largest element
/// of the result. Each peer sums up to 4,608 terms in an order of its own, through up to 53 layers one after
/// the other. The largest differences that were measured are 1e-6, and 2e-5 for the losses of ResNet-18's
/// first steps, which steps amplify. Mistakes make more: tanh in the place of erf in MiniLM's gelu 3e-4, 1e-5
/// in the place of 1e-12 in its norms 1.7e-4, PyTorch's epsilon in the place of Burn's in Adam 8e-4 (the
/// transformer's losses).
pub const TOLERANCE: f64 = 1e-4;

/// A run over models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Times; a section for each number of threads.
    pub report: Report,
    /// Whether the times are those of each peer's fastest turn, and no medians.
    pub fastest: bool,
    /// Results compared with Flex's.
    pub differences: Vec<Difference>,
    /// Peak memory, if it was measured.
    pub memory: Vec<Memory>,
    /// Times of the parts, if they were measured.
    pub parts: Option<Report>,
}

/// How far the peers' results of a model are from Flex's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Name of the case.
    pub name: String,
    /// For each peer, Flex first, the largest difference of an element, relative to the largest element;
    /// `None` if the peer has no result.
    pub relative: Vec<Option<f64>>,
}

/// Resident memory of processes that each run one model on one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Name of the case.
    pub name: String,
    /// For each peer, Flex first, the peak in bytes before the model was loaded, and the peak at the end.
    pub peaks: Vec<Option<[u64; 2]>>,
}

impl Outcome {
    /// The results that differ by more than [`TOLERANCE`], and those that were timed and never compared, as
    /// text.
    pub fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        for Difference { name, relative } in &self.differences {
            for (k, (peer, difference)) in self.report.peers.iter().zip(relative).enumerate() {
                match difference {
                    Some(d) if *d > TOLERANCE || d.is_nan() => {
                        found.push(format!("{name}: {peer} differs by {}", scientific(*difference)));
                    }
                    None if self.is_timed(name, k) => {
                        found.push(format!("{name}: {peer} was timed and has no result to compare"));
                    }
                    _ => (),
                }
            }
        }
        found
    }

    /// Whether there is a time of the case on peer `k`.
    fn is_timed(&self, name: &str, k: usize) -> bool {
        let rows = self.report.sections.iter().flat_map(|section| &section.rows);
        rows.filter(|row| row.name == name).any(|row| row.seconds.get(k).is_some_and(Option::is_some))
    }

    /// All tables, in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n", self.report.machine);
        for section in &self.report.sections {
            text += &format!("\n## {}\n\n{}", section.title(), self.times(section));
        }
        if !self.differences.is_empty() {
            text += &format!("\n## Values\n\n{}", self.values());
        }
        if !self.memory.is_empty() {
            text += &format!("\n## Memory\n\n{}", self.peaks());
        }
        for section in self.parts.iter().flat_map(|parts| &parts.sections) {
            text += &self.parts(section);
        }
        text
    }

    /// The peers that are no other release of Flex's kind: those whose fastest Flex is measured by.
    /// Upstream's, if there are none.
    fn rivals(peers: &[String]) -> Vec<usize> {
        let others: Vec<usize> = (1..peers.len()).collect();
        let foreign: Vec<usize> = others.iter().copied().filter(|&k| peers[k] != "upstream").collect();
        if foreign.is_empty() { others } else { foreign }
    }

    fn times(&self, section: &Section) -> String {
        let peers = &self.report.peers;
        let rivals = Self::rivals(peers);
        let heads = peers.iter().map(|p| format!("{p} ms")).chain([best(peers, &rivals), "of peak".into()]);
        let rows = section.rows.iter().map(|row| {
            let times = row.seconds.iter().map(|&s| milliseconds(s));
            first(
                label(&row.name),
                times.chain([fastest(row, &rivals).map_or("-".into(), ratio), share(row)]),
            )
        });
        let notes = section.rows.iter().flat_map(|row| {
            let of_peers = peers.iter().zip(&row.notes);
            of_peers
                .filter_map(move |(peer, note)| Some(format!("{peer} on {}: {}", row.name, note.as_ref()?)))
        });
        let notes: Vec<String> = notes.collect();
        let mut text = table(first("model", heads), rows);
        text += &format!(
            "\n{}. The peak of fused multiply-adds is {:.0} GFLOP/s; the last column is Flex's share of it, over convolutions, \
             products and attention.\n",
            if self.fastest { "Fastest turns" } else { "Medians" },
            section.limits.flops / 1e9
        );
        if !notes.is_empty() {
            text += &format!("Fastest variants: {}.\n", notes.join("; "));
        }
        text
    }

    fn values(&self) -> String {
        let heads = self.report.others().map(|(_, peer)| peer.to_string());
        let rows = self.differences.iter().map(|Difference { name, relative }| {
            first(label(name), relative.iter().skip(1).map(|&d| scientific(d)))
        });
        let explanation = "\nThe largest difference of an element from Flex's, relative to the largest element; of training steps, \
                           of the losses of the first steps.\n";
        table(first("model", heads), rows) + explanation
    }

    fn peaks(&self) -> String {
        let heads = self.report.peers.iter().map(|peer| format!("{peer} MB"));
        let rows = self.memory.iter().map(|Memory { name, peaks }| {
            first(label(name), peaks.iter().map(|peak| number(peak.map(|[_, peak]| peak as f64), 1e-6, 0)))
        });
        let before = self.report.peers.iter().enumerate().filter_map(|(k, peer)| {
            let smallest = self
                .memory
                .iter()
                .filter_map(|memory| memory.peaks.get(k).copied()?)
                .map(|[before, _]| before);
            Some(format!("{peer} {:.0} MB", smallest.min()? as f64 / 1e6))
        });
        let before: Vec<String> = before.collect();
        format!(
            "{}\nPeak resident memory of a process that loads one model and runs it a few times, pages of mapped files included. \
             Before the model is loaded: {}.\n",
            table(first("model", heads), rows),
            before.join(", ")
        )
    }

    /// A table for each model whose parts were measured.
    fn parts(&self, section: &Section) -> String {
        let Some(Report { peers, .. }) = &self.parts else { return String::new() };
        let measured: Vec<&str> =
            self.report.sections.iter().flat_map(|s| &s.rows).map(|row| &*row.name).collect();
        let workloads = workloads().into_iter().filter(|workload| measured.contains(&workload.name));
        let tables = workloads.map(|workload| {
            let title = format!("\n## Parts of {}, {}\n\n", workload.label, section.title());
            title + &self.parts_of(&workload, peers, section)
        });
        tables.collect()
    }

    fn parts_of(&self, workload: &Workload, peers: &[String], section: &Section) -> String {
        let rivals = Self::rivals(peers);
        let heads = ["times".to_string(), "GFLOP".into(), "flex us".into()];
        let heads = heads.into_iter().chain(peers.iter().map(|peer| format!("{peer} GFLOP/s")));
        let heads = heads.chain([best(peers, &rivals), "of peak".into()]);
        let mut sums = vec![Some(0.0); peers.len()];
        let mut rows = Vec::new();
        for (part, times) in workload.parts() {
            let Some(row) = section.rows.iter().find(|row| row.name == part.name()) else { continue };
            for (sum, &seconds) in sums.iter_mut().zip(&row.seconds) {
                *sum = sum.zip(seconds).map(|(sum, seconds)| sum + times as f64 * seconds);
            }
            let flops = part.flops() as f64;
            let cells = [times.to_string(), format!("{:.3}", flops / 1e9), number(row.seconds[0], 1e6, 1)];
            let speeds = row.seconds.iter().map(|s| number(s.map(|s| flops / s), 1e-9, 0));
            let best = fastest(row, &rivals).map_or("-".into(), ratio);
            rows.push(first(&row.name, cells.into_iter().chain(speeds).chain([best, share(row)])));
        }
        let sums = peers.iter().zip(sums).map(|(peer, sum)| format!("{peer} {}", milliseconds(sum)));
        let sums: Vec<String> = sums.collect();
        let whole = self.report.sections.iter().find(|s| s.threads == section.threads);
        let whole = whole.and_then(|s| s.rows.iter().find(|row| row.name == workload.name));
        let mut text = table(first("part", heads), rows);
        text += &format!("\nMilliseconds of all parts, each as often as it occurs: {}.", sums.join(", "));
        if let Some(row) = whole {
            let times = self.report.peers.iter().zip(&row.seconds);
            let times: Vec<String> = times.map(|(peer, &s)| format!("{peer} {}", milliseconds(s))).collect();
            text += &format!(" The whole model: {}.", times.join(", "));
        }
        text + "\n"
    }
}

fn label(name: &str) -> &str {
    workloads().iter().find(|workload| workload.name == name).map_or(name, |workload| workload.label)
}

/// The head of a column of ratios.
fn best(peers: &[String], rivals: &[usize]) -> String {
    match rivals {
        [] => "-".into(),
        [one] => format!("{} / flex", peers[*one]),
        _ => {
            let names: Vec<&str> = rivals.iter().map(|&k| &*peers[k]).collect();
            format!("faster of {} / flex", names.join(", "))
        }
    }
}

/// The lowest of the rivals' ratios.
fn fastest(row: &Row, rivals: &[usize]) -> Option<f64> {
    rivals.iter().filter_map(|&k| row.ratio(k)).min_by(f64::total_cmp)
}

fn share(row: &Row) -> String {
    row.share().map_or("-".into(), |share| format!("{:.0} %", 100.0 * share))
}

/// Milliseconds with three significant digits, about their accuracy.
fn milliseconds(seconds: Option<f64>) -> String {
    let digits =
        seconds.map_or(0, |s| [0.01, 0.1].iter().filter(|&&limit| s < limit).count() + (s < 1e-3) as usize);
    number(seconds, 1e3, digits)
}

fn scientific(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.0e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Family;
    use crate::limits::Limits;

    fn sample(peers: &[&str], seconds: &[Option<f64>]) -> Outcome {
        let row = |name: &str, limit| Row {
            name: name.into(),
            family: Family::Models,
            limit,
            seconds: seconds.to_vec(),
            notes: vec![None; peers.len()],
        };
        let limits = Limits { streams: vec![], flops: 4e11 };
        let report = |rows| Report {
            machine: "a machine".into(),
            peers: peers.iter().map(|p| p.to_string()).collect(),
            sections: vec![Section { threads: 2, limits: limits.clone(), rows }],
        };
        let parts = workloads().iter().find(|w| w.name == "lstm_b8").unwrap().parts();
        let parts: Vec<Row> = parts.iter().map(|(part, _)| row(&part.name(), 0.0)).collect();
        Outcome {
            report: report(vec![row("lstm_b8", 0.05)]),
            fastest: false,
            differences: vec![Difference { name: "lstm_b8".into(), relative: vec![Some(0.0); peers.len()] }],
            memory: vec![],
            parts: Some(report(parts)),
        }
    }

    #[test]
    fn the_ratio_is_that_of_the_fastest_foreign_peer() {
        let peers = ["flex", "upstream", "torch", "onnx"];
        let text = sample(&peers, &[Some(0.1), Some(0.05), Some(0.2), Some(0.15)]).markdown();
        assert!(text.contains("| 100 | 50.0 | 200 | 150 | 1.5 | 50 % |"), "{text}");
        let text = sample(&peers, &[Some(0.1), Some(0.05), Some(0.2), None]).markdown();
        assert!(text.contains("| 100 | 50.0 | 200 | - | 2.0 | 50 % |"), "{text}");
        let text = sample(&peers[..2], &[Some(0.1), Some(0.05)]).markdown();
        assert!(text.contains("upstream / flex") && text.contains("| 100 | 50.0 | 0.50 | 50 % |"), "{text}");
        let text = sample(&peers[..1], &[Some(0.1)]).markdown();
        assert!(text.contains("| 100 | - | 50 % |"), "{text}");
    }

    #[test]
    fn parts_add_up_as_often_as_they_occur() {
        let text = sample(&["flex", "torch"], &[Some(1e-5), None]).markdown();
        // 1,024 products of 10 us, each of 2 * 8 * 256 * 256 operations.
        assert!(text.contains("all parts, each as often as it occurs: flex 10.2, torch -."), "{text}");
        assert!(text.contains("| linear_8x256x256 | 1024 | 0.001 | 10.0 | 105 | - | - | - |"), "{text}");
    }

    #[test]
    fn memory_is_told_beside_what_a_process_has_anyway() {
        let peaks = |before, peak| Some([before, peak]);
        let mut outcome = sample(&["flex", "torch"], &[Some(1.0), Some(1.0)]);
        outcome.memory = vec![
            Memory { name: "lstm_b8".into(), peaks: vec![peaks(5_000_000, 20_000_000), None] },
            Memory {
                name: "mlp_train".into(),
                peaks: vec![peaks(6_000_000, 7_000_000), peaks(300_000_000, 400_000_000)],
            },
        ];
        let text = outcome.markdown();
        assert!(text.contains("| 20 | - |") && text.contains("| 7 | 400 |"), "{text}");
        assert!(text.contains("Before the model is loaded: flex 5 MB, torch 300 MB."), "{text}");
    }

    #[test]
    fn results_that_are_far_apart_are_named() {
        let mut outcome = sample(&["flex", "upstream", "torch", "onnx"], &[Some(1.0); 4]);
        assert_eq!(outcome.disagreements(), Vec::<String>::new());
        outcome.differences[0].relative = vec![Some(0.0), Some(TOLERANCE), Some(0.5), Some(f64::NAN)];
        assert_eq!(
            outcome.disagreements(),
            ["lstm_b8: torch differs by 5e-1", "lstm_b8: onnx differs by NaN"]
        );
        outcome.differences[0].relative = vec![Some(0.0), Some(0.0), None, None];
        outcome.report.sections[0].rows[0].seconds[3] = None;
        assert_eq!(outcome.disagreements(), ["lstm_b8: torch was timed and has no result to compare"]);
    }
}
