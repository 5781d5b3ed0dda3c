//! An open connection: requests go out in the order in which they came, and each gets the replies to its commands.

use std::collections::VecDeque;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use ::redis::{RedisError, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::resp::{Packed, Reader};
use super::transport::{Transport, words};
use crate::store::BoxFuture;

/// Requests queued on a connection before callers wait.
pub(crate) const QUEUE: usize = 1024;
/// Requests that wait leave together, up to about this number of bytes.
const TOGETHER: usize = 64 << 10;
/// How many bytes are read at once.
const READ: usize = 16 << 10;

/// The near end of an open connection.
pub(crate) struct Driver {
    requests: mpsc::Sender<Request>,
    /// Why the connection has ended.
    ended: Arc<OnceLock<String>>,
    pub(super) local: Option<SocketAddr>,
    /// They end with it.
    pub(super) tasks: JoinSet<()>,
}

type Answer = oneshot::Sender<RedisResult<Vec<Value>>>;

struct Request {
    packed: Packed,
    /// None where nobody waits for it.
    answer: Option<Answer>,
}

struct Sent {
    commands: usize,
    /// How many bytes the replies that are missing may take.
    room: usize,
    replies: Vec<Value>,
    answer: Option<Answer>,
}

impl Driver {
    pub(crate) fn new(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (requests, mut received) = mpsc::channel(QUEUE);
        let ended = Arc::new(OnceLock::new());
        let why = Arc::clone(&ended);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut sent = VecDeque::new();
            if let Err(error) = drive(stream, &mut received, &mut sent).await {
                // Redis may have refused the first request, and hung up.
                let refused = sent.front().and_then(|first| refusal(&first.replies));
                // Requests that wait read it when their senders are dropped, which is after this.
                why.get_or_init(|| refused.map_or_else(|| error.to_string(), |it| words(&it)));
            }
        });
        Self { requests, ended, local: None, tasks }
    }

    fn has_ended(&self) -> RedisError {
        let why = self.ended.get().map_or("the connection has ended", String::as_str);
        io::Error::new(io::ErrorKind::BrokenPipe, why.to_owned()).into()
    }
}

impl Transport for Driver {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        Box::pin(async move {
            if packed.commands == 0 {
                return Ok(Vec::new());
            }
            let (answer, answered) = oneshot::channel();
            let request = Request { packed, answer: Some(answer) };
            let sent = self.requests.send(request).await;
            sent.map_err(|_| self.has_ended())?;
            answered.await.map_err(|_| self.has_ended())?
        })
    }

    fn tell(&self, packed: Packed) {
        self.requests.try_send(Request { packed, answer: None }).ok();
    }

    fn local(&self) -> Option<SocketAddr> {
        self.local
    }
}

/// Sends requests and hands out replies until the connection ends or the [`Driver`] is dropped.
async fn drive(
    stream: impl AsyncRead + AsyncWrite,
    requests: &mut mpsc::Receiver<Request>,
    sent: &mut VecDeque<Sent>,
) -> io::Result<()> {
    let (mut reader, mut writer) = split(stream);
    let mut input = Vec::with_capacity(READ);
    let mut values = Reader::default();
    let mut output = Cursor::<Vec<u8>>::default();
    loop {
        let is_sent = output.get_ref().is_empty();
        let sending = async {
            writer.write_all_buf(&mut output).await?;
            writer.flush().await
        };
        tokio::select! {
            biased;
            request = requests.recv(), if is_sent => {
                let Some(request) = request else { return Ok(()) };
                let output = output.get_mut();
                take(request, output, sent);
                while output.len() < TOGETHER && let Ok(request) = requests.try_recv() {
                    take(request, output, sent);
                }
            }
            flushed = sending, if !is_sent => {
                flushed?;
                output = Cursor::default();
            }
            read = reader.read_buf(&mut input) => {
                if read? == 0 {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "redis has closed the connection"));
                }
                give(&mut input, sent, &mut values)?;
                input.reserve(READ);
            }
        }
    }
}

fn take(request: Request, output: &mut Vec<u8>, sent: &mut VecDeque<Sent>) {
    let Request { packed, answer } = request;
    if answer.as_ref().is_some_and(Answer::is_closed) {
        return;
    }
    let replies = Vec::with_capacity(packed.commands);
    sent.push_back(Sent { commands: packed.commands, room: packed.room(), replies, answer });
    if output.is_empty() {
        *output = packed.bytes;
    } else {
        output.extend_from_slice(&packed.bytes);
    }
}

