//! The chart: for each family and peer, how many times faster Flex is, on a logarithmic axis.

use crate::report::Report;
use std::fmt::Write;

const LEFT: f64 = 90.0;
const WIDTH: f64 = 640.0;
const BAR: f64 = 12.0;
const GAP: f64 = 10.0;
const TOP: f64 = 46.0;
/// The axis runs from a quarter to a hundred.
const RANGE: (f64, f64) = (0.25, 100.0);
const COLOURS: [&str; 5] = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#aa3377"];

fn x(ratio: f64) -> f64 {
    let (low, high) = RANGE;
    LEFT + WIDTH * (ratio.clamp(low, high) / low).ln() / (high / low).ln()
}

/// An SVG document. A bar is a geometric mean; a dot is one case; right of the line at 1, Flex is faster.
pub fn svg(report: &Report) -> String {
    let peers = &report.peers[1..];
    let families = report.families();
    let group = peers.len() as f64 * BAR + GAP;
    let bottom = TOP + families.len() as f64 * group;
    let mut body = String::new();
    let mut out = |text: std::fmt::Arguments| body.write_fmt(text).expect("strings take all text");
    for (k, peer) in peers.iter().enumerate() {
        let (at, colour) = (LEFT + 110.0 * k as f64, COLOURS[k % COLOURS.len()]);
        out(format_args!("<rect x='{at}' y='24' width='10' height='10' fill='{colour}'/>"));
        out(format_args!("<text x='{}' y='33'>{peer}</text>\n", at + 14.0));
    }
    for tick in [0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
        let (at, stroke) = (x(tick), if tick == 1.0 { "#000" } else { "#ddd" });
        out(format_args!("<line x1='{at:.1}' x2='{at:.1}' y1='{TOP}' y2='{bottom}' stroke='{stroke}'/>"));
        out(format_args!("<text x='{at:.1}' y='{}' text-anchor='middle'>{tick}</text>\n", bottom + 14.0));
    }
    for (f, &family) in families.iter().enumerate() {
        let y = TOP + GAP / 2.0 + f as f64 * group;
        let middle = y + peers.len() as f64 * BAR / 2.0 + 4.0;
        let name = format!("{family:?}").to_lowercase();
        out(format_args!("<text x='{}' y='{middle}' text-anchor='end'>{name}</text>\n", LEFT - 8.0));
        for k in 1..=peers.len() {
            let Some(summary) = report.summary(Some(family), k) else { continue };
            let (colour, y) = (COLOURS[(k - 1) % COLOURS.len()], y + (k - 1) as f64 * BAR);
            let (from, to) = (x(1.0).min(x(summary.mean)), x(1.0).max(x(summary.mean)));
            let (width, height) = (to - from, BAR - 2.0);
            out(format_args!(
                "<rect x='{from:.1}' y='{y:.1}' width='{width:.1}' height='{height}' fill='{colour}'>"
            ));
            out(format_args!("<title>{name}: {:.2}</title></rect>\n", summary.mean));
            for row in report.rows.iter().filter(|r| r.family == family) {
                let Some(ratio) = row.ratio(k) else { continue };
                let (cx, cy) = (x(ratio), y + height / 2.0);
                out(format_args!("<circle cx='{cx:.1}' cy='{cy:.1}' r='2' fill='#000' fill-opacity='0.45'>"));
                out(format_args!("<title>{}: {ratio:.2}</title></circle>\n", row.name));
            }
        }
    }
    let (width, height) = (LEFT + WIDTH + 30.0, bottom + 40.0);
    let note =
        format!("peer's time / Flex's time (log scale); {}, {} threads", report.machine, report.threads);
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='sans-serif' \
         font-size='11'>\n<rect width='{width}' height='{height}' fill='#fff'/>\n\
         <text x='{LEFT}' y='14' font-weight='bold'>How many times faster Flex is</text>\n{body}\
         <text x='{LEFT}' y='{}'>{note}</text>\n</svg>\n",
        bottom + 32.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn ratios_above_one_lie_to_the_right() {
        assert!(x(0.5) < x(1.0) && x(1.0) < x(8.0));
        assert_eq!(x(1e9), LEFT + WIDTH);
        let svg = svg(&sample());
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
