//! `cargo bench -p flex-benches --no-default-features --bench counts`: the number of instructions that small
//! operations take, counted by valgrind and compared with the counts in `counts.txt`. Counts have no noise,
//! so any machine shows the cost of a code change.
//!
//! The cases run on one thread, on valgrind's processor, which has AVX2 but no AVX-512. Counts made by
//! another compiler or another valgrind are printed and never fail. Matrix products never fail either: gemm
//! chooses block sizes by the machine's cache sizes (`matmul_16` took 31 % more instructions on a machine
//! whose second-level cache has another size). `-- --bless` writes the counts of this build to the file. To
//! add a row, add a line with its name and a 0.

use flex_benches::cases;
use std::fs;
use std::hint::black_box;
use std::process::{Command, ExitCode};

/// The file of earlier counts: a comment, the compiler and instruction set, and a line per case.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.txt");
/// Allowed growth of a count in percent. The state of the pool and the allocator shifts counts by single
/// instructions.
const TOLERANCE: f64 = 2.0;
/// Calls before the counted calls, so that the pool is warm and lazily built plans exist.
const WARM: usize = 20;
/// Counted calls, whose mean is reported.
const CALLS: u64 = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--run", name] => run_case(name),
        ["--bless"] => compare(true),
        [] => compare(false),
        _ => Err("the only option is --bless".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The function in which valgrind counts.
#[inline(never)]
fn counted_calls(call: &mut dyn FnMut()) {
    for _ in 0..CALLS {
        black_box(&mut *call)();
    }
}

/// Runs one case under valgrind, in a separate process, so that no other case has filled the pool. Prints the
/// instruction set.
fn run_case(name: &str) -> Result<(), String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
    pool.map_err(|e| format!("cannot start a pool of one thread: {e}"))?;
    println!("{}", flex_math::simd::isa_name());
    let case = cases::<burn_flex::Flex>().into_iter().find(|case| case.name == name);
    let mut call = (case.ok_or_else(|| format!("{FILE} names {name}, which is no case"))?.setup)().run;
    for _ in 0..WARM {
        call();
    }
    counted_calls(&mut call);
    Ok(())
}

/// The contents of the file of counts.
struct Checked {
    /// Compiler and instruction set.
    made_by: String,
    rows: Vec<(String, u64)>,
}

impl Checked {
    fn read() -> Result<Self, String> {
        let text = fs::read_to_string(FILE).map_err(|e| format!("cannot read {FILE}: {e}"))?;
        let made_by = text.lines().find_map(|line| line.strip_prefix("# made by ")).unwrap_or_default();
        let row = |line: &str| {
            let (name, count) = line.split_once(char::is_whitespace)?;
            Some((name.to_string(), count.trim().parse().ok()?))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let rows = lines.map(|line| row(line).ok_or_else(|| format!("{FILE}: what is {line:?}?")));
        Ok(Self { made_by: made_by.into(), rows: rows.collect::<Result<_, _>>()? })
    }

    fn write(&self) -> Result<(), String> {
        let mut text = format!(
            "# Instructions of one call on one thread; `cargo bench -p flex-benches --no-default-features --bench counts`\n\
             # compares, and writes them with `-- --bless`.\n# made by {}\n",
            self.made_by
        );
        for (name, count) in &self.rows {
            text += &format!("{name:<22} {count}\n");
        }
        fs::write(FILE, text).map_err(|e| format!("cannot write {FILE}: {e}"))
    }
}

fn compare(bless: bool) -> Result<(), String> {
    let before = Checked::read()?;
    let valgrind = Command::new("valgrind").arg("--version").output();
    valgrind
        .map_err(|e| format!("instructions are counted by valgrind (Debian: apt install valgrind): {e}"))?;
    let (mut worse, mut isa, mut counts) = (0, String::new(), Vec::new());
    println!("{:<22} {:>12} {:>12} {:>8}", "case", "before", "now", "change");
    for (name, old) in &before.rows {
        let (new, set) = count(name)?;
        let change = 100.0 * (new as f64 / (*old).max(1) as f64 - 1.0);
        let grown = *old > 0 && change > TOLERANCE && !name.starts_with("matmul");
        worse += usize::from(grown);
        match old {
            0 => println!("{name:<22} {:>12} {new:>12} {:>8}", "-", "new"),
            _ => println!(
                "{name:<22} {old:>12} {new:>12} {change:>+7.1}%{}",
                if grown { "  <- more" } else { "" }
            ),
        }
        counts.push(new);
        isa = set;
    }
    let made_by = format!("{}, {isa}, {}", version("rustc"), version("valgrind"));
    if bless {
        let names = before.rows.into_iter().map(|(name, _)| name);
        return Checked { made_by, rows: names.zip(counts).collect() }.write();
    }
    let comparable = before.made_by == made_by;
    if !comparable {
        println!("The counts in the file were made by {}; these by {made_by}.", before.made_by);
    }
    if worse == 0 || !comparable {
        return Ok(());
    }
    Err(format!("{worse} cases take over {TOLERANCE} % more instructions; if they have to: -- --bless"))
}

/// The number of instructions of one call of a case, and the instruction set.
fn count(name: &str) -> Result<(u64, String), String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted_calls*", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--run", name])
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .map_err(|e| format!("cannot run valgrind: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let total = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<u64>().ok());
    match total {
        Some(total) if output.status.success() && total > 0 => {
            Ok((total / CALLS, String::from_utf8_lossy(&output.stdout).trim().to_string()))
        }
        _ => Err(format!("valgrind did not count {name}: {said}")),
    }
}

/// The first line of a program's `--version` output, without the part that varies between builds of one
/// version.
fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or(program).split(" (").next().unwrap_or_default().to_string()
}