/// Gives whole replies to the requests that wait for them.
fn give(input: &mut Vec<u8>, sent: &mut VecDeque<Sent>, values: &mut Reader) -> io::Result<()> {
    let mut rest = input.as_slice();
    while let Some(begins) = rest.first() {
        // All of it belongs to the first request that waits.
        let Some(first) = sent.front_mut() else {
            if *begins != b'-' {
                return Err(odd("a reply that nobody waits for"));
            }
            // It may say why Redis hangs up.
            let said = values.read(&mut rest)?.and_then(|said| refusal(&[said]));
            match said {
                Some(error) => return Err(io::Error::other(words(&error))),
                None => break,
            }
        };
        let before = rest.len();
        let value = values.read(&mut rest)?;
        let come = if value.is_some() { before - rest.len() } else { before };
        if come > first.room {
            return Err(odd("redis sends more than it was asked for"));
        }
        first.room -= before - rest.len();
        let Some(value) = value else { break };
        first.replies.push(value);
        if first.replies.len() == first.commands
            && let Some(Sent { replies, answer, .. }) = sent.pop_front()
        {
            // Its caller may have gone.
            answer.map(|answer| answer.send(refusal(&replies).map_or(Ok(replies), Err)));
        }
    }
    let given = input.len() - rest.len();
    input.drain(..given);
    Ok(())
}

fn refusal(replies: &[Value]) -> Option<RedisError> {
    replies.iter().find_map(|reply| match reply {
        Value::ServerError(error) => Some(error.clone().into()),
        _ => None,
    })
}

