//! Charts of the figures: bars, ours in colour.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Figure, Report, grouped};
use crate::{checks, http};

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
    let local: Vec<String> = report.names().filter(|name| name.starts_with("look-up")).collect();
    let charts = [
        ("checks.svg", "Checks", checks::names()),
        ("fill.svg", "Filling a filter", vec!["fill".to_owned()]),
        ("local.svg", "Look-ups in one process", local),
        ("http_requests.svg", "HTTP requests", http::names("requests")),
        ("http_p99.svg", "HTTP latency, 99th percentile", http::names("p99")),
        ("http_queries.svg", "Database queries", http::names("queries of 1,000 requests")),
    ];
    for (file, title, names) in charts {
        let panels = names.iter().map(|name| report.of(name).collect::<Vec<_>>());
        let panels: Vec<Vec<&Figure>> = panels.filter(|panel| !panel.is_empty()).collect();
        if !panels.is_empty() {
            chart(&directory.join(file), title, &panels).expect("a file that can be written");
        }
    }
}

fn chart(file: &Path, title: &str, panels: &[Vec<&Figure>]) -> Result<(), Box<dyn std::error::Error>> {
    let columns = panels.len().min(COLUMNS);
    let bars = panels.iter().map(Vec::len).max().unwrap_or_default();
    let height = TITLE + bars as i32 * BAR + BAR;
    let size = (columns as i32 * WIDTH, TITLE + panels.len().div_ceil(columns) as i32 * height);
    let root = SVGBackend::new(file, (size.0 as u32, size.1 as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: f64, pos| TextStyle::from(("sans-serif", size).into_font()).color(&INK).pos(pos);
    let (left, right) = (Pos::new(HPos::Left, VPos::Center), Pos::new(HPos::Right, VPos::Center));
    let unit = panels[0][0].unit;
    root.draw(&Text::new(format!("{title} [{unit}]"), (12, TITLE / 2), text(18.0, left)))?;
    for (number, panel) in panels.iter().enumerate() {
        let x = (number % columns) as i32 * WIDTH + 12;
        let y = TITLE + (number / columns) as i32 * height;
        root.draw(&Text::new(panel[0].name.clone(), (x, y + TITLE / 2), text(14.0, left)))?;
        let most = panel.iter().map(|figure| figure.value).fold(f64::MIN_POSITIVE, f64::max);
        for (bar, figure) in panel.iter().enumerate() {
            let (from, top) = (x + LABEL, y + TITLE + bar as i32 * BAR);
            let middle = top + BAR / 2;
            let ours = figure.contender.starts_with(crate::contender::OURS);
            let colour = if ours { OURS } else { THEIRS };
            let length = (f64::from(WIDTH - LABEL - VALUE - 24) * figure.value / most) as i32;
            root.draw(&Text::new(figure.contender.clone(), (from - 6, middle), text(12.0, right)))?;
            root.draw(&Rectangle::new([(from, top + 3), (from + length, top + BAR - 3)], colour.filled()))?;
            root.draw(&Text::new(grouped(figure.value), (from + length + 5, middle), text(12.0, left)))?;
        }
    }
    root.present()?;
    Ok(())
}
