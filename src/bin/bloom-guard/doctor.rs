//! x
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}
pub(crate) async fn run(_: &Arguments, _: bool) -> crate::outcome::Outcome {
    Ok(crate::outcome::Ending::Fine)
}
