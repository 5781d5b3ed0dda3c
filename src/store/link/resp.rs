//! RESP2: commands packed into bytes, and values read from them. The client's own parser takes ten times as long.

use std::io;
use std::str::FromStr;

use ::redis::{Cmd, Value, parse_redis_value};

/// Commands that are sent together.
#[derive(Default)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    /// How many replies are due.
    pub(crate) commands: usize,
    /// By how many bytes the replies may be longer than usual.
    more: usize,
}

impl Packed {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    pub(crate) fn for_long_replies(self, more: usize) -> Self {
        Self { more, ..self }
    }

    /// Returns the most bytes that the replies may take, so that memory is bounded. An INFO fits; for each command an error, a
    /// number for each word, or a block of the filter.
    pub(crate) fn room(&self) -> usize {
        LINE + self.commands * SHORT + self.bytes.len() + self.more
    }

    /// Begins a command of `words` words, its name among them.
    pub(crate) fn begin(&mut self, words: usize) {
        self.line(b'*', words);
        self.commands += 1;
    }

    /// Adds a word of the command that was begun. It may come in parts.
    pub(crate) fn word(&mut self, parts: &[&[u8]]) {
        self.line(b'$', parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn number(&mut self, number: usize) {
        self.word(&[itoa::Buffer::new().format(number).as_bytes()]);
    }

    fn line(&mut self, kind: u8, number: usize) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

impl From<Cmd> for Packed {
    fn from(command: Cmd) -> Self {
        Self::from_iter([command])
    }
}

impl FromIterator<Cmd> for Packed {
    fn from_iter<T: IntoIterator<Item = Cmd>>(commands: T) -> Self {
        let mut packed = Self::default();
        for command in commands {
            packed.bytes.extend(command.get_packed_command());
            packed.commands += 1;
        }
        packed
    }
}

/// The longest first line of a reply: Redis sends no error that is longer.
pub(crate) const LINE: usize = 64 << 10;
/// The bytes that each reply may take, however short its command.
const SHORT: usize = 512;
/// How deep arrays may be nested.
const DEPTH: usize = 8;

/// Returns a line's kind, its text and what follows, once all of it has come.
fn line(input: &[u8]) -> io::Result<Option<(u8, &str, &[u8])>> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return if input.len() < LINE { Ok(None) } else { Err(not_resp()) };
    };
    let (line, rest) = input.split_at(end + 1);
    let [kind, text @ .., b'\r', b'\n'] = line else { return Err(not_resp()) };
    let text = std::str::from_utf8(text).map_err(|_| not_resp())?;
    Ok(Some((*kind, text, rest)))
}

fn number<N: FromStr>(text: &str) -> io::Result<N> {
    text.parse().map_err(|_| not_resp())
}

/// Reads values however they come in.
#[derive(Default)]
pub(super) struct Reader {
    /// Arrays that have begun, the innermost last: how many values each lacks, and those that have come.
    open: Vec<(u32, Vec<Value>)>,
}

impl Reader {
    /// Takes the next value off some bytes. If not all of it has come, keeps what has come of an array, and returns nothing.
    pub(super) fn read(&mut self, input: &mut &[u8]) -> io::Result<Option<Value>> {
        while let Some((kind, text, mut rest)) = line(input)? {
            let value = match kind {
                b'+' if text == "OK" => Value::Okay,
                b'+' => Value::SimpleString(text.to_owned()),
                b'-' => {
                    let line = &input[..input.len() - rest.len()];
                    parse_redis_value(line).map_err(|_| not_resp())?
                }
                b':' => Value::Int(number(text)?),
                b'$' | b'*' if text == "-1" => Value::Nil,
                b'$' => {
                    let len = (number::<u32>(text)? as usize).saturating_add(2);
                    let Some((bytes, behind)) = rest.split_at_checked(len) else { break };
                    rest = behind;
                    Value::BulkString(bytes.strip_suffix(b"\r\n").ok_or_else(not_resp)?.to_vec())
                }
                b'*' if self.open.len() == DEPTH => return Err(not_resp()),
                b'*' => match number::<u32>(text)? {
                    0 => Value::Array(Vec::new()),
                    missing => {
                        self.open.push((missing, Vec::new()));
                        *input = rest;
                        continue;
                    }
                },
                _ => return Err(not_resp()),
            };
            *input = rest;
            if let Some(whole) = self.add(value) {
                return Ok(Some(whole));
            }
        }
        Ok(None)
    }

