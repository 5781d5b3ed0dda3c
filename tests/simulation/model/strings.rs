//! Strings, and bits of strings.

use super::keyspace::{Keyspace, Value, number};
use super::reply::Reply;

impl Keyspace {
    /// Reads a string; none for no key, an error for another type.
    fn text(&mut self, key: &[u8]) -> Result<Option<&Vec<u8>>, Reply> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Reply::wrong_type()),
        }
    }

    fn text_mut(&mut self, key: &[u8]) -> Result<&mut Vec<u8>, Reply> {
        match self.entry(key, || Value::Text(Vec::new())) {
            Value::Text(text) => Ok(text),
            _ => Err(Reply::wrong_type()),
        }
    }

    pub(crate) fn run_text(&mut self, name: &str, args: &[&[u8]]) -> Option<Reply> {
        let reply = match (name, args) {
            ("GET", [key]) => self.text(key).map(|text| text.map_or(Reply::Nil, Reply::bulk)),
            ("MGET", []) => Ok(Reply::error("ERR wrong number of arguments for 'mget' command")),
            ("MGET", keys) => {
                let mut texts = Vec::new();
                for key in keys {
                    let text = self.text(key).ok().flatten();
                    texts.push(text.map_or(Reply::Nil, Reply::bulk));
                }
                Ok(Reply::Array(texts))
            }
            ("SET", [key, value, options @ ..]) => self.set(key, value, options),
            ("STRLEN", [key]) => {
                self.text(key).map(|text| Reply::Int(text.map_or(0, |text| text.len() as i64)))
            }
            ("GETRANGE", [key, from, to]) => self
                .text(key)
                .map(|text| Reply::bulk(range(text.map_or(&[], Vec::as_slice), from, to))),
            ("SETRANGE", [key, offset, value]) => self.set_range(key, offset, value),
            ("SETBIT", [key, offset, bit]) => self.set_bit(key, number(offset) as usize, bit),
            ("BITCOUNT", [key, from, to]) => self.text(key).map(|text| {
                let bytes = range(text.map_or(&[], Vec::as_slice), from, to);
                Reply::Int(bytes.iter().map(|byte| i64::from(byte.count_ones())).sum())
            }),
            ("BITOP", [b"OR", to, first, second]) => self.bit_or(to, first, second),
            ("BITFIELD" | "BITFIELD_RO", [key, gets @ ..]) => self.bit_field(key, gets),
            _ => return None,
        };
        Some(reply.unwrap_or_else(|error| error))
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[&[u8]]) -> Result<Reply, Reply> {
        let (mut ends, mut only_new) = (None, false);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => only_new = true,
                b"PX" => {
                    let life = number(options.next().expect("PX has an argument"));
                    if life <= 0 {
                        return Err(Reply::error("ERR invalid expire time in 'set' command"));
                    }
                    ends = Some(self.now_ms() + life as u64);
                }
                other => panic!("the model does not know SET's option {other:?}"),
            }
        }
        if only_new && self.get(key).is_some() {
            return Ok(Reply::Nil);
        }
        self.put(key, Value::Text(value.to_vec()), ends);
        Ok(Reply::ok())
    }

    fn set_range(&mut self, key: &[u8], offset: &[u8], value: &[u8]) -> Result<Reply, Reply> {
        let offset = number(offset) as usize;
        if value.is_empty() {
            return self.text(key).map(|text| Reply::Int(text.map_or(0, |text| text.len() as i64)));
        }
        let text = self.text_mut(key)?;
        let end = offset + value.len();
        if text.len() < end {
            text.resize(end, 0);
        }
        text[offset..end].copy_from_slice(value);
        Ok(Reply::Int(text.len() as i64))
    }

    fn set_bit(&mut self, key: &[u8], offset: usize, bit: &[u8]) -> Result<Reply, Reply> {
        let text = self.text_mut(key)?;
        if text.len() <= offset >> 3 {
            text.resize((offset >> 3) + 1, 0);
        }
        let (byte, mask) = (&mut text[offset >> 3], 0x80 >> (offset & 7));
        let before = *byte & mask != 0;
        *byte = if bit == b"1" { *byte | mask } else { *byte & !mask };
        Ok(Reply::Int(i64::from(before)))
    }

    fn bit_or(&mut self, to: &[u8], first: &[u8], second: &[u8]) -> Result<Reply, Reply> {
        let mut text = self.text(first)?.cloned().unwrap_or_default();
        let other = self.text(second)?.cloned().unwrap_or_default();
        text.resize(text.len().max(other.len()), 0);
        text.iter_mut().zip(other).for_each(|(byte, more)| *byte |= more);
        let len = text.len() as i64;
        self.put(to, Value::Text(text), None);
        Ok(Reply::Int(len))
    }

    /// BITFIELD with nothing but GETs, which is how the guard asks.
    fn bit_field(&mut self, key: &[u8], gets: &[&[u8]]) -> Result<Reply, Reply> {
        let text = self.text(key)?.map_or(&[] as &[u8], Vec::as_slice);
        let get = |get: &[&[u8]]| {
            assert_eq!(get[0], b"GET", "the model knows BITFIELD's GET only");
            let (kind, width) = get[1].split_first().expect("a type");
            let (width, first) = (number(width) as usize, number(get[2]) as usize);
            assert!(
                matches!((kind, width), (b'i', 64) | (b'u', 1..=63)),
                "the model reads no other"
            );
            let bit = |at: usize| text.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
            let value = (first..first + width).fold(0, |value, at| value << 1 | u64::from(bit(at)));
            Reply::Int(value.cast_signed())
        };
        Ok(Reply::Array(gets.chunks_exact(3).map(get).collect()))
    }
}

/// The bytes from one index to another, both counted from the end where negative.
fn range<'a>(text: &'a [u8], from: &[u8], to: &[u8]) -> &'a [u8] {
    let len = text.len() as i64;
    let index = |text: &[u8]| {
        let index = number(text);
        (if index < 0 { index + len } else { index }).max(0)
    };
    let (from, to) = (index(from), index(to).min(len - 1));
    if from > to { &[] } else { &text[from as usize..=to as usize] }
}
