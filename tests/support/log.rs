//! What is logged on this thread, line by line.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Metadata, Subscriber};

/// The lines so far, each as `WARN span{field=value}: message field=value`.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    lines: Vec<String>,
    spans: Vec<String>,
    entered: Vec<Id>,
}

impl Log {
    /// Begins to keep what is logged on this thread, until the guard is dropped.
    pub fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let guard = set_default(log.clone());
        (log, guard)
    }

    /// Returns the lines with this text in them.
    pub fn with(&self, text: &str) -> Vec<String> {
        self.0.lock().unwrap().lines.iter().filter(|line| line.contains(text)).cloned().collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("bloom_guard")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text::default();
        span.record(&mut text);
        let mut inner = self.0.lock().unwrap();
        inner.spans.push(format!("{}{{{}}}: ", span.metadata().name(), text.fields.trim()));
        Id::from_u64(inner.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let mut inner = self.0.lock().unwrap();
        let mut line = format!("{} ", event.metadata().level());
        for span in inner.entered.iter().filter(|_| !event.is_root()) {
            line.push_str(&inner.spans[span.into_u64() as usize - 1]);
        }
        line.push_str(&text.message);
        line.push_str(&text.fields);
        inner.lines.push(line);
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(span.clone());
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().entered.pop();
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.message, "{value:?}").unwrap();
        } else {
            write!(self.fields, " {field}={value:?}").unwrap();
        }
    }
}
