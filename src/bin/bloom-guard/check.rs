//! `check`: what the filter says of ids, and why.

use bloom_guard::inspect::{Filter, Inserts, Looked, Shard};
use bloom_guard::{Doubt, Mode, Proof, Verdict};
use serde_json::{Value, json};

use crate::outcome::{Ending, Outcome, say};
use crate::target::Target;
use crate::words;

/// A process polls at least once in this time, ms; after it, another one has the filter settle.
pub(crate) const AWAY_MS: i64 = 60_000;

/// Says of each id whether the guard refuses it, and why. Only reads.
///
/// Give ids as the guard's extractor writes them: 7 and not 007 where its type is a number, a UUID in lower case.
///
/// Exit status 1: an id is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The ids; what begins with a `-` and is no number goes behind a `--`.
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<String>,
}

/// What becomes of a request for an id, as a process decides that has not found it lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Refused,
    /// It would be, if something else did not have it pass.
    Spared(&'static str),
    /// With the reason, if it is not what the filter says.
    Passes(Option<&'static str>),
    /// Nothing is known: it shares the lane.
    Lane(Doubt),
}

impl Fate {
    pub(crate) fn of(looked: Looked, shard: &Shard) -> Self {
        match (looked.verdict, milder(shard.metadata.mode)) {
            (Verdict::Absent(_), Some(mode)) => Self::Spared(mode),
            (Verdict::Absent(_), None) => Self::of_absent(shard),
            (Verdict::Unknown(_), mode @ Some(_)) => Self::Passes(mode),
            (Verdict::Unknown(doubt), None) => Self::Lane(doubt),
            _ => Self::Passes(None),
        }
    }

    /// What becomes of one that the shard lacks, where the mode is not milder.
    pub(crate) fn of_absent(shard: &Shard) -> Self {
        if shard.metadata.settles_ms > 0 {
            Self::Lane(Doubt::Settling)
        } else if shard.may_evict {
            Self::Spared("Redis may evict any key, unless accept_eviction is set")
        } else {
            Self::Refused
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Spared(_) => "spared",
            Self::Passes(_) => "passes",
            Self::Lane(_) => "lane",
        }
    }

    fn words(self) -> String {
        match self {
            Self::Refused => "refused with 404".to_owned(),
            Self::Spared(why) => format!("let through: {why}; else it would be refused"),
            Self::Passes(None) => "let through".to_owned(),
            Self::Passes(Some(why)) => format!("let through: {why}"),
            Self::Lane(doubt) => format!("not refused, but shares the lane: {doubt}"),
        }
    }
}

/// The mode of all processes, if absent ids pass in it.
pub(crate) fn milder(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Off => Some("the mode of all processes is off"),
        Mode::Shadow => Some("the mode of all processes is shadow"),
        _ => None,
    }
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let mut filter = arguments.target.read().await?;
    let looked = filter.look(&arguments.ids).await?;
    let (mut text, mut values, mut refused) = (String::new(), Vec::new(), false);
    for (id, looked) in arguments.ids.iter().zip(looked) {
        let inserts = filter.inserts(id.as_bytes()).await?;
        let shard = &filter.shards[inserts.shard];
        let fate = Fate::of(looked, shard);
        refused |= fate == Fate::Refused;
        let reasons = reasons(looked, fate, &inserts, shard);
        text += &format!("{}: {}\n", words::id(id.as_bytes()), fate.words());
        for reason in &reasons {
            text += &format!("  {reason}\n");
        }
        values.push(value(id, looked, fate, &inserts, shard, &reasons));
    }
    let notes = notes(&filter);
    for note in &notes {
        text += &format!("{note}\n");
    }
    say(json, &text, &json!({ "ids": values, "notes": notes }))?;
    Ok(Ending::wrong_if(refused))
}

fn value(
    id: &str,
    looked: Looked,
    fate: Fate,
    inserts: &Inserts,
    shard: &Shard,
    reasons: &[String],
) -> Value {
    let (verdict, by) = match looked.verdict {
        Verdict::Absent(proof) => ("absent", Some(proof.as_str())),
        Verdict::Unknown(doubt) => ("unknown", Some(doubt.as_str())),
        _ => ("present", None),
    };
    json!({
        "id": id,
        "request": fate.name(),
        "verdict": verdict,
        "by": by,
        "only_without_credentials": looked.only_anonymous,
        "digest": inserts.digest,
        "shard": inserts.shard,
        "generation": shard.generation().ok().map(bloom_guard::Generation::get),
        "inserted_since_build_ms": inserts.inserted_ms,
        "journal_is_complete": inserts.is_complete,
        "mark_ends_ms": inserts.mark_ends_ms,
        "why": reasons,
    })
}

