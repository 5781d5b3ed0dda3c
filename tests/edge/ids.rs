//! What is an id at the edges: requests and inserts agree on every text.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use bloom_guard::{
    BloomGuard, ChangeError, IdExtractor, InvalidId, OnInvalid, PathPattern, Schedule, from_iter,
};
use http::{Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use tower::{Layer, ServiceExt};
use uuid::Uuid;

/// Path segments as they arrive, from the plain to the hostile.
fn segments() -> Vec<String> {
    // Among them overlong encodings of "/" and NUL, a surrogate, a lone continuation, and escapes that are none.
    const SHORT: &str = "
        7 007 +7 -7 -0 7.0 7e0 0x7 1_000 abc me 18446744073709551615 18446744073709551616
        99999999999999999999999999 %37 %30%30%37 %2B7 %2D7 %207 7%20 %09 7%0A %00 7%00 %D9%A7
        %EF%BC%97 %2F 7%2F8 %2e%2e %C0%AF %C0%80 %ED%A0%80 %80 %FF 7%FF % 7% %4 %zz %%37
        %u0037 %2537 caf%C3%A9 cafe%CC%81 %C3%84 %F0%9F%92%A9 a+b a;b=c A * {id}
    ";
    let mut segments: Vec<String> = SHORT.split_whitespace().map(str::to_owned).collect();
    for length in [255, 256, 257, 300, 768, 769, 5_000] {
        segments.push("0".repeat(length));
        segments.push("x".repeat(length));
    }
    // The limit is on the decoded bytes.
    for length in [85, 128, 129, 256, 257] {
        segments.push("%C3%A9".repeat(length));
        segments.push("%30".repeat(length));
    }
    segments
}

/// Puts one segment to a guard, as a request and as an insert; returns whether it was an id.
async fn agrees(guard: &BloomGuard, segment: &str) -> bool {
    let handler = tower::service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let status = async || {
        let request = Request::get(format!("/users/{segment}")).body(()).unwrap();
        guard.layer(handler).oneshot(request).await.unwrap().status()
    };
    let invalid = status().await == StatusCode::BAD_REQUEST;
    let Ok(text) = percent_decode_str(segment).decode_utf8() else {
        assert!(invalid, "{segment}: not UTF-8, so nobody can insert it");
        return false;
    };
    match guard.insert(&*text).await {
        Ok(()) => {
            assert!(!invalid, "{segment}: inserted, and yet refused as invalid");
            assert_eq!(status().await, StatusCode::OK, "{segment}: inserted");
        }
        Err(ChangeError::Invalid(_)) => assert!(invalid, "{segment}: only insert refuses it"),
        Err(other) => panic!("{segment}: {other:?}"),
    }
    assert_eq!(guard.check(&*text).await.is_err(), invalid, "{segment}");
    assert_eq!(guard.remove(&*text).await.is_err(), invalid, "{segment}");
    !invalid
}

async fn valid_segments<T>() -> Vec<String>
where
    T: FromStr + Display + 'static,
{
    let guard = BloomGuard::builder("users", PathPattern::<T>::new("/users/{id}").unwrap())
        .in_process()
        .capacity(1_000, 1e-9)
        .rebuild(Schedule::manual(), from_iter(|| [1_u64]))
        .on_invalid(OnInvalid::BadRequest)
        .build()
        .unwrap();
    guard.ready().await;
    let mut valid = Vec::new();
    for segment in segments() {
        if agrees(&guard, &segment).await {
            valid.push(segment);
        }
    }
    valid
}

#[tokio::test]
async fn an_insert_refuses_exactly_what_a_request_is_refused_for() {
    let numbers = valid_segments::<u64>().await;
    let (long, short): (Vec<_>, Vec<_>) = numbers.iter().partition(|segment| segment.len() > 20);
    let spelt = ["7", "007", "+7", "18446744073709551615", "%37", "%30%30%37", "%2B7"];
    assert_eq!(short, spelt);
    assert!(long.iter().all(|zeros| zeros.replace("%30", "0").len() <= 256));

    let texts = valid_segments::<String>().await;
    for segment in segments() {
        let text = percent_decode_str(&segment).decode_utf8();
        let is_text = text.is_ok_and(|text| text.len() <= 256);
        assert_eq!(texts.contains(&segment), is_text, "{segment}");
    }
}

/// The canonical form of an id's text.
fn spelt<T: FromStr + Display + 'static>(text: &str) -> Result<String, InvalidId> {
    let id = PathPattern::<T>::new("/{id}").unwrap().canonical(text)?;
    Ok(String::from_utf8(id.as_bytes().to_vec()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2_000)
    })]

    #[test]
    fn the_canonical_form_is_its_own_canonical_form(
        number: i64,
        bits: u128,
        text in ".{0,90}",
    ) {
        let number = spelt::<i64>(&number.to_string()).unwrap();
        prop_assert_eq!(spelt::<i64>(&number), Ok(number));
        let uuid = spelt::<Uuid>(&Uuid::from_u128(bits).simple().to_string()).unwrap();
        prop_assert_eq!(spelt::<Uuid>(&uuid), Ok(uuid));
        if let Ok(text) = spelt::<String>(&text) {
            prop_assert_eq!(spelt::<String>(&text), Ok(text));
        }
    }
}
