//! A system that refuses threads. Operations run on the calling thread then.
#![cfg(all(target_os = "linux", feature = "rayon"))]

use flex_tensor::parallel::{Work, for_each_chunk, threads};
use std::process::Command;

#[test]
#[ignore = "run by the other test, in a process that cannot start threads"]
fn without_threads() {
    assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "threads can be started");
    assert_eq!(threads(), 1);
    for _ in 0..3 {
        let mut numbers = [0; 16];
        for_each_chunk(&mut numbers, 1, Work::Worthwhile, |k, number| number[0] = k);
        assert_eq!(numbers, core::array::from_fn(|k| k));
        let mut large = vec![0; 1 << 20];
        for_each_chunk(&mut large, 1 << 10, Work::Bytes(1 << 30), |k, part| part.fill(k));
        assert_eq!((large[0], large[(1 << 20) - 1]), (0, 1023));
    }
}

#[test]
fn operations_run_on_one_thread_when_the_system_refuses_threads() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "without_threads", "--ignored", "--test-threads", "1"])
        // Threads need a stack, and no address space holds one of 64 TiB (of 32 bits: 3.75 GiB) beside the
        // rest.
        .env("RUST_MIN_STACK", (if usize::BITS == 64 { 1_u64 << 46 } else { 15 << 28 }).to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
