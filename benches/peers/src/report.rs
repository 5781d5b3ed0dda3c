//! What was measured: medians over rounds, tables with ratios, and the file of figures.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::contender::OURS;

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    pub name: String,
    pub contender: String,
    pub value: f64,
    pub unit: &'static str,
    pub conditions: String,
}

/// What was measured, round for round, in the order in which it was first noted.
#[derive(Default)]
pub struct Rounds(Vec<(String, String, &'static str, Vec<f64>)>);

impl Rounds {
    pub fn note(&mut self, name: &str, contender: &str, unit: &'static str, value: f64) {
        let found = self.0.iter_mut().find(|(n, c, ..)| n == name && c == contender);
        match found {
            Some((.., values)) => values.push(value),
            None => self.0.push((name.to_owned(), contender.to_owned(), unit, vec![value])),
        }
    }

    /// Returns the medians.
    pub fn medians(self, conditions: &str) -> Vec<Figure> {
        let figure = |(name, contender, unit, values)| Figure {
            name,
            contender,
            value: median(values),
            unit,
            conditions: conditions.to_owned(),
        };
        self.0.into_iter().map(figure).collect()
    }
}

/// Returns the median of one value or more.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

/// All figures of a run.
#[derive(Serialize)]
pub struct Report {
    machine: String,
    date: String,
    versions: Vec<String>,
    /// What could not be measured.
    left_out: Vec<String>,
    figures: Vec<Figure>,
}

impl Report {
    pub fn new() -> Self {
        Self {
            machine: machine(),
            date: output("date", &["-u", "+%Y-%m-%dT%H:%MZ"]),
            versions: versions(),
            left_out: Vec::new(),
            figures: Vec::new(),
        }
    }

    pub fn version(&mut self, version: String) {
        if !self.versions.contains(&version) {
            self.versions.push(version);
        }
    }

    /// Says that something is not measured, and why.
    pub fn leave_out(&mut self, why: String) {
        println!("left out: {why}");
        if !self.left_out.contains(&why) {
            self.left_out.push(why);
        }
    }

    pub fn add(&mut self, figures: Vec<Figure>) {
        self.figures.extend(figures);
    }

    /// Returns the figures of this name.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Figure> {
        self.figures.iter().filter(move |figure| figure.name == name)
    }

    /// Returns the figures' names, each once.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let mut names: Vec<String> = Vec::new();
        for figure in &self.figures {
            if !names.contains(&figure.name) {
                names.push(figure.name.clone());
            }
        }
        names.into_iter()
    }

    /// Prints a table: a row a contender, a column a name. Beside each figure is how many times as good ours is.
    pub fn table(&self, title: &str, columns: &[(String, String)]) {
        let Some(first) = columns.iter().find_map(|(name, _)| self.of(name).next()) else { return };
        println!("\n{title} [{}; in brackets how many times as good {OURS} is]", first.unit);
        let mut contenders: Vec<&str> = Vec::new();
        for figure in columns.iter().flat_map(|(name, _)| self.of(name)) {
            if !contenders.contains(&&*figure.contender) {
                contenders.push(&figure.contender);
            }
        }
        let headers: String = columns.iter().map(|(_, header)| format!("{header:>22}")).collect();
        println!("{:34}{headers}", "");
        for contender in contenders {
            let cells =
                columns.iter().map(|(name, _)| format!("{:>22}", self.cell(name, contender)));
            println!("{contender:34}{}", cells.collect::<String>());
        }
    }

    fn cell(&self, name: &str, contender: &str) -> String {
        let value = |contender| self.of(name).find(|figure| figure.contender == contender);
        let Some(figure) = value(contender) else { return "-".to_owned() };
        let ratio = match value(OURS) {
            None => String::new(),
            Some(_) if contender == OURS => String::new(),
            Some(ours) if ours.value == 0.0 || figure.value == 0.0 => "(-)".to_owned(),
            // More a second is better; less of time, memory or queries is.
            Some(ours) if figure.unit.ends_with("/s") => {
                format!("({:.2})", ours.value / figure.value)
            }
            Some(ours) => format!("({:.2})", figure.value / ours.value),
        };
        format!("{} {ratio:>7}", grouped(figure.value))
    }

    /// Writes the figures.
    pub fn write(&self, directory: &Path) {
        let file = directory.join("peers.json");
        let text = serde_json::to_string_pretty(self).expect("numbers and texts");
        fs::write(&file, text + "\n").expect("a directory that can be written");
        println!("\n{} figures in {}", self.figures.len(), file.display());
    }
}

/// Writes a number with three places or more that count, thousands apart.
pub fn grouped(value: f64) -> String {
    match value.abs() {
        0.0 => return "0".to_owned(),
        0.0..1.0 => return format!("{value:.*}", (2.0 - value.abs().log10().floor()) as usize),
        1.0..99.95 => return format!("{value:.2}"),
        _ => {}
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let value = |text: &str, name| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
    format!(
        "{cores} cores of {}, cache {}, memory {}, Linux {}, load {load} at the start",
        value(&cpu, "model name"),
        value(&cpu, "cache size"),
        value(&memory, "MemTotal"),
        kernel.trim()
    )
}

/// What was compiled, by the lock file, and with what.
fn versions() -> Vec<String> {
    const CRATES: [&str; 6] =
        ["axum", "bloom-guard", "fastbloom", "redis", "tokio", "tower-http-cache"];
    let lock = include_str!("../Cargo.lock");
    let quoted = |line: &str, key| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let mut lines = lock.lines();
    let mut versions = vec![output("rustc", &["--version"])];
    while let Some(line) = lines.next() {
        let Some(name) = quoted(line, "name = ").filter(|name| CRATES.contains(&&**name)) else {
            continue;
        };
        let version = lines.next().and_then(|line| quoted(line, "version = ")).unwrap_or_default();
        versions.push(format!("{name} {version}"));
    }
    let here = env!("CARGO_MANIFEST_DIR");
    versions.push(format!(
        "commit {}",
        output("git", &["-C", here, "describe", "--always", "--dirty"])
    ));
    versions
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