fn odd(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    mod scripted;

    use tokio::io::{DuplexStream, duplex};

    use super::*;
    use crate::store::link::resp::LINE;
    use crate::store::link::resp::tests::values;

    /// A connection, and Redis's end of it.
    fn connected() -> (Driver, DuplexStream) {
        let (near, far) = duplex(1 << 20);
        (Driver::new(near), far)
    }

    fn request(commands: usize) -> Packed {
        let mut packed = Packed::default();
        for _ in 0..commands {
            packed.begin(1);
            packed.word(&[b"PING"]);
        }
        packed
    }

    /// Waits for `commands` commands.
    async fn receive(redis: &mut DuplexStream, commands: usize) {
        redis.read_exact(&mut vec![0; request(commands).bytes.len()]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_gets_its_own_replies_however_they_come_in() {
        let (driver, mut redis) = connected();
        let replies: [&[u8]; 3] =
            [b":1\r\n*2\r\n:2\r\n$-1\r\n", b"$3\r\n\r\n:\r\n", b":4\r\n:5\r\n:6\r\n"];
        let asked = async {
            tokio::join!(driver.send(request(2)), driver.send(request(1)), driver.send(request(3)))
        };
        let answering = async {
            receive(&mut redis, 6).await;
            for byte in replies.concat() {
                redis.write_all(&[byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let ((first, second, third), ()) = tokio::join!(asked, answering);
        assert_eq!([first, second, third].map(Result::unwrap), replies.map(values));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_leaves_its_replies_to_nobody() {
        let (driver, mut redis) = connected();
        let given_up = driver.send(request(1));
        tokio::select! {
            biased;
            _ = given_up => panic!("redis has not replied"),
            () = receive(&mut redis, 1) => {}
        }
        let answering = async {
            receive(&mut redis, 1).await;
            redis.write_all(b":1\r\n:2\r\n").await.unwrap();
        };
        let (answer, ()) = tokio::join!(driver.send(request(1)), answering);
        assert_eq!(answer.unwrap(), [Value::Int(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_the_answer_to_its_own_request_only_however_it_comes_in() {
        for piece in [1, 5, 100] {
            let (driver, mut redis) = connected();
            let answering = async {
                receive(&mut redis, 4).await;
                for piece in b":1\r\n-OOM first\r\n-ERR second\r\n:4\r\n".chunks(piece) {
                    redis.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            let (refused, answer, ()) =
                tokio::join!(driver.send(request(3)), driver.send(request(1)), answering);
            let refused = refused.unwrap_err();
            assert_eq!((refused.code(), refused.detail()), (Some("OOM"), Some("first")), "{piece}");
            assert_eq!(answer.unwrap(), [Value::Int(4)]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_of_no_commands_takes_no_replies() {
        let (driver, mut redis) = connected();
        assert_eq!(driver.send(request(0)).await.unwrap(), []);
        let answering = async {
            receive(&mut redis, 1).await;
            redis.write_all(b":1\r\n").await.unwrap();
        };
        let (answer, ()) = tokio::join!(driver.send(request(1)), answering);
        assert_eq!(answer.unwrap(), [Value::Int(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_nobody_waits_for_is_given_to_nobody_and_ends_the_connection() {
        for (unasked, told) in [
            (":0\r\n", "nobody waits for"),
            ("-ERR max number of clients reached\r\n", "max number"),
        ] {
            let (driver, mut redis) = connected();
            redis.write_all(unasked.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            let error = driver.send(request(1)).await.unwrap_err();
            assert!(error.is_io_error() && error.to_string().contains(told), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_why_the_connection_has_ended() {
        for (last, told) in [("", "closed"), ("HTTP/1.1 400\r\n", "another protocol")] {
            let (driver, mut redis) = connected();
            let ending = async {
                receive(&mut redis, 1).await;
                redis.write_all(last.as_bytes()).await.unwrap();
                drop(redis);
            };
            let (answer, ()) = tokio::join!(driver.send(request(1)), ending);
            for error in [answer.unwrap_err(), driver.send(request(1)).await.unwrap_err()] {
                assert!(error.is_io_error() && error.to_string().contains(told), "{error}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_drops_the_near_end_closes_the_connection_even_where_redis_reads_nothing() {
        let (near, mut far) = duplex(8);
        let driver = Driver::new(near);
        let given_up = driver.send(request(100));
        tokio::select! {
            biased;
            _ = given_up => panic!("there is no room for it"),
            () = tokio::task::yield_now() => {}
        }
        drop(driver);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() <= 8);
    }

    /// Replies without end.
    const ENDLESS: [(&[u8], &[u8]); 7] = [
        (b"$536870912\r\n", b"0123456789"),
        (b"$9223372036854775807\r\n", b"0123456789"),
        (b"*2147483647\r\n", b":1\r\n"),
        (b"", b"*1\r\n"),
        (b"", b"*2\r\n:1\r\n"),
        (b"+", b"0123456789"),
        (b"-ERR ", b"0123456789"),
    ];

    /// Sends a reply without end; returns how much of it was taken before the connection was closed.
    async fn pour(redis: &mut DuplexStream, (begins, goes_on): (&[u8], &[u8])) -> usize {
        const ENOUGH: usize = 8 << 20;
        let piece = goes_on.repeat(100);
        let mut taken = begins.len();
        if redis.write_all(begins).await.is_err() {
            return 0;
        }
        while taken < ENOUGH && redis.write_all(&piece).await.is_ok() {
            taken += piece.len();
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_without_end_ends_the_connection_and_takes_no_more_memory_than_was_asked_for() {
        for endless in ENDLESS {
            for commands in [0, 1, 100] {
                let (near, mut redis) = duplex(1 << 10);
                let driver = Driver::new(near);
                let room = if commands == 0 { LINE } else { request(commands).room() };
                let ask = async {
                    if commands == 0 {
                        Ok(Vec::new())
                    } else {
                        driver.send(request(commands)).await
                    }
                };
                let pouring = async {
                    receive(&mut redis, commands).await;
                    pour(&mut redis, endless).await
                };
                let (answer, taken) = tokio::join!(ask, pouring);
                assert_eq!(answer.is_err(), commands > 0);
                assert!(taken <= room + LINE + 2 * READ, "{taken} of {room}: {endless:?}");
                let error = driver.send(request(1)).await.unwrap_err();
                assert!(error.is_io_error(), "{error}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replies_may_take_all_of_their_room_and_not_a_byte_more() {
        for (over, commands) in [(0, 1), (1, 1), (0, 3), (1, 3)] {
            let (driver, mut redis) = connected();
            let ask = request(commands);
            let text = ask.room() + over - ":1\r\n".len() * (commands - 1) - "$12345\r\n\r\n".len();
            let replies = [
                b":1\r\n".repeat(commands - 1),
                format!("${text}\r\n{}\r\n", "x".repeat(text)).into_bytes(),
            ]
            .concat();
            // The next request's reply is in the same piece.
            let answering = async {
                receive(&mut redis, commands + 1).await;
                redis.write_all(&[&replies[..], b":2\r\n"].concat()).await.unwrap();
            };
            let (answer, next, ()) =
                tokio::join!(driver.send(ask), driver.send(request(1)), answering);
            if over == 0 {
                assert_eq!(answer.unwrap(), values(&replies));
                assert_eq!(next.unwrap(), [Value::Int(2)]);
            } else {
                let told = answer.unwrap_err().to_string();
                assert!(told.contains("more than it was asked for") && next.is_err(), "{told}");
            }
        }
    }
}
