//! Memory of this process.

use std::fs;

/// The most bytes that this process had in memory, by Linux's account; `None` on other systems.
pub fn peak() -> Option<u64> {
    of_status(&fs::read_to_string("/proc/self/status").ok()?)
}

fn of_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_in_bytes() {
        assert_eq!(of_status("VmPeak:\t 9 kB\nVmHWM:\t   12 kB\nVmRSS:\t 3 kB\n"), Some(12 * 1024));
        assert_eq!(of_status("VmRSS:\t 3 kB\n"), None);
    }
}
