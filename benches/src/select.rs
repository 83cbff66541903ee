//! Selection of the cases that a run measures.

use crate::cases::Case;

/// Positions of the cases to run: the cases of the short set (of all cases with `full`) whose name contains
/// one of the `filters`, and any case whose full name, or whose family's
/// [label](crate::cases::Family::label), is a filter.
///
/// # Errors
/// Fails if no case is left. The message says how to reach the cases that the filters find in the full set.
pub fn select(cases: &[Case], filters: &[String], full: bool) -> Result<Vec<usize>, String> {
    let contains = |case: &Case| filters.is_empty() || filters.iter().any(|f| case.name.contains(f.as_str()));
    let named = |case: &Case| filters.iter().any(|f| *f == case.name || f == case.family.label());
    let picked: Vec<usize> = (0..cases.len())
        .filter(|&k| named(&cases[k]) || (full || cases[k].short) && contains(&cases[k]))
        .collect();
    if !picked.is_empty() {
        return Ok(picked);
    }
    let others = cases.iter().filter(|case| contains(case)).count();
    Err(match others {
        0 => format!("no case is called like {filters:?}; --list --full names them all"),
        _ => format!("no case of the short set is called like {filters:?}; --full has {others}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Family;

    fn picked(filters: &[&str], full: bool) -> Result<Vec<usize>, String> {
        let case = |name: &str, short| Case {
            name: name.into(),
            family: Family::Maths,
            bytes: 0,
            flops: 0,
            short,
            setup: Box::new(|| unreachable!("cases are chosen by their names")),
        };
        let cases =
            [case("exp_64", false), case("exp_4096", true), case("log_4096", true), case("log_64", false)];
        select(&cases, &filters.iter().map(|f| f.to_string()).collect::<Vec<_>>(), full)
    }

    #[test]
    fn filters_choose_within_the_set() {
        assert_eq!(picked(&[], false), Ok(vec![1, 2]));
        assert_eq!(picked(&[], true), Ok(vec![0, 1, 2, 3]));
        assert_eq!(picked(&["exp"], false), Ok(vec![1]));
        assert_eq!(picked(&["exp"], true), Ok(vec![0, 1]));
    }

    #[test]
    fn a_whole_name_is_always_found() {
        assert_eq!(picked(&["exp_64"], false), Ok(vec![0]));
        assert_eq!(picked(&["exp_64", "log"], false), Ok(vec![0, 2]));
    }

    #[test]
    fn a_familys_label_finds_the_family() {
        assert_eq!(picked(&["maths functions"], false), Ok(vec![0, 1, 2, 3]));
        assert!(picked(&["maths"], true).is_err());
    }

    #[test]
    fn finding_nothing_is_an_error_that_says_where_to_look() {
        assert!(picked(&["_6"], false).unwrap_err().contains("--full has 2"));
        assert!(picked(&["tan"], true).unwrap_err().contains("--list"));
    }
}
