//! What upstream's crate makes public and this one does not, or with other types, by upstream's source in
//! cargo's registry.
//!
//! The list is `lacking.txt`, which says why for each name. Burn's own crates must name nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

const UPSTREAM: &str = "burn-flex-0.22.1";

/// Names that upstream has and this crate lacks, each with a reason. `signature Type::method` stands for a
/// method that both have, with other types of its operands or its result.
const LACKING: &str = include_str!("lacking.txt");

/// The types whose methods are compared.
const TYPES: [&str; 3] = ["FlexTensor", "FlexQTensor", "Layout"];

#[test]
fn what_upstream_has_and_this_crate_lacks_is_listed() {
    let Some(upstream) = upstream() else { return };
    let own = own_names();
    let methods = signatures(&sources(&upstream.join("src")));
    let mut theirs: BTreeSet<String> = methods.keys().cloned().collect();
    theirs.extend(exports(&read(&upstream.join("src/lib.rs"))));
    theirs.extend(transforms(&read(&upstream.join("src/ops/fft.rs"))));
    theirs.extend(features(&read(&upstream.join("Cargo.toml"))));
    assert!(theirs.len() > 50, "upstream's source is not read: {theirs:?}");
    let mut lacking: BTreeSet<String> = theirs.difference(&own).cloned().collect();
    let own = own_signatures();
    assert_eq!(methods.get("FlexQTensor::scales").map(String::as_str), Some("(&self) -> &[f32]"));
    for (name, theirs) in methods {
        if let Some(own) = own.get(&name).filter(|own| **own != theirs) {
            println!("{name}: {own}, upstream {theirs}");
            lacking.insert(format!("signature {name}"));
        }
    }
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
    let mut own: BTreeSet<String> = own_signatures().into_keys().collect();
    own.extend(exports(&read(&package.join("src/lib.rs"))));
    // A macro makes the transforms, of which each is called by name in `face.rs`.
    let faces = read(&package.join("tests/face.rs"));
    let called = faces.split(|c: char| !c.is_alphanumeric() && c != '_');
    let called = called.filter(|name| name.starts_with("rfft_") || name.starts_with("irfft_"));
    own.extend(called.map(|name| format!("ops::fft::{name}")));
    own.extend(features(&read(&package.join("Cargo.toml"))));
    own
}

/// [`signatures`] of this crate's types. The engine's types that have names of Burn's types are told apart.
fn own_signatures() -> BTreeMap<String, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let adapter = crates.join("burn-flex-adapter/src");
    let mut own =
        signatures(&[read(&adapter.join("shared/tensor.rs")), read(&adapter.join("v0_22/face.rs"))]);
    let mut engines = signatures(&sources(&crates.join("flex-tensor/src/layout")));
    for signature in engines.values_mut() {
        for name in ["Shape", "Slice"] {
            *signature = signature.replace(name, &format!("flex_core::{name}"));
        }
    }
    own.extend(engines);
    own
}

/// The public methods of [`TYPES`], by `Type::method`, in files formatted by rustfmt. A signature is what
/// follows the name, without the names of the operands.
fn signatures(texts: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for text in texts {
        let mut owner = None;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(of) = TYPES.iter().find(|name| line == format!("impl {name} {{")) {
                owner = Some(of);
            } else if line.starts_with('}') {
                owner = None;
            }
            let line = line.replacen("pub const fn", "pub fn", 1);
            if let (Some(owner), Some(head)) = (owner, line.strip_prefix("    pub fn ")) {
                // Up to the line that opens the body: one, or one for each operand.
                let mut head = head.to_owned();
                while !head.ends_with('{') {
                    head += lines.next().expect("a body").trim();
                }
                let (method, rest) = head.split_at(head.find(['(', '<']).expect("operands"));
                found.insert(format!("{owner}::{method}"), without_names(rest.trim_end_matches(" {")));
            }
        }
    }
    found
}

/// A signature from its generics on, without the names of its operands.
fn without_names(signature: &str) -> String {
    let (generics, rest) = signature.split_at(signature.find('(').expect("operands"));
    let (operands, result) = rest.split_at(rest.rfind(") ->").unwrap_or(rest.len() - 1));
    let operands = operands[1..].split(',').map(str::trim).filter(|operand| !operand.is_empty());
    let types = operands.map(|operand| operand.split_once(": ").map_or(operand, |(_, kind)| kind));
    let types: Vec<_> = types.map(|kind| kind.trim_start_matches("mut ")).collect();
    format!("{generics}({}{result}", types.join(", "))
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
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let registries = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    let mut packages = registries.into_iter().flatten().flatten().map(|entry| entry.path().join(UPSTREAM));
    let found = packages.find(|path| path.is_dir());
    if found.is_none() {
        // To stderr itself, because the test harness hides what a passing test prints.
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let missing =
            format!("cargo's registry has no source of {UPSTREAM}; `cargo fetch` in the root gets it");
        let _ = writeln!(std::io::stderr(), "{test} skipped: {missing}");
    }
    found
}
