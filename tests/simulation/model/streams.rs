//! Streams, with the nodes by which Redis trims them.

use super::keyspace::{Bytes, Keyspace, Value, number};
use super::reply::Reply;

type EntryId = (u64, u64);

#[derive(Debug, Clone)]
struct Entry {
    id: EntryId,
    fields: Vec<Bytes>,
}

/// A stream: nodes of several entries each, as approximate trimming drops whole nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    nodes: Vec<Node>,
    last: EntryId,
}

#[derive(Debug, Clone, Default)]
struct Node {
    entries: Vec<Entry>,
    /// Entries dropped by an exact trim: they count towards the node's size.
    dropped: usize,
}

/// How far a stream is cut.
enum Trim {
    Length(usize),
    Since(EntryId),
}

impl Stream {
    pub(crate) fn len(&self) -> usize {
        self.nodes.iter().map(|node| node.entries.len()).sum()
    }

    /// What its entries' fields take.
    pub(crate) fn bytes(&self) -> usize {
        self.entries().flat_map(|entry| &entry.fields).map(Vec::len).sum()
    }

    fn push(&mut self, now_ms: u64, fields: Vec<Bytes>, node_entries: usize) -> EntryId {
        let id = if now_ms > self.last.0 { (now_ms, 0) } else { (self.last.0, self.last.1 + 1) };
        self.last = id;
        let full = |node: &Node| node.entries.len() + node.dropped >= node_entries;
        if self.nodes.last().is_none_or(full) {
            self.nodes.push(Node::default());
        }
        let node = self.nodes.last_mut().expect("one was pushed");
        node.entries.push(Entry { id, fields });
        id
    }

    fn trim(&mut self, trim: &Trim, approximate: bool) -> usize {
        let before = self.len();
        loop {
            let len = self.len();
            let Some(node) = self.nodes.first_mut() else { break };
            let over = match trim {
                Trim::Length(max) => len.saturating_sub(*max),
                Trim::Since(id) => node.entries.iter().take_while(|entry| entry.id < *id).count(),
            };
            if over > 0 && over >= node.entries.len() {
                self.nodes.remove(0);
                continue;
            }
            if !approximate {
                node.entries.drain(..over);
                node.dropped += over;
            }
            break;
        }
        before - self.len()
    }

    fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.nodes.iter().flat_map(|node| &node.entries)
    }
}

impl Keyspace {
    /// How many entries a stream has; none where there is no stream.
    pub(crate) fn stream_len(&mut self, key: &[u8]) -> usize {
        match self.get(key) {
            Some(Value::Stream(stream)) => stream.len(),
            _ => 0,
        }
    }

    fn stream(&mut self, key: &[u8]) -> Result<Option<&mut Stream>, Reply> {
        match self.get_mut(key) {
            None => Ok(None),
            Some(Value::Stream(stream)) => Ok(Some(stream)),
            Some(_) => Err(Reply::wrong_type()),
        }
    }

    pub(crate) fn run_stream(&mut self, name: &str, args: &[&[u8]]) -> Option<Reply> {
        let reply = match (name, args) {
            ("XADD", [key, how, b"~", limit, b"*", fields @ ..]) => {
                let trim = trim_of(how, limit);
                self.append(key, fields, Some(&trim))
            }
            ("XADD", [key, b"*", fields @ ..]) => self.append(key, fields, None),
            ("XTRIM", [key, how, b"~", limit]) => self.cut(key, &trim_of(how, limit), true),
            ("XTRIM", [key, how, limit]) => self.cut(key, &trim_of(how, limit), false),
            ("XLEN", [key]) => self
                .stream(key)
                .map(|stream| Reply::Int(stream.map_or(0, |stream| stream.len() as i64))),
            ("XRANGE", [key, from, b"+", b"COUNT", count]) => self.stream(key).map(|stream| {
                let from = start(from);
                let entries = stream.iter().flat_map(|stream| stream.entries());
                shown(entries.skip_while(|entry| entry.id < from), count)
            }),
            ("XREVRANGE", [key, to, from, b"COUNT", count]) => self.stream(key).map(|stream| {
                let from = if *from == b"-" { (0, 0) } else { entry_id(from) };
                // A time alone stands for all entries of it.
                let to = if *to == b"+" { u64::MAX } else { entry_id(to).0 };
                let entries = stream.iter().flat_map(|stream| stream.entries().rev());
                let entries = entries.filter(|entry| entry.id >= from && entry.id.0 <= to);
                shown(entries, count)
            }),
            _ => return None,
        };
        Some(reply.unwrap_or_else(|error| error))
    }

    fn append(
        &mut self,
        key: &[u8],
        fields: &[&[u8]],
        trim: Option<&Trim>,
    ) -> Result<Reply, Reply> {
        let (now, node_entries) = (self.now_ms(), self.node_entries);
        let Value::Stream(stream) = self.entry(key, || Value::Stream(Stream::default())) else {
            return Err(Reply::wrong_type());
        };
        let fields = fields.iter().map(|field| field.to_vec()).collect();
        let (ms, n) = stream.push(now, fields, node_entries);
        if let Some(trim) = trim {
            stream.trim(trim, true);
        }
        Ok(Reply::bulk(format!("{ms}-{n}")))
    }

    fn cut(&mut self, key: &[u8], trim: &Trim, approximate: bool) -> Result<Reply, Reply> {
        let stream = self.stream(key)?;
        Ok(Reply::Int(stream.map_or(0, |stream| stream.trim(trim, approximate) as i64)))
    }
}

fn trim_of(how: &[u8], limit: &[u8]) -> Trim {
    match how {
        b"MAXLEN" => Trim::Length(number(limit) as usize),
        b"MINID" => Trim::Since(entry_id(limit)),
        other => panic!("the model does not know how to trim by {other:?}"),
    }
}

/// Reads `<ms>` or `<ms>-<n>`.
fn entry_id(text: &[u8]) -> EntryId {
    let text = std::str::from_utf8(text).expect("an entry's id is text");
    let (ms, n) = text.split_once('-').unwrap_or((text, "0"));
    (ms.parse().expect("milliseconds"), n.parse().expect("a number"))
}

/// The first entry of a range: `(<id>` leaves the id itself out.
fn start(text: &[u8]) -> EntryId {
    match text {
        [b'(', id @ ..] => {
            let (ms, n) = entry_id(id);
            (ms, n + 1)
        }
        id => entry_id(id),
    }
}

fn shown<'a>(entries: impl Iterator<Item = &'a Entry>, count: &[u8]) -> Reply {
    let show = |entry: &Entry| {
        let fields = entry.fields.iter().cloned().map(Reply::Bulk).collect();
        Reply::Array(vec![
            Reply::bulk(format!("{}-{}", entry.id.0, entry.id.1)),
            Reply::Array(fields),
        ])
    };
    Reply::Array(entries.take(number(count) as usize).map(show).collect())
}
