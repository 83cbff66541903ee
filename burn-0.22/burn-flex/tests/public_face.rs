//! What upstream's crate makes public and this one does not, by upstream's source in cargo's registry.
//!
//! The list is `lacking.txt`, which says why for each name. Burn's own crates must name nothing of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const UPSTREAM: &str = "burn-flex-0.22.1";

/// Names that upstream has and this crate lacks, each with a reason.
const LACKING: &str = include_str!("lacking.txt");

/// The types whose methods are compared.
const TYPES: [&str; 3] = ["FlexTensor", "FlexQTensor", "Layout"];

#[test]
fn what_upstream_has_and_this_crate_lacks_is_listed() {
    let Some(upstream) = upstream() else { return };
    let own = own_names();
    let mut theirs = names(&sources(&upstream.join("src")));
    theirs.extend(exports(&read(&upstream.join("src/lib.rs"))));
    theirs.extend(transforms(&read(&upstream.join("src/ops/fft.rs"))));
    theirs.extend(features(&read(&upstream.join("Cargo.toml"))));
    assert!(theirs.len() > 50, "upstream's source is not read: {theirs:?}");
    let lacking: BTreeSet<String> = theirs.difference(&own).cloned().collect();
    let reasons = LACKING.lines().filter(|line| !line.starts_with('#'));
    let reasons = reasons.map(|line| line.split_once(": ").expect("a name and a reason"));
    for (name, reason) in reasons.clone() {
        println!("lacking: {name}: {reason}");
    }
    let listed: BTreeSet<String> = reasons.map(|(name, _)| name.to_owned()).collect();
    let unlisted: Vec<_> = lacking.difference(&listed).collect();
    assert!(unlisted.is_empty(), "upstream has these, and lacking.txt gives no reason: {unlisted:#?}");
    let stale: Vec<_> = listed.difference(&lacking).collect();
    assert!(stale.is_empty(), "lacking.txt lists what this crate has, or upstream has not: {stale:#?}");
}

#[test]
fn burns_crates_name_nothing_that_this_crate_lacks() {
    let Some(upstream) = upstream() else { return };
    let own = own_names();
    let mut named = BTreeSet::new();
    for entry in std::fs::read_dir(upstream.parent().expect("the registry")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with("burn") || !name.ends_with("-0.22.1") || name == UPSTREAM {
            continue;
        }
        for text in sources(&path.join("src")) {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for rest in code.flat_map(|line| line.split("burn_flex::").skip(1)) {
                let path = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next();
                named.insert(path.expect("a first part").to_owned());
            }
        }
        let manifest = read(&path.join("Cargo.toml"));
        for rest in manifest.split("\"burn-flex").skip(1) {
            let rest = rest.strip_prefix('?').unwrap_or(rest);
            if let Some(feature) = rest.strip_prefix('/').and_then(|rest| rest.split('"').next()) {
                named.insert(format!("feature {feature}"));
            }
        }
    }
    println!("Burn's crates name {named:?}");
    assert!(
        named.contains("Flex") && named.contains("feature simd"),
        "Burn's crates are not read: {named:?}"
    );
    let missing: Vec<_> = named.difference(&own).collect();
    assert!(missing.is_empty(), "Burn's crates name what this crate lacks: {missing:?}");
}

/// The public names of this crate: its exports, the methods of its types, its transforms and features.
fn own_names() -> BTreeSet<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = package.join("../../crates");
    let adapter = crates.join("burn-flex-adapter/src");
    let mut texts = vec![read(&adapter.join("shared/tensor.rs")), read(&adapter.join("v0_22/face.rs"))];
    texts.extend(sources(&crates.join("flex-tensor/src/layout")));
    let mut own = names(&texts);
    own.extend(exports(&read(&package.join("src/lib.rs"))));
    // A macro makes the transforms, of which each is called by name in `face.rs`.
    let faces = read(&package.join("tests/face.rs"));
    let called = faces.split(|c: char| !c.is_alphanumeric() && c != '_');
    let called = called.filter(|name| name.starts_with("rfft_") || name.starts_with("irfft_"));
    own.extend(called.map(|name| format!("ops::fft::{name}")));
    own.extend(features(&read(&package.join("Cargo.toml"))));
    own
}

/// `Type::method` for the public methods of [`TYPES`], in files formatted by rustfmt.
fn names(texts: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in texts {
        let mut owner = None;
        for line in text.lines() {
            if let Some(of) = TYPES.iter().find(|name| line == format!("impl {name} {{")) {
                owner = Some(of);
            } else if line.starts_with('}') {
                owner = None;
            }
            let line = line.replacen("pub const fn", "pub fn", 1);
            if let (Some(owner), Some(rest)) = (owner, line.strip_prefix("    pub fn ")) {
                let method = rest.split(['(', '<']).next().expect("a name");
                found.insert(format!("{owner}::{method}"));
            }
        }
    }
    found
}

/// What a crate's `lib.rs` exports by `pub use`, at the root.
fn exports(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("pub use "));
    let lists = lines.map(|line| line.rsplit("::").next().expect("a last part"));
    let items = lists.flat_map(|list| list.trim_matches(['{', '}', ';']).split(", "));
    items.map(|item| item.trim_end_matches([';', '}']).to_owned()).collect()
}

fn transforms(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("pub fn "));
    lines.map(|line| format!("ops::fft::{}", line.split('(').next().expect("a name"))).collect()
}

/// The features that a manifest declares.
fn features(text: &str) -> BTreeSet<String> {
    let section = text.split("[features]\n").nth(1).expect("features").split("\n[").next().expect("a part");
    let names = section.lines().filter_map(|line| line.split_once(" = ["));
    names.map(|(name, _)| format!("feature {name}")).collect()
}

/// Rust files below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let texts = paths.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false if path.extension().is_some_and(|e| e == "rs") => vec![read(&path)],
        false => Vec::new(),
    });
    texts.collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folder with upstream's source. Cargo has it after `cargo fetch` in the repository's root, whose lock
/// names upstream's crate for the bench; the workspace of this package takes it by no dependency.
fn upstream() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let found = registries.flatten().map(|entry| entry.path().join(UPSTREAM)).find(|path| path.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: cargo's registry has no source of {UPSTREAM}; `cargo fetch` in the root gets it");
    }
    found
}
