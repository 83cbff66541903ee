//! The tables of what the suite covers, made from the checks that ran.

use crate::capability::Capabilities;
use crate::layout::LAYOUTS;
use crate::row::{Record, Row, run};
use crate::trace::{NAMES, Name, Trace};
use burn_backend::{Backend, DType};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// If this variable is set, to any value, the suite rewrites the tables instead of comparing them with what
/// ran.
pub const UPDATE: &str = "UPDATE_COVERAGE";

/// Runs the rows of a family as [`run_rows`](crate::run_rows) does, and compares the document that the
/// capabilities name, if any, with what ran.
///
/// # Panics
/// Panics if a check failed, or the document's table of this family is out of date.
pub fn run_family<B: Backend>(capabilities: &Capabilities, family: &str, rows: Vec<Row<B>>) {
    let records = run(capabilities, rows);
    let mut report: Vec<String> = records.iter().filter_map(Record::report).collect();
    if let Some(path) = capabilities.document {
        report.extend(hold(Path::new(path), family, &table(&records)).err());
    }
    assert!(report.is_empty(), "\n{}\n", report.join("\n"));
}

/// The table of a family.
pub fn table(records: &[Record]) -> String {
    let mut text = String::from("| methods | operands | layouts | results |\n| --- | --- | --- | --- |\n");
    for Record { methods, trace, .. } in records {
        let methods: Vec<String> = methods.iter().map(|m| format!("`{m}`")).collect();
        let Trace { operands, layouts: _, results } = trace;
        let cells = [methods.join(" "), dtypes(operands), layouts(trace), dtypes(results)];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// Names of dtypes, with one word if all dtypes of a kind are present.
fn dtypes(names: &BTreeSet<Name>) -> String {
    let mut words: Vec<&str> = Vec::new();
    let kinds: [(&str, fn(DType) -> bool); 3] = [
        ("floats", |d| d.is_float()),
        ("integers", |d| d.is_int() || d.is_uint()),
        ("booleans", |d| d.is_bool()),
    ];
    for (kind, belongs) in kinds {
        let all: Vec<Name> = (0..NAMES.len()).filter(|&n| belongs(NAMES[n].0)).collect();
        match all.iter().all(|n| names.contains(n)) {
            true => words.push(kind),
            false => words.extend(all.iter().filter(|n| names.contains(n)).map(|&n| NAMES[n].1)),
        }
    }
    words.join(", ")
}

fn layouts(trace: &Trace) -> String {
    if trace.layouts.len() == LAYOUTS.len() {
        return "all".into();
    }
    trace.layouts.iter().map(|layout| format!("{layout:?}").to_lowercase()).collect::<Vec<_>>().join(", ")
}

/// The lines before and after the table of a family.
fn markers(family: &str) -> [String; 2] {
    [format!("<!-- begin {family} -->\n"), format!("<!-- end {family} -->\n")]
}

/// The families that a document has tables of, in its order.
pub fn documented(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("<!-- begin ")?.strip_suffix(" -->")).collect()
}

/// Compares a family's table with the table in the document, or replaces the latter.
fn hold(path: &Path, family: &str, table: &str) -> Result<(), String> {
    // Families run at the same time; without the lock, one writer would undo the work of another.
    static DOCUMENT: Mutex<()> = Mutex::new(());
    let _alone = DOCUMENT.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let updated = replaced(&text, family, table);
    if updated == text {
        return Ok(());
    }
    if std::env::var_os(UPDATE).is_none() {
        return Err(format!(
            "{}: the table of {family} is out of date. Run the tests with {UPDATE}=1 to rewrite it. It has to be:\n{table}",
            path.display()
        ));
    }
    std::fs::write(path, updated).map_err(|e| format!("{}: {e}", path.display()))
}

/// The document with this table of the family, inserted in alphabetical order if the document has none yet.
fn replaced(text: &str, family: &str, table: &str) -> String {
    let [begin, end] = markers(family);
    let section = |table: &str| format!("{begin}{table}{end}");
    let place =
        text.find(&begin).and_then(|start| Some(start..start + text[start..].find(&end)? + end.len()));
    match place {
        Some(place) => [&text[..place.start], &section(table), &text[place.end..]].concat(),
        None => {
            let heading = |family: &str| format!("\n### {family}\n");
            let next = documented(text).into_iter().find(|other| *other > family);
            let place = next.and_then(|next| text.find(&heading(next))).unwrap_or(text.len());
            [&text[..place], &heading(family), "\n", &section(table), &text[place..]].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn tables_name_kinds_that_are_complete() {
        let trace = Trace {
            operands: (0..4).chain([5]).collect(),
            layouts: BTreeSet::from([Layout::Contiguous, Layout::Flipped]),
            results: BTreeSet::from([12, 13]),
        };
        let table = table(&[Record { methods: vec!["a", "b"], trace, failures: Vec::new() }]);
        assert!(table.ends_with("| `a` `b` | floats, i32 | contiguous, flipped | booleans |\n"), "{table}");
    }

    #[test]
    fn a_table_replaces_its_own_alone() {
        let text = replaced("# Title\n", "two", "2\n");
        let text = replaced(&text, "one", "1\n");
        assert_eq!(documented(&text), ["one", "two"]);
        assert_eq!(replaced(&text, "two", "2\n"), text);
        let changed = replaced(&text, "one", "3\n");
        assert_eq!(changed, text.replace("1\n<", "3\n<"));
    }

    #[test]
    fn an_outdated_table_is_an_error() {
        let path = std::env::temp_dir().join(format!("burn-tests-coverage-{}.md", std::process::id()));
        std::fs::write(&path, replaced("", "one", "1\n")).expect("a temporary file");
        let outcome = [hold(&path, "one", "1\n"), hold(&path, "one", "2\n")];
        std::fs::remove_file(&path).expect("the file above");
        assert_eq!(outcome[0], Ok(()));
        if std::env::var_os(UPDATE).is_none() {
            assert!(outcome[1].as_ref().unwrap_err().contains("out of date"));
        }
    }
}
