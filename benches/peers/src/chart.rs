//! Charts of the figures: bars, ours in colour.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Figure, Report, grouped};
use crate::{checks, contender, http, local};

const COLUMNS: usize = 2;
/// Pixels.
const WIDTH: i32 = 560;
const BAR: i32 = 20;
const LABEL: i32 = 230;
const VALUE: i32 = 80;
const TITLE: i32 = 34;

const INK: RGBColor = RGBColor(40, 40, 40);
const OURS: RGBColor = RGBColor(0, 114, 178);
const THEIRS: RGBColor = RGBColor(170, 170, 170);

/// Draws what there are figures of.
pub fn draw(report: &Report, directory: &Path) {
    let local: Vec<String> = report.names().filter(|name| local::is_time(name)).collect();
    let charts = [
        ("checks.svg", "Checks", checks::names()),
        ("fill.svg", "Filling a filter", vec!["fill".to_owned()]),
        ("local.svg", "Look-ups in one process", local),
        ("http_requests.svg", "HTTP requests", http::names("requests")),
        ("http_p99.svg", "HTTP latency, 99th percentile", http::names("p99")),
        ("http_queries.svg", "Database queries", http::names("queries")),
    ];
    for (file, title, names) in charts {
        let panels = names.iter().map(|name| report.of(name).collect::<Vec<_>>());
        let panels: Vec<Vec<&Figure>> = panels.filter(|panel| !panel.is_empty()).collect();
        if !panels.is_empty() {
            chart(&directory.join(file), title, &panels).expect("a file that can be written");
        }
    }
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn chart(file: &Path, title: &str, panels: &[Vec<&Figure>]) -> Drawn {
    let columns = panels.len().min(COLUMNS);
    let bars = panels.iter().map(Vec::len).max().unwrap_or_default();
    let height = TITLE + bars as i32 * BAR + BAR;
    let size = (columns as i32 * WIDTH, TITLE + panels.len().div_ceil(columns) as i32 * height);
    let root = SVGBackend::new(file, (size.0 as u32, size.1 as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let unit = panels[0][0].unit;
    write(&root, &format!("{title} [{unit}]"), (12, TITLE / 2), 22.0, HPos::Left)?;
    for (number, figures) in panels.iter().enumerate() {
        let x = (number % columns) as i32 * WIDTH + 12;
        let y = TITLE + (number / columns) as i32 * height;
        panel(&root, figures, (x, y))?;
    }
    Ok(root.present()?)
}

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the figures of one name, on a scale of their own.
fn panel(root: &Root<'_>, figures: &[&Figure], (x, y): (i32, i32)) -> Drawn {
    write(root, &figures[0].name, (x, y + TITLE / 2), 18.0, HPos::Left)?;
    let most = figures.iter().map(|figure| figure.value).fold(f64::MIN_POSITIVE, f64::max);
    for (bar, figure) in figures.iter().enumerate() {
        let (from, top) = (x + LABEL, y + TITLE + bar as i32 * BAR);
        let length = (f64::from(WIDTH - LABEL - VALUE - 24) * figure.value / most) as i32;
        let ours = figure.contender.starts_with(contender::OURS);
        let colour = if ours { OURS } else { THEIRS };
        let corners = [(from, top + 3), (from + length, top + BAR - 3)];
        root.draw(&Rectangle::new(corners, colour.filled()))?;
        let middle = top + BAR / 2;
        write(root, &figure.contender, (from - 6, middle), 15.0, HPos::Right)?;
        write(root, &grouped(figure.value), (from + length + 5, middle), 15.0, HPos::Left)?;
    }
    Ok(())
}

fn write(root: &Root<'_>, text: &str, at: (i32, i32), size: f64, from: HPos) -> Drawn {
    let style = TextStyle::from(("sans-serif", size).into_font());
    let style = style.color(&INK).pos(Pos::new(from, VPos::Center));
    Ok(root.draw(&Text::new(text, at, style))?)
}
