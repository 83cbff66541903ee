//! No trait default remains by accident: every method of each release's backend traits is defined by this
//! crate, or left to its default for a reason that this table states.

use std::collections::BTreeSet;
use std::path::Path;

/// The releases: the folder of what is their own, and the methods of their traits.
const RELEASES: &[(&str, &str)] =
    &[("v0_21", include_str!("trait_methods_0_21.txt")), ("v0_22", include_str!("trait_methods_0_22.txt"))];

/// Defaults that are left on purpose, by trait: a method, or a prefix and a star.
const LEFT_TO_DEFAULTS: &[(&str, &str, &str)] = &[
    ("Backend", "ad_enabled", "false is the truth: Autodiff wraps this backend"),
    ("Backend", "memory_persistent_allocations", "the pool has one mode"),
    ("Backend", "supports_dtype", "derived from dtype_usage"),
    ("Backend", "staging", "there is no other memory to stage for"),
    ("Backend", "memory_pool_*", "the pool keeps blocks by size, not the pages that Burn's report counts"),
    ("Backend", "profile*", "the clock of the trait measures from one sync to the next"),
    ("Backend", "graph_*", "there is no device whose launches a graph would save"),
    ("DistributedOps", "*", "there is one device"),
    ("FloatTensorOps", "float_detach", "only autodiff backends have something to detach"),
    ("FloatTensorOps", "float_set_require_grad", "only autodiff backends track gradients"),
    ("FloatTensorOps", "float_is_require_grad", "only autodiff backends track gradients"),
    ("FloatTensorOps", "float_pad", "composed of float_full and float_slice_assign, which are native"),
    ("IntTensorOps", "int_pad", "composed of int_full and int_slice_assign, which are native"),
    ("IntTensorOps", "int_square", "calls int_powi_scalar, which is native"),
    ("QTensorOps", "q_detach", "only autodiff backends have something to detach"),
    ("QTensorOps", "q_set_require_grad", "only autodiff backends track gradients"),
    ("QTensorOps", "q_is_require_grad", "only autodiff backends track gradients"),
    ("QTensorOps", "q_abs", "|-128| is not an i8, so codes cannot be negated as they are"),
    ("QTensorOps", "q_max*", "composed of q_argmax and q_gather, which are native"),
    ("QTensorOps", "q_min*", "composed of q_argmin and q_gather, which are native"),
    ("QTensorOps", "q_add*", "computes on floats"),
    ("QTensorOps", "q_sub*", "computes on floats"),
    ("QTensorOps", "q_mul*", "computes on floats"),
    ("QTensorOps", "q_div*", "computes on floats"),
    ("QTensorOps", "q_clamp*", "computes on floats"),
    ("QTensorOps", "q_matmul", "computes on floats"),
    ("QTensorOps", "q_neg", "computes on floats"),
    ("QTensorOps", "q_recip", "computes on floats"),
    ("QTensorOps", "q_sum*", "computes on floats"),
    ("QTensorOps", "q_prod*", "computes on floats"),
    ("QTensorOps", "q_mean*", "computes on floats"),
    ("QTensorOps", "q_cum*", "computes on floats"),
    ("QTensorOps", "q_exp", "computes on floats"),
    ("QTensorOps", "q_log*", "computes on floats"),
    ("QTensorOps", "q_pow*", "computes on floats"),
    ("QTensorOps", "q_sqrt", "computes on floats"),
    ("QTensorOps", "q_cos*", "computes on floats"),
    ("QTensorOps", "q_sin*", "computes on floats"),
    ("QTensorOps", "q_tan*", "computes on floats"),
    ("QTensorOps", "q_erf", "computes on floats"),
    ("QTensorOps", "q_any*", "computes on floats"),
    ("QTensorOps", "q_all*", "computes on floats"),
    ("TransactionOps", "tr_execute", "reads the tensors one after the other, which moves no data here"),
];

#[test]
fn every_trait_method_is_defined_or_left_to_its_default_for_a_reason() {
    let mut unexplained = Vec::new();
    let mut used = BTreeSet::new();
    for (release, methods) in RELEASES {
        let defined = defined_names(release);
        for line in methods.lines().filter(|line| !line.starts_with('#')) {
            let [owner, method, kind] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("malformed: {line}")
            };
            let reason =
                LEFT_TO_DEFAULTS.iter().position(|(t, pattern, _)| *t == owner && matches(pattern, method));
            match (defined.contains(method), reason) {
                (true, Some(k)) if !LEFT_TO_DEFAULTS[k].1.ends_with('*') => {
                    panic!("{release}: {owner}::{method} is defined, yet the table of defaults names it");
                }
                (true, _) => {}
                (false, Some(k)) => {
                    println!("{release}: {owner}::{method} keeps its default: {}", LEFT_TO_DEFAULTS[k].2);
                    used.insert(k);
                }
                (false, None) => unexplained.push(format!("{release}: {owner}::{method} ({kind})")),
            }
        }
    }
    assert!(unexplained.is_empty(), "neither defined nor explained: {unexplained:#?}");
    let stale: Vec<_> =
        (0..LEFT_TO_DEFAULTS.len()).filter(|k| !used.contains(k)).map(|k| LEFT_TO_DEFAULTS[k]).collect();
    assert!(stale.is_empty(), "explained, yet no such default remains: {stale:?}");
}

fn matches(pattern: &str, method: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => method.starts_with(prefix),
        None => pattern == method,
    }
}

/// Method names that the sources of a release define, its own and the shared ones: `fn name` anywhere, and
/// `name(...)` at the start of a line of an `ops!` table, where calls never are.
fn defined_names(release: &str) -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = ["shared", release].map(|folder| std::fs::read_dir(sources.join(folder)));
    let mut names = BTreeSet::new();
    for entry in folders.into_iter().flat_map(|folder| folder.expect("a folder of sources")) {
        let path = entry.expect("an entry").path();
        // The folders hold conversions, which define no methods of Burn.
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(path).expect("a source file");
        for line in text.lines() {
            let line = line.trim_start();
            let line = line.strip_prefix("async ").unwrap_or(line);
            let candidate = match line.strip_prefix("fn ") {
                Some(rest) => rest,
                None if line.contains(": ") || line.ends_with('(') => line,
                None => continue,
            };
            let name: String = candidate.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if candidate[name.len()..].starts_with(['(', '<']) {
                names.insert(name);
            }
        }
    }
    names
}
