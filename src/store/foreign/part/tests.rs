//! What is made of the evidence.

use super::*;

const RUN: u32 = 7;

fn part(filter: &ForeignFilter) -> Arc<Part> {
    let endpoint = Endpoint::parse("redis://localhost").unwrap();
    Part::new(filter, "key", &endpoint, &Settings::new("users".to_owned()))
}

fn value(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn config() -> Value {
    Value::Array(vec![value("20"), value("7")])
}

#[test]
fn no_odd_reply_is_evidence() {
    let part = part(&ForeignFilter::redisson("key"));
    let read = |replies: [Value; 3]| part.read(&mut replies.into_iter(), RUN);
    assert!(read([value("ended"), config(), Value::Int(3)]).is_ok());
    for odd in [
        [Value::Int(0), config(), Value::Int(3)],
        [Value::Nil, Value::Nil, Value::Int(3)],
        [Value::Nil, Value::Array(vec![Value::Int(1); 2]), Value::Int(3)],
        [Value::Nil, config(), Value::Nil],
        [Value::Nil, config(), Value::Int(-1)],
    ] {
        assert!(read(odd.clone()).is_err(), "{odd:?}");
    }
    let module = ForeignFilter::redisbloom("key").layout;
    for odd in [Value::Nil, Value::Int(1), Value::Array(vec![value("Size"), Value::Int(1)])] {
        assert!(module.extent(Reply::new("a test", odd.clone())).is_err(), "{odd:?}");
    }
}

#[test]
fn no_odd_reply_is_an_absence_and_none_acknowledges_an_insert() {
    let all = |value: Value| Value::Array(vec![value; 14]);
    assert_eq!(held(Reply::new(STEP, all(Value::Int(0))), 7, 2).unwrap(), [false; 2]);
    assert_eq!(held(Reply::new(STEP, all(Value::Int(1))), 7, 2).unwrap(), [true; 2]);
    assert_eq!(held(Reply::new(STEP, Value::Array(Vec::new())), 0, 2).unwrap(), [true; 2]);
    for odd in [
        Value::Nil,
        Value::Okay,
        Value::Int(0),
        value("0"),
        all(Value::Nil),
        all(Value::Int(2)),
        all(value("0")),
        Value::Array(vec![Value::Int(0); 13]),
        Value::Array(vec![Value::Int(0); 15]),
    ] {
        assert!(held(Reply::new(STEP, odd.clone()), 7, 2).is_err(), "{odd:?}");
    }
    for odd in [Value::Nil, Value::Okay, all(Value::Nil)] {
        assert!(is_added(Reply::new("a test", odd.clone())).is_err(), "{odd:?}");
    }
}

#[test]
fn a_statement_holds_for_the_process_the_filter_and_the_length_that_are_stated() {
    let part = part(&ForeignFilter::redisson("key"));
    let generation = Generation::new(17).unwrap();
    let size = BloomSize { bits: 20, hashes: 7 };
    let of = part.of.clone();
    let stated = Statement { run: RUN, generation, ids: 1, capacity: 2, length: 3, size, of };
    let of_another = Statement { of: "go-zero".to_owned(), ..stated.clone() };
    let other_numbers = || Value::Array(vec![value("21"), value("7")]);
    let no_numbers = || Value::Array(vec![Value::Nil, Value::Nil]);
    for (stored, numbers, bytes, run, holds) in [
        (value(&stated.encode()), config(), 3, RUN, Ok(())),
        (Value::Nil, config(), 3, RUN, Err(Doubt::NoFilter)),
        (value("ended"), config(), 3, RUN, Err(Doubt::Gone)),
        (value(&stated.encode()), config(), 3, RUN + 1, Err(Doubt::Suspect)),
        (value(&of_another.encode()), config(), 3, RUN, Err(Doubt::Damaged)),
        (value(&stated.encode()), other_numbers(), 3, RUN, Err(Doubt::Damaged)),
        (value(&stated.encode()), no_numbers(), 3, RUN, Err(Doubt::Damaged)),
        (value(&stated.encode()), config(), 0, RUN, Err(Doubt::Gone)),
        (value(&stated.encode()), config(), 2, RUN, Err(Doubt::Damaged)),
        (value(&stated.encode()), config(), 4, RUN, Err(Doubt::Damaged)),
    ] {
        let what = format!("{stored:?} {numbers:?} {bytes} {run}");
        let read = part.read(&mut [stored, numbers, Value::Int(bytes)].into_iter(), run);
        let read = read.unwrap();
        assert_eq!(part.trusted(&read).map(drop), holds, "{what}");
    }
    let replies = [value(&stated.encode()), config(), Value::Int(3)];
    let read = part.read(&mut replies.into_iter(), RUN).unwrap();
    part.lose(generation, Doubt::Disproved);
    assert_eq!(part.trusted(&read), Err(Doubt::Disproved), "all is as it was");
}
