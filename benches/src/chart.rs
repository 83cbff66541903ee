//! The chart: for each family and peer, how many times faster Flex is, on a logarithmic axis.

use crate::report::{Report, Section};
use std::fmt::Write;

const LEFT: f64 = 245.0;
const WIDTH: f64 = 600.0;
const GAP: f64 = 10.0;
/// Legend entries per line, and the distance between entries.
const ENTRIES: usize = 6;
const ENTRY: f64 = 100.0;
const COLOURS: [&str; 9] =
    ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#999999", "#882255", "#44aa99"];
/// All possible ticks of the axis.
const TICKS: [f64; 15] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];

/// A logarithmic axis from a tick below the ratios to a tick above them.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn over(ratios: impl Iterator<Item = f64> + Clone) -> Self {
        let (low, high) = (ratios.clone().fold(0.5, f64::min), ratios.fold(10.0, f64::max));
        Self {
            low: TICKS.into_iter().rev().find(|&t| t <= low).unwrap_or(TICKS[0]),
            high: TICKS.into_iter().find(|&t| t >= high).unwrap_or(TICKS[14]),
        }
    }

    /// The x position of a ratio, clamped to the ends of the axis.
    fn x(&self, ratio: f64) -> f64 {
        let Self { low, high } = *self;
        LEFT + WIDTH * (ratio.clamp(low, high) / low).ln() / (high / low).ln()
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        TICKS.into_iter().filter(|t| (self.low..=self.high).contains(t))
    }
}

/// An SVG document. A bar is the geometric mean of a family, a dot is one case; right of the line at 1, Flex
/// is faster.
pub fn svg(report: &Report, section: &Section) -> String {
    let count = report.others().count();
    let families = section.families();
    let axis =
        Axis::over(section.rows.iter().flat_map(|row| report.others().filter_map(|(k, _)| row.ratio(k))));
    let bar = if count > 3 { 9.0 } else { 12.0 };
    let top = 28.0 + 18.0 * count.div_ceil(ENTRIES) as f64;
    let group = count as f64 * bar + GAP;
    let bottom = top + families.len() as f64 * group;
    let mut body = String::new();
    let mut out = |text: std::fmt::Arguments| body.write_fmt(text).expect("strings take all text");
    for (k, peer) in report.others() {
        let (column, line) = ((k - 1) % ENTRIES, (k - 1) / ENTRIES);
        let (x, y) = (LEFT + ENTRY * column as f64, 24.0 + 18.0 * line as f64);
        out(format_args!("<rect x='{x}' y='{y}' width='11' height='11' fill='{}'/>", colour(k)));
        out(format_args!("<text x='{}' y='{}'>{peer}</text>\n", x + 15.0, y + 10.0));
    }
    for tick in axis.ticks() {
        let (at, stroke) = (axis.x(tick), if tick == 1.0 { "#000" } else { "#ddd" });
        out(format_args!("<line x1='{at:.1}' x2='{at:.1}' y1='{top}' y2='{bottom}' stroke='{stroke}'/>"));
        out(format_args!("<text x='{at:.1}' y='{}' text-anchor='middle'>{tick}</text>\n", bottom + 15.0));
    }
    for (f, &family) in families.iter().enumerate() {
        let y = top + GAP / 2.0 + f as f64 * group;
        let middle = y + count as f64 * bar / 2.0 + 4.0;
        let label = family.label();
        out(format_args!("<text x='{}' y='{middle}' text-anchor='end'>{label}</text>\n", LEFT - 8.0));
        for (k, peer) in report.others() {
            let Some(summary) = section.summary(Some(family), k) else { continue };
            let y = y + (k - 1) as f64 * bar;
            let (one, mean) = (axis.x(1.0), axis.x(summary.mean));
            let (from, width, height) = (one.min(mean), (one - mean).abs(), bar - 2.0);
            out(format_args!(
                "<rect x='{from:.1}' y='{y:.1}' width='{width:.1}' height='{height}' fill='{}'>",
                colour(k)
            ));
            out(format_args!("<title>{label}, {peer}: {:.2}</title></rect>\n", summary.mean));
            for row in section.rows.iter().filter(|r| r.family == family) {
                let Some(ratio) = row.ratio(k) else { continue };
                let (cx, cy) = (axis.x(ratio), y + height / 2.0);
                out(format_args!(
                    "<circle cx='{cx:.1}' cy='{cy:.1}' r='1.8' fill='#000' fill-opacity='0.4'>"
                ));
                out(format_args!("<title>{}, {peer}: {ratio:.2}</title></circle>\n", row.name));
            }
        }
    }
    let (width, height) = (LEFT + WIDTH + 30.0, bottom + 44.0);
    let note = format!("peer's time / Flex's time (bar: geometric mean, dot: one case); {}", report.machine);
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='sans-serif' \
         font-size='12'>\n<rect width='{width}' height='{height}' fill='#fff'/>\n\
         <text x='{LEFT}' y='15' font-weight='bold' font-size='13'>How many times faster Flex is, {}</text>\n{body}\
         <text x='{}' y='{}' text-anchor='end' font-size='11'>{note}</text>\n</svg>\n",
        section.title(),
        LEFT + WIDTH,
        bottom + 34.0
    )
}

fn colour(k: usize) -> &'static str {
    COLOURS[(k - 1) % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn the_axis_holds_all_ratios_and_grows_to_the_right() {
        let axis = Axis::over([0.3, 30.0].into_iter());
        assert_eq!((axis.low, axis.high), (0.2, 50.0));
        assert!(axis.x(0.5) < axis.x(1.0) && axis.x(1.0) < axis.x(8.0));
        assert_eq!(axis.x(1e9), LEFT + WIDTH);
        assert_eq!(axis.ticks().count(), 8);
    }

    #[test]
    fn every_ratio_is_a_dot() {
        let report = sample();
        let svg = svg(&report, &report.sections[0]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
