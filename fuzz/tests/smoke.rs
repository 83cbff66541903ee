//! Every target on its seeds and on random bytes, on any toolchain and without libFuzzer. It finds targets
//! that do not build, and faults that are easy to find.
//!
//! ```console
//! cargo test -p flex-fuzz
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

/// The longest that the random inputs of a target may take.
const LONGEST: Duration = Duration::from_secs(20);

/// Inputs of a target, unless their time is over first.
const INPUTS: usize = 20_000;

fn smoke(name: &str, target: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    for file in std::fs::read_dir(&seeds).into_iter().flatten() {
        let path = file.expect("a file").path();
        println!("{}", path.display());
        target(&std::fs::read(&path).expect("a seed"));
    }
    let (start, mut state, mut done) = (Instant::now(), 0x9E37_79B9_7F4A_7C15u64, 0);
    while done < INPUTS && start.elapsed() < LONGEST {
        // The same inputs in every run: xorshift.
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_ne_bytes()
        };
        let words = usize::from(next()[3]) + 1;
        let input: Vec<u8> = (0..words).flat_map(|_| next()).collect();
        target(&input);
        done += 1;
    }
    println!("{name}: {done} random inputs in {:?}", start.elapsed());
}

#[test]
fn views() {
    smoke("views", flex_fuzz::views);
}

#[test]
fn options() {
    smoke("options", flex_fuzz::options);
}

#[test]
fn data() {
    smoke("data", flex_fuzz::data);
}

#[test]
fn tensor_data() {
    smoke("tensor_data", flex_fuzz::tensor_data);
}
