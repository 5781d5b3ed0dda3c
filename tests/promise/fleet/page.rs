//! The guide's page "Changing a running fleet", held against what is tried here.

use super::builds::Harm;
use super::steps::Steps;

const PAGE: &str = include_str!("../../../src/guide/fleet.md");

/// A change of its table. Those that need the same stand in one row.
struct Row {
    change: String,
    steps: String,
    without: String,
}

/// Returns the rows of the table of changes.
fn rows() -> Vec<Row> {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with("| change |"));
    let lines = lines.skip(2).take_while(|line| line.starts_with('|'));
    lines
        .flat_map(|line| {
            let cells: Vec<String> =
                line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            let [changes, steps, _meanwhile, without] = cells.try_into().expect("four cells");
            let row = |change: &str| Row {
                change: change.to_owned(),
                steps: steps.clone(),
                without: without.clone(),
            };
            changes.split("; ").map(row).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns what the table has a row for.
pub(super) fn changes() -> Vec<String> {
    rows().into_iter().map(|row| row.change).collect()
}

/// Tries a change with the steps of its row, which nothing may go wrong with, and without them.
pub(super) async fn holds(change: &str, trial: impl AsyncFn(&mut Steps) -> Harm) {
    let rows = rows();
    let row = rows.iter().find(|row| row.change == change);
    let row = row.unwrap_or_else(|| panic!("the page has no row {change:?}"));
    let mut steps = Steps::taken();
    assert_eq!(trial(&mut steps).await, Harm::default(), "{change}, by the steps of the page");
    assert_eq!(row.steps, steps.in_words(), "{change}: the steps");
    let harm = trial(&mut Steps::left_out()).await;
    println!("{change}, without the steps: {harm:?}");
    assert_eq!(row.without, harm.in_words(), "{change}, without the steps: {harm:?}");
}
