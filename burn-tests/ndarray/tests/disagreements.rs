//! The suite's rows on `burn-ndarray`. If two backends that share no code agree with an oracle, that is
//! stronger evidence for the oracle than the agreement of one. For each disagreement of `burn-ndarray`,
//! `disagreements.txt` says why it happens and who is right. The list is checked both ways: a disagreement
//! that no entry describes fails, and so does an entry that describes no disagreement.
#![allow(missing_docs)]

use burn_backend::{BoolStore, FloatDType, IntDType};
use burn_ndarray::NdArray;
use burn_tests::row::Record;
use burn_tests::{Capabilities, run_all};

const DISAGREEMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/disagreements.txt");

/// Which side of a disagreement is right, or that `burn-ndarray` lacks the feature.
const VERDICTS: [&str; 4] = ["flex", "ndarray", "either", "missing"];

/// A kind of disagreement.
struct Entry<'a> {
    /// A family, a method, or `*` for all rows.
    rows: &'a str,
    /// A text that the report of such a failure contains.
    message: &'a str,
}

impl<'a> Entry<'a> {
    fn read(line: &'a str) -> Self {
        let mut words = line.splitn(4, " | ");
        let [rows, message, verdict, reason] =
            [(); 4].map(|()| words.next().unwrap_or_else(|| panic!("malformed: {line}")));
        assert!(VERDICTS.contains(&verdict) && !reason.is_empty(), "malformed: {line}");
        Entry { rows, message }
    }

    fn describes(&self, family: &str, record: &Record, failure: &str) -> bool {
        (self.rows == "*" || self.rows == family || record.methods.contains(&self.rows))
            && failure.contains(self.message)
    }
}

/// Some entries are of panics in builds that check arithmetic for overflow, as tests' are.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "the list is of builds with overflow checks")]
fn disagreements_are_those_of_the_list() {
    let mut capabilities = Capabilities::full();
    // `burn-ndarray` has no halves, and booleans of one store.
    capabilities.floats = vec![FloatDType::F32, FloatDType::F64];
    capabilities.bools = vec![BoolStore::Native];
    // The narrowest and the widest dtype show the ends of the range.
    capabilities.ints = vec![IntDType::I64, IntDType::I32, IntDType::I8, IntDType::U8];
    // Rows panic thousands of times, as expected, and the report has the messages. Other tests print theirs.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(burn_tests::THREAD) {
            print(panic);
        }
    }));
    let records = run_all::<NdArray>(&capabilities, |_, _| None);
    let text = std::fs::read_to_string(DISAGREEMENTS).expect("the list");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entries: Vec<Entry> = lines.map(Entry::read).collect();
    let mut met = vec![0; entries.len()];
    let (mut disagree, mut report) = (0, Vec::new());
    for (family, record) in &records {
        disagree += usize::from(!record.failures.is_empty());
        let mut others = record.failures.iter().filter(|failure| {
            let entry = entries.iter().position(|entry| entry.describes(family, record, failure));
            entry.inspect(|&entry| met[entry] += 1).is_none()
        });
        if let Some(first) = others.next() {
            let names = record.methods.join(" ");
            report.push(format!("{family}: {names}: {first} (and {} more)", others.count()));
        }
    }
    for (entry, met) in entries.iter().zip(met) {
        println!("{met} times: {} | {}", entry.rows, entry.message);
        if met == 0 {
            report.push(format!("listed, but does not happen: {} | {}", entry.rows, entry.message));
        }
    }
    println!("{} rows, of which {disagree} disagree somewhere", records.len());
    assert!(report.is_empty(), "\n{}\n", report.join("\n"));
}
