//! Puts a filter out of use that was found incomplete.

use std::time::Duration;

use super::shard::Shard;
use crate::error::StoreError;
use crate::filter::{Generation, State};
use crate::id::Id;
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::verdict::Doubt;

static DISTRUST: Script = Script::new("distrust.lua", include_str!("distrust.lua"));

const DEADLINE: Duration = Duration::from_millis(250);

/// No state: no check takes such a filter for live.
const SPOILT: u8 = 0;

impl Shard {
    /// Puts the live filter out of use for every process, if it is still of this generation: it lacks this id, which exists, or
    /// without an id its data are damaged, whatever its source gives. A filter that took the place of a disproved one has to lack a
    /// second id.
    pub(crate) async fn distrust(
        &self,
        lacks: Option<&Id>,
        generation: Generation,
    ) -> Result<Option<Doubt>, StoreError> {
        let connection = self.connected(Purpose::Inserts, DEADLINE).await?;
        let keys = [self.known.keys.bits.as_str(), self.known.keys.meta.as_str()];
        let digest = lacks.map(|id| connection.identity.digester.digest(id));
        let unless_rebuilt = digest.map_or(String::new(), |_| generation.get().to_string());
        let args: [&[u8]; 6] = [
            &generation.get().to_be_bytes(),
            &[lacks.map_or(SPOILT, |_| State::Disproved.as_byte())],
            unless_rebuilt.as_bytes(),
            digest.as_ref().map_or(&[], |digest| digest.as_bytes().as_slice()),
            &[State::Live.as_byte()],
            &[State::DisprovedTwice.as_byte()],
        ];
        Ok(match connection.script(&DISTRUST, &keys, &args, DEADLINE).await?.int()? {
            1 => Some(Doubt::Disproved),
            2 => Some(Doubt::DisprovedTwice),
            _ => None,
        })
    }
}
