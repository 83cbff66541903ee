//! The memory that this process may use.

use std::string::String;

/// The memory that this process may use, in bytes: the least of the machine's memory, the limits of its
/// control groups (as containers set them) and its own limits (`ulimit -v` and `-d`). `None` where the system
/// does not tell, as outside of Linux.
pub(super) fn memory() -> Option<u64> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return None;
    }
    memory_by(&|path| std::fs::read_to_string(path).ok())
}

/// [`memory`] of the system whose files `read` returns.
fn memory_by(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let mut least = None;
    let mut limit = |bytes: Option<u64>| {
        if let Some(bytes) = bytes {
            least = Some(least.map_or(bytes, |least: u64| least.min(bytes)));
        }
    };
    for_each_line(read("/proc/meminfo"), &mut |line| {
        // `MemTotal:       24576 kB`
        if let Some(size) = line.strip_prefix("MemTotal:") {
            limit(number(size).and_then(|kilobytes| kilobytes.checked_mul(1024)));
        }
    });
    for_each_line(read("/proc/self/limits"), &mut |line| {
        let sizes = line.strip_prefix("Max address space").or_else(|| line.strip_prefix("Max data size"));
        // The soft limit comes first; it may be the word `unlimited`.
        limit(sizes.and_then(number));
    });
    for_each_line(read("/proc/self/cgroup"), &mut |line| {
        // `0::/path` in version 2, `9:memory:/path` in version 1, which may have several controllers.
        let rest = cut(line, b':').1;
        let (mut controllers, mut path) = cut(rest, b':');
        let (root, files): (_, &[&str]) = match controllers {
            "" => ("/sys/fs/cgroup", &["memory.max", "memory.high"]),
            _ => ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"]),
        };
        let mut names_memory = controllers.is_empty() && !rest.is_empty();
        while !controllers.is_empty() {
            let (name, others) = cut(controllers, b',');
            names_memory |= name == "memory";
            controllers = others;
        }
        // A group is bound by the limits of the groups around it too. In a container, the path may be the
        // host's, and what is at the root is the container's own group.
        if !names_memory {
            return;
        }
        loop {
            path = path.strip_suffix('/').unwrap_or(path);
            for file in files {
                limit(read(&[root, path, "/", file].concat()).as_deref().and_then(number));
            }
            match path.bytes().rposition(|byte| byte == b'/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    });
    least
}

// The functions below are not inlined: each is called in several places, and all of this runs once in a
// process.

/// Calls `f` with each line of a text.
#[inline(never)]
fn for_each_line(text: Option<String>, f: &mut dyn FnMut(&str)) {
    let mut rest = text.as_deref().unwrap_or_default();
    while !rest.is_empty() {
        let (line, lines) = cut(rest, b'\n');
        f(line);
        rest = lines;
    }
}

/// The text before and after the first `at`. Without one, all of the text and nothing.
#[inline(never)]
fn cut(text: &str, at: u8) -> (&str, &str) {
    match text.bytes().position(|byte| byte == at) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    }
}

/// The first word of a text, if it is a number and not a word such as `max`.
#[inline(never)]
fn number(text: &str) -> Option<u64> {
    cut(text.trim_ascii(), b' ').0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const MEMINFO: (&str, &str) =
        ("/proc/meminfo", "MemTotal:       24576 kB\nMemFree:         512 kB\nSwapTotal:     0 kB\n");

    fn memory_of(files: &[(&str, &str)]) -> Option<u64> {
        memory_by(&|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.to_string()))
    }

    #[test]
    fn a_machine_without_limits_has_its_memory() {
        assert_eq!(memory_of(&[MEMINFO]), Some(24 << 20));
        assert_eq!(memory_of(&[]), None);
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/user.slice/a.scope\n"),
            ("/sys/fs/cgroup/user.slice/a.scope/memory.max", "max\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "max\n"),
            (
                "/proc/self/limits",
                "Limit  Soft Limit  Hard Limit  Units\nMax address space unlimited unlimited bytes\n",
            ),
        ];
        assert_eq!(memory_of(&files), Some(24 << 20));
    }

    #[test]
    fn the_groups_of_version_2_bound_it() {
        let group = ("/proc/self/cgroup", "0::/pods/one\n");
        for (path, of) in [("/pods/one/memory.max", 5), ("/pods/memory.high", 6), ("/memory.max", 7)] {
            let (path, limit) = (["/sys/fs/cgroup", path].concat(), [&of.to_string(), "\n"].concat());
            assert_eq!(memory_of(&[MEMINFO, group, (&path, &limit)]), Some(of), "{path}");
        }
        // In a namespace of its own.
        let files = [MEMINFO, ("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "1048576\n")];
        assert_eq!(memory_of(&files), Some(1 << 20));
    }

    #[test]
    fn the_groups_of_version_1_bound_it() {
        let group =
            ("/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:memory:/docker/1a:b\n1:name=systemd:/x\n0::/\n");
        let unlimited = ("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
        let files = [MEMINFO, group, unlimited];
        assert_eq!(memory_of(&files), Some(24 << 20));
        for path in ["/docker/1a:b", ""] {
            let path = ["/sys/fs/cgroup/memory", path, "/memory.limit_in_bytes"].concat();
            assert_eq!(memory_of(&[MEMINFO, group, unlimited, (&path, "4096\n")]), Some(4096), "{path}");
        }
        let other = ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1\n");
        assert_eq!(memory_of(&[MEMINFO, group, other]), Some(24 << 20), "the group of another controller");
    }

    #[test]
    fn limits_of_the_process_bound_it() {
        let line = |what, soft| [what, "   ", soft, "   unlimited   bytes\n"].concat();
        for what in ["Max address space", "Max data size"] {
            let limits = [line("Max resident set", "3"), line(what, "8192")].concat();
            assert_eq!(memory_of(&[MEMINFO, ("/proc/self/limits", &limits)]), Some(8192), "{what}");
        }
    }

    #[test]
    fn this_system_tells() {
        if cfg!(target_os = "linux") {
            assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
        }
    }
}