    /// Adds a value to the array that it is in. Returns the outermost array if that is whole now, or a value that is in none.
    fn add(&mut self, mut value: Value) -> Option<Value> {
        while let Some((missing, mut items)) = self.open.pop() {
            items.push(value);
            if missing > 1 {
                self.open.push((missing - 1, items));
                return None;
            }
            value = Value::Array(items);
        }
        Some(value)
    }
}

fn not_resp() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "redis speaks another protocol")
}

#[cfg(test)]
pub(crate) mod tests {
    use ::redis::{cmd, pipe};

    use super::*;

    const REPLIES: &[u8] = b"*2\r\n:7\r\n*3\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n+OK\r\n$0\r\n\r\n*-1\r\n:-12\r\n-ERR no\r\n";

    /// Reads values, all of which have come.
    pub(crate) fn values(mut bytes: &[u8]) -> Vec<Value> {
        let mut values = Vec::new();
        while !bytes.is_empty() {
            values.push(Reader::default().read(&mut bytes).unwrap().expect("a whole reply"));
        }
        values
    }

    fn text(bytes: &[u8]) -> Value {
        Value::BulkString(bytes.to_vec())
    }

    #[test]
    fn values_are_as_the_client_reads_them_once_all_of_them_has_come() {
        let items = Value::Array(vec![text(b"a\r\n"), Value::Nil, Value::Array(Vec::new())]);
        let expected = [
            Value::Array(vec![Value::Int(7), items]),
            Value::Okay,
            text(b""),
            Value::Nil,
            Value::Int(-12),
        ];
        let read_all = values(REPLIES);
        assert_eq!(read_all[..5], expected);
        let mut parser = ::redis::Parser::new();
        let mut rest = REPLIES;
        let by_the_client: Vec<_> =
            read_all.iter().map(|_| parser.parse_value(&mut rest).unwrap()).collect();
        assert_eq!(read_all, by_the_client);
        let mut reader = Reader::default();
        let (mut pending, mut in_pieces) = (Vec::new(), Vec::new());
        for byte in REPLIES {
            pending.push(*byte);
            let mut rest = pending.as_slice();
            in_pieces.extend(reader.read(&mut rest).unwrap());
            pending = rest.to_vec();
        }
        assert_eq!((in_pieces, pending), (read_all, Vec::new()));
    }

    #[test]
    fn what_is_not_resp2_is_no_reply() {
        for input in [
            "\n",
            "\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "%1\r\n",
            "_\r\n",
            "$x\r\n",
            "$-2\r\n",
            "*\r\n",
            ":1\n",
            ":9223372036854775808\r\n",
            "$9223372036854775808\r\n",
            "$2\r\nabXX",
            &"*1\r\n".repeat(10_000),
            &"+".repeat(LINE),
        ] {
            let told = Reader::default().read(&mut input.as_bytes()).unwrap_err().to_string();
            assert!(told.contains("another protocol"), "{told}: {input:?}");
        }
    }

    #[test]
    fn commands_are_packed_as_the_client_packs_them() {
        let mut packed = Packed::default();
        packed.begin(1);
        packed.word(&[b"PING"]);
        packed.begin(4);
        packed.word(&[b"GETRANGE"]);
        packed.word(&[b"bg:{", b"", b"users}"]);
        packed.number(0);
        packed.number(1_234_567);
        let range = cmd("GETRANGE").arg("bg:{users}").arg(0).arg(1_234_567).clone();
        let collected = Packed::from_iter([cmd("PING"), range.clone()]);
        let mut expected = pipe();
        expected.cmd("PING").add_command(range);
        assert_eq!((&packed.bytes, packed.commands), (&collected.bytes, collected.commands));
        assert_eq!(packed.bytes, expected.get_packed_pipeline());
    }
}
