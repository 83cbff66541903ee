//! Checks that no method of Burn's backend traits goes untested by accident: each method is named by a row of
//! the suite, or listed with a reason in `not_covered.txt`. The list of methods is compared with Burn's
//! source if the source can be found.

use burn_flex::Flex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The list of methods, shared with `burn-flex`'s own check of its trait methods.
const METHODS: &str = include_str!("../../../crates/burn-flex-adapter/tests/trait_methods_0_21.txt");
/// Methods that no row names: trait, method, reason.
const NOT_COVERED: &str = include_str!("not_covered.txt");
const BURN: &str = "burn-backend-0.21.0";

/// Lines that are neither empty nor comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

fn words(line: &str) -> [&str; 3] {
    let mut words = line.splitn(3, ' ');
    [(); 3].map(|()| words.next().unwrap_or_else(|| panic!("malformed: {line}")))
}

/// Methods that rows name.
fn covered() -> BTreeSet<&'static str> {
    burn_tests::all_rows::<Flex>()
        .into_iter()
        .flat_map(|(_, rows)| rows)
        .flat_map(|row| row.methods)
        .collect()
}

#[test]
fn every_trait_method_is_named_by_a_row_or_excused() {
    let covered = covered();
    let methods: BTreeSet<[&str; 2]> =
        lines(METHODS).map(words).map(|[owner, name, _]| [owner, name]).collect();
    let excused: BTreeSet<[&str; 2]> =
        lines(NOT_COVERED).map(words).map(|[owner, name, _]| [owner, name]).collect();
    let missing: BTreeSet<[&str; 2]> =
        methods.iter().filter(|[_, name]| !covered.contains(name)).copied().collect();
    for line in lines(NOT_COVERED) {
        println!("not covered: {line}");
    }
    let forgotten: Vec<_> = missing.difference(&excused).collect();
    assert!(forgotten.is_empty(), "no row names these, and not_covered.txt gives no reason: {forgotten:#?}");
    let stale: Vec<_> = excused.difference(&missing).collect();
    assert!(stale.is_empty(), "not_covered.txt lists what rows name or Burn does not have: {stale:#?}");
    let names: BTreeSet<&str> = methods.iter().map(|[_, name]| *name).collect();
    let unknown: Vec<_> = covered.difference(&names).collect();
    assert!(unknown.is_empty(), "rows name what is no trait method: {unknown:?}");
}

/// A row may name only methods that the suite's code mentions outside of strings, as a call or as the
/// argument of a macro that makes the call.
#[test]
fn what_rows_name_is_called() {
    let mut code = BTreeSet::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = std::fs::read_to_string(file).expect("a source file");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            // Every second piece between quotation marks is a string; none in the suite spans lines with
            // names in it.
            for piece in line.split('"').step_by(2) {
                let words = piece.split(|c: char| !c.is_alphanumeric() && c != '_');
                code.extend(words.map(str::to_owned));
            }
        }
    }
    let unused: Vec<_> = covered().into_iter().filter(|name| !code.contains(*name)).collect();
    assert!(unused.is_empty(), "named by rows, but never called: {unused:?}");
}

#[test]
fn the_list_of_trait_methods_is_that_of_burn() {
    let source = burn_source().ok_or_else(|| format!("{BURN} was not found"));
    if !burn_tests::present(source.as_ref().map(|_| ())) {
        return;
    }
    let source = source.expect("present");
    let listed: BTreeSet<String> = lines(METHODS).map(str::to_owned).collect();
    let traits: BTreeSet<&str> = lines(METHODS).map(|line| words(line)[0]).collect();
    let mut found = BTreeSet::new();
    for file in sources(&source.join("src/backend")) {
        let text = std::fs::read_to_string(file).expect("a source file");
        found.extend(methods(&text).into_iter().filter(|line| traits.contains(words(line)[0])));
    }
    let (added, gone): (Vec<_>, Vec<_>) =
        (found.difference(&listed).collect(), listed.difference(&found).collect());
    assert!(added.is_empty() && gone.is_empty(), "Burn has {added:#?}, and does not have {gone:#?}");
}

/// Trait methods that a source file formatted by rustfmt declares: trait, name, and whether the method has a
/// body.
fn methods(text: &str) -> Vec<String> {
    let mut methods = Vec::new();
    let mut owner = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("pub trait ") {
            owner = rest.split(|c: char| !c.is_alphanumeric()).next();
        } else if line.starts_with('}') {
            owner = None;
        }
        let (Some(owner), Some(rest)) = (owner, line.strip_prefix("    fn ")) else { continue };
        let name = rest.split(['(', '<']).next().expect("a name");
        let end = std::iter::once(line).chain(lines.by_ref()).find(|l| l.ends_with([';', '{', '}']));
        let kind = if end.expect("the signature ends").ends_with(';') { "required" } else { "default" };
        methods.push(format!("{owner} {name} {kind}"));
    }
    methods
}

/// Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

/// The folder in which cargo has Burn's backend crate.
fn burn_source() -> Option<PathBuf> {
    let metadata = Command::new(std::env::var_os("CARGO")?)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(metadata.stdout).ok()?;
    let manifests = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let folders = manifests.filter_map(|path| Path::new(path).parent());
    folders.map(Path::to_path_buf).find(|folder| folder.ends_with(BURN) && folder.is_dir())
}

#[test]
fn the_readme_has_a_table_of_every_family() {
    let readme = include_str!("../../README.md");
    let documented: BTreeSet<&str> = burn_tests::coverage::documented(readme).into_iter().collect();
    let families: BTreeSet<&str> = burn_tests::all_rows::<Flex>().into_iter().map(|(name, _)| name).collect();
    assert_eq!(documented, families);
}

#[test]
fn declarations_are_told_from_definitions() {
    let text = "pub trait A<B> {\n    fn f(x: u8);\n    fn g<T>(\n        x: T,\n    ) -> u8\n    where\n        T: Copy,\n    {\n        1\n    }\n    fn h() {}\n}\nfn i() {}\n";
    assert_eq!(methods(text), ["A f required", "A g default", "A h default"]);
}