/// Why the filter says so, sentence by sentence.
fn reasons(looked: Looked, fate: Fate, inserts: &Inserts, shard: &Shard) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.push(match looked.verdict {
        Verdict::Absent(Proof::Null) => of_null(looked, inserts),
        Verdict::Absent(_) => "absent by the filter: the live filter does not contain it".to_owned(),
        Verdict::Unknown(doubt) => format!("unknown: {doubt}. {}", doubt.advice()),
        _ => format!(
            "present: the filter may contain it; it exists, or is a false positive ({} absent ids are)",
            shard.numbers().map_or_else(|_| "some".to_owned(), |numbers| words::rate(numbers.3))
        ),
    });
    if fate == Fate::Lane(Doubt::Settling) {
        reasons.push(format!("it is not refused yet. {}", Doubt::Settling.advice()));
    }
    reasons.extend(of_build(shard));
    reasons.push(of_inserts(looked, inserts, shard));
    reasons.push(format!("digest {}, which stands for it in the log of refusals", inserts.digest));
    reasons
}

fn of_null(looked: Looked, inserts: &Inserts) -> String {
    let whom = match looked.only_anonymous {
        true => "requests without Cookie and Authorization",
        false => "all requests",
    };
    let rest = inserts.null_ends_in_ms.map_or_else(|| "over now".to_owned(), words::span_ms);
    format!(
        "absent by a null: a handler answered 404 for it, or it was removed; that holds for {whom}, for {rest} more"
    )
}

fn of_build(shard: &Shard) -> Option<String> {
    let (generation, numbers) = (shard.generation().ok()?, shard.numbers().ok()?);
    let ms = generation.get() / 1000;
    Some(format!(
        "generation {generation}: its build began {} ({} ago), and found {} ids",
        words::moment(ms),
        words::span_ms(shard.now_us / 1000 - ms),
        words::number(numbers.0)
    ))
}

/// What is known of inserts since the build.
fn of_inserts(looked: Looked, inserts: &Inserts, shard: &Shard) -> String {
    if let Some(ms) = inserts.inserted_ms {
        let ago = words::span_ms(shard.now_us / 1000 - ms);
        return format!("inserted {} ({ago} ago), by the journal", words::moment(ms));
    }
    if let Some(ends) = inserts.mark_ends_ms {
        let ms = ends - shard.metadata.reach_ms;
        return format!(
            "inserted lately, at about {}, by its create mark: by the application, or by the canary that found it missing",
            words::moment(ms)
        );
    }
    if shard.away.is_some() {
        return "whether it was inserted cannot be told".to_owned();
    }
    if shard.generation().is_err() {
        return "the journal has no insert of it; what it lost with another Redis process cannot be told"
            .to_owned();
    }
    if !inserts.is_complete {
        return "whether it was inserted since cannot be told: the journal does not reach back that far"
            .to_owned();
    }
    match looked.verdict {
        Verdict::Absent(Proof::Filter) => {
            "not inserted since, and the source did not give it. If the record is newer than the build, it was created without \
             insert; if older, the source leaves it out, or the filter is another's; or it is written otherwise (7 or 007)"
                .to_owned()
        }
        _ => "not inserted since the build began".to_owned(),
    }
}

/// What holds for all ids.
pub(crate) fn notes(filter: &Filter) -> Vec<String> {
    let Some(shard) = filter.shards.iter().find(|shard| shard.away.is_none()) else {
        return Vec::new();
    };
    let (metadata, now_ms) = (&shard.metadata, shard.now_us / 1000);
    let mut notes = Vec::new();
    if now_ms - metadata.polled_ms > AWAY_MS {
        let since = words::span_ms(now_ms - metadata.polled_ms);
        notes.push(format!(
            "No process has polled this filter for {since}: the next one that does has it settle anew."
        ));
    }
    notes
}
