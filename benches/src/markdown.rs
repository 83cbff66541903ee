//! The tables, in Markdown.

use crate::report::{Report, Section};

/// A table with text in the first column and numbers in the others.
pub(crate) fn table(heads: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> =
        (0..heads.len()).map(|k| if k == 0 { "---" } else { "---:" }.to_string()).collect();
    let body: String = rows.into_iter().map(|row| line(&row)).collect();
    line(&heads) + &line(&rule) + &body
}

pub(crate) fn first(head: &str, others: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(head.to_string()).chain(others).collect()
}

pub(crate) fn number(value: Option<f64>, scale: f64, digits: usize) -> String {
    value.map_or("-".to_string(), |v| format!("{:.digits$}", v * scale))
}

/// A ratio of medians with two significant digits, about its accuracy.
pub(crate) fn ratio(value: f64) -> String {
    let digits = [0.995, 9.95].iter().filter(|&&limit| value < limit).count();
    format!("{value:.digits$}")
}

/// The limits of the machine, as a list.
fn limits(section: &Section) -> String {
    let mut text = format!("* fused multiply-adds: {:.0} GFLOP/s\n", section.limits.flops / 1e9);
    for stream in &section.limits.streams {
        let plain = stream.plain / 1e9;
        text += &format!("* `c = a + b` over {} KiB: {plain:.0} GB/s", stream.footprint / 1024);
        if let Some(non_temporal) = stream.non_temporal {
            text += &format!(", with non-temporal stores {:.0} GB/s", non_temporal / 1e9);
        }
        text += "\n";
    }
    text
}

/// Microseconds per call, each peer's ratio to Flex, and the share of the limit that Flex reaches.
fn rows(report: &Report, section: &Section) -> String {
    let micros = report.peers.iter().map(|p| format!("{p} us"));
    let heads = first("op", micros.chain(ratios(report)).chain(["of limit".to_string()]));
    let cells = section.rows.iter().map(|row| {
        let micros = row.seconds.iter().map(|&s| number(s, 1e6, 2));
        let ratios = report.others().map(|(k, _)| number(row.ratio(k), 1.0, 2));
        let share = row.share().map_or("-".to_string(), |s| format!("{:.0} %", 100.0 * s));
        first(&row.name, micros.chain(ratios).chain([share]))
    });
    table(heads, cells)
}

fn ratios(report: &Report) -> impl Iterator<Item = String> {
    report.others().map(|(_, peer)| format!("{peer} / flex"))
}

/// Geometric means and worst rows of the families; empty without peers.
fn families(report: &Report, section: &Section) -> String {
    if report.peers.len() < 2 {
        return String::new();
    }
    let cells = section.families().into_iter().map(Some).chain([None]).map(|family| {
        let cells = report.others().map(|(k, _)| match section.summary(family, k) {
            Some(s) => format!("{} ({}: {})", ratio(s.mean), s.worst, ratio(s.lowest)),
            None => "-".to_string(),
        });
        first(family.map_or("all", |f| f.label()), cells)
    });
    table(first("family", ratios(report)), cells)
}

/// The full report: for each number of threads, the limits, all rows, and the families.
pub fn full(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    for section in &report.sections {
        let parts = [limits(section), rows(report, section), families(report, section)].join("\n");
        text += &format!("\n## {}\n\n{parts}", section.title());
    }
    text
}

/// The report for a README: the families for each number of threads, a chart of each, and links to the full
/// table and the JSON.
pub fn compact(report: &Report, [table, json]: [&str; 2], charts: &[String]) -> String {
    let mut text = format!(
        "{}. Each peer's time over that of Flex: geometric mean over the rows of a family, and the row that is worst for \
         Flex. [All {} rows]({table}), [as JSON]({json}).\n",
        report.machine,
        report.sections.first().map_or(0, |s| s.rows.len())
    );
    for (section, chart) in report.sections.iter().zip(charts) {
        let title = section.title();
        let families = families(report, section);
        text += &format!("\n**{title}**\n\n{families}\n![How many times faster Flex is, {title}]({chart})\n");
    }
    text
}

/// How much the sections of a report differ, which measured the same cases in one process each: for each peer
/// the fastest and the slowest median, and the slowest over the fastest.
pub fn processes(report: &Report) -> String {
    let heads = report.peers.iter().flat_map(|peer| [format!("{peer} us"), "slowest / fastest".into()]);
    let rows = report.sections.first().map_or(&[][..], |section| &section.rows[..]);
    let cells = rows.iter().enumerate().map(|(row, of)| {
        let spread = |peer: usize| {
            let medians = report.sections.iter().map(|section| section.rows[row].seconds[peer]);
            let mut medians = medians.collect::<Option<Vec<f64>>>()?;
            medians.sort_by(f64::total_cmp);
            Some((*medians.first()?, *medians.last()?))
        };
        let cells = (0..report.peers.len()).flat_map(|peer| match spread(peer) {
            Some((fastest, slowest)) => {
                [format!("{:.2} to {:.2}", fastest * 1e6, slowest * 1e6), format!("{:.2}", slowest / fastest)]
            }
            None => ["-".to_string(), "-".to_string()],
        });
        first(&of.name, cells)
    });
    table(first("op", heads), cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn the_full_table_holds_every_row() {
        let table = full(&sample());
        assert!(table.contains("## 2 threads"), "{table}");
        assert!(table.contains("| add_1 | 2000000.00 | 2000000.00 | 1.00 | 25 % |"), "{table}");
        assert!(table.contains("| add_2 | 1000000.00 | - | - | 50 % |"), "{table}");
        assert!(table.contains("| maths functions | 4.0 (exp_1: 4.0) |"), "{table}");
    }

    #[test]
    fn the_compact_table_holds_families_and_links() {
        let text = compact(&sample(), ["table.md", "run.json"], &["chart.svg".into()]);
        assert!(text.contains("[All 3 rows](table.md), [as JSON](run.json)"), "{text}");
        assert!(text.contains("| all | 2.0 (add_1: 1.0) |"), "{text}");
        assert!(text.contains("2 threads](chart.svg)"), "{text}");
        assert!(!text.contains("| add_2"), "{text}");
    }

    #[test]
    fn the_table_of_processes_tells_how_much_they_differ() {
        let (one, mut two) = (sample(), sample());
        two.sections[0].rows[0].seconds = vec![Some(1.5), Some(4.0)];
        let table = processes(&Report::merge(vec![one, two]).unwrap());
        assert!(
            table.contains("| exp_1 | 1000000.00 to 1500000.00 | 1.50 | 4000000.00 to 4000000.00 | 1.00 |"),
            "{table}"
        );
        assert!(table.contains("| add_2 | 1000000.00 to 1000000.00 | 1.00 | - | - |"), "{table}");
    }

    #[test]
    fn ratios_have_as_many_digits_as_they_are_worth() {
        assert_eq!([31.4, 9.96, 2.345, 0.999, 0.876].map(ratio), ["31", "10", "2.3", "1.0", "0.88"]);
    }
}
