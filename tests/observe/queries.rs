//! What the board and the alerts ask for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::read;

/// A query, and where it is from.
pub(crate) struct Query {
    pub(crate) from: String,
    pub(crate) text: String,
}

/// One series of a scrape.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
}

/// A metric's name in a query, with the values that its labels may have.
#[derive(Debug)]
pub(crate) struct Selector {
    pub(crate) name: String,
    labels: Vec<(String, Vec<String>)>,
}

impl Selector {
    /// Whether it asks for this series.
    pub(crate) fn asks_for(&self, series: &Series) -> bool {
        self.name == series.name
            && self.labels.iter().all(|(label, values)| {
                series.labels.get(label).is_some_and(|has| values.contains(has))
            })
    }

    /// One selector for each value that it lists: each must be there.
    fn each(self) -> Vec<Self> {
        let mut each = vec![Self { name: self.name, labels: Vec::new() }];
        for (label, values) in self.labels {
            let with = |one: &Self, value: &String| {
                let mut labels = one.labels.clone();
                labels.push((label.clone(), vec![value.clone()]));
                Self { name: one.name.clone(), labels }
            };
            each = each
                .iter()
                .flat_map(|one| values.iter().map(move |value| with(one, value)))
                .collect();
        }
        each
    }
}

/// All queries of the board: those of panels, of variables and of annotations.
pub(crate) fn board() -> Vec<Query> {
    let board: Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let mut queries = Vec::new();
    collect(&board, "board", &mut queries);
    queries
}

fn collect(value: &Value, from: &str, queries: &mut Vec<Query>) {
    match value {
        Value::Object(fields) => {
            let title = fields.get("title").and_then(Value::as_str).unwrap_or(from);
            for (name, value) in fields {
                let text = value.as_str().filter(|_| ["expr", "query"].contains(&name.as_str()));
                // The kind of the data source is no query.
                match text.filter(|text| *text != "prometheus") {
                    Some(text) => queries.push(Query { from: title.into(), text: text.into() }),
                    None => collect(value, title, queries),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, from, queries)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The rules, as they are written.
pub(crate) fn rules() -> Vec<Value> {
    let alerts: Value = serde_yaml_ng::from_str(&read("alerts.yml")).expect("YAML");
    let groups = alerts["groups"].as_array().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

/// All queries of the alerts.
pub(crate) fn alerts() -> Vec<Query> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let query = |rule: Value| Query { from: text(&rule["alert"]), text: text(&rule["expr"]) };
    rules().into_iter().map(query).collect()
}

/// Each metric that a query names, with the labels it must have. A label that a variable of the board chooses is
/// Prometheus's `job`, or the filter's name.
pub(crate) fn selectors(query: &str) -> Vec<Selector> {
    let mut selectors = Vec::new();
    for (name, rest) in names(query) {
        let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let matchers = inside.map_or("", |(inside, _)| inside);
        let labels = matchers.split(", ").filter(|matcher| !matcher.is_empty()).map(matched);
        let labels = labels.filter(|(label, _)| label != "job" && label != "filter").collect();
        selectors.extend(Selector { name: name.to_owned(), labels }.each());
    }
    selectors
}

fn matched(matcher: &str) -> (String, Vec<String>) {
    let (label, value) = matcher.split_once('=').expect("a matcher");
    let value = value.trim_start_matches('~').trim_matches('"');
    match label.strip_suffix('!') {
        // Any other value would do, and the outcomes of histograms have this one.
        Some(label) => (label.to_owned(), vec![value.to_owned()]),
        None => (label.to_owned(), value.split('|').map(str::to_owned).collect()),
    }
}

/// Where a metric's name begins, and what follows it.
fn names(query: &str) -> Vec<(&str, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(is_word) {
        let word = rest[start..].split(|c| !is_word(c)).next().unwrap_or_default();
        rest = &rest[start + word.len()..];
        if word.starts_with("bloom_guard_") || word == "ALERTS" {
            found.push((word, rest));
        }
    }
    found
}

/// The labels that a text shows: `{{filter}}` of the board, `{{ $labels.filter }}` of the alerts.
pub(crate) fn shown(text: &str) -> Vec<String> {
    let shown = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    let shown = shown.map(|inside| inside.trim().trim_start_matches("$labels."));
    shown.filter(|inside| !inside.starts_with("$value")).map(str::to_owned).collect()
}

/// The labels that a query groups by.
pub(crate) fn grouped_by(query: &str) -> Vec<String> {
    let groups = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    groups.flat_map(|group| group.split(", ").map(str::to_owned)).collect()
}

/// Reads a scrape.
pub(crate) fn scraped(text: &str) -> Vec<(Series, f64)> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (Series::read(series), value.parse().expect("a number"))
        })
        .collect()
}

impl Series {
    /// Reads a name with labels.
    pub(crate) fn read(text: &str) -> Self {
        let (name, labels) = text.split_once('{').unwrap_or((text, ""));
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        let labels = labels.map(|label| {
            let (label, value) = label.trim().split_once('=').expect("a label");
            (label.to_owned(), value.trim_matches('"').to_owned())
        });
        Self { name: name.to_owned(), labels: labels.collect() }
    }
}
