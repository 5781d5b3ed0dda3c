//! The rules of the protocol, each of which an instance can leave out.
//!
//! The numbers are those of the design. Of what this model has no words for, the simulation has it: the real length of R10's wait,
//! the audit of copies (R21), the order of a copy's bits and its position in memory (R22), modes, removals, shards, two primaries.

/// What a rule says. L is the longest transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Numbers follow Redis's clock, so that none is given twice, whatever is lost.
    R1Clock,
    /// Every id of a call has a number of its own.
    R1EachId,
    /// The floor is a member of the record: one read gives entries and floor.
    R2FloorInRecord,
    /// Inserts and polls compare the live filter's stamp with the last number, and put a filter with another out of use.
    R3Stamp,
    /// Inserts and polls compare the record's greatest number with the last one, and raise the floor where it is another.
    R4Greatest,
    /// The building filter has a stamp. An insert that finds another does not raise it, and a swap wants the last number.
    R5Stamp,
    /// The building filter counts its uploaded pieces, and a swap wants them all.
    R5Pieces,
    /// Only a lease makes a building filter: a leader that finds none gives up.
    R5MadeOnce,
    /// A lease that expired is taken again only where its building filter is there.
    R5LeaseWithNext,
    /// A scan that outgrows its filter begins again at a new lease.
    R5Outgrown,
    /// An acknowledgement counts only in the incarnation that is joined when it is read.
    R6Incarnation,
    /// An acknowledgement counts only within a deadline, by which every wait is longer.
    R7Deadline,
    /// A new incarnation puts the live filter out of use.
    R8Disproved,
    /// Own inserts are repeated in a new incarnation.
    R9Repeated,
    /// What is to be repeated is not forgotten by age.
    R9Kept,
    /// A process that has forgotten own inserts says until when they may become visible, and swaps want a later lease.
    R9Vouched,
    /// Scans wait until who has joined has repeated its inserts. Left out: nobody waits.
    R10Wait,
    /// It is the scan that waits. Left out: the swap does.
    R10BeforeScan,
    /// From the lease on inserts go to the building filter, too.
    R11Both,
    /// The record is not whole where a floor that counts is younger than the lease less L.
    R12Floor,
    /// Nor where its greatest number is not the last one.
    R12Greatest,
    /// The floor that R4 raises counts.
    R12Raised,
    /// Who finds the record not whole after the scan gives up: to wait is too late.
    R12AfterScan,
    /// A filter is known by token and nonce; a token alone may be given twice.
    R13Nonce,
    /// A swap wants the incarnation of its lease.
    R13Incarnation,
    /// The position of a leader's own filter is not the last number at the upload.
    R14NotUpload,
    /// Nor the one at the swap.
    R14NotSwap,
    /// It is the one at the read of the record only if that was whole, else the lease's.
    R14OnlyWhole,
    /// What may say "absent" reads the metadata.
    R15Metadata,
    /// It reads them after what is asked for.
    R15Between,
    /// It wants the header's token to be the live one of the metadata.
    R15Live,
    /// It reads the header once more behind the metadata.
    R15SecondHeader,
    /// A fence proves nothing where the floor is above the copy's position.
    R16Floor,
    /// Nor where what it read ends below the header's stamp.
    R16Reaches,
    /// A copy's position becomes the end of what was read, and not the last number when the reply is handled.
    R16Position,
    /// A page with the floor in it moves no position.
    R16PageFloor,
    /// A reply counts only for a copy whose position is not below the one asked from.
    R17Position,
    /// So does a page's.
    R17PagePosition,
    /// A request does not join a fence that was sent.
    R17NotJoined,
    /// A copy's position is the stamp of the first header of its load.
    R18FirstHeader,
    /// No null is stored of an id in the record.
    R19Recent,
    /// Nor later than a handler may take.
    R19InTime,
    /// Nor where the floor rose lately.
    R19Floor,
    /// Nor where the record's greatest number is not the last one.
    R19Greatest,
    /// An insert deletes nulls.
    R19Deleted,
    /// Who has inserts to repeat believes in no absence.
    R20Repeated,
    /// Settling ends by a rebuild whose lease is later. Left out: whose swap is.
    R20Lease,
    /// Strictly later.
    R20StrictlyLater,
    /// Settling ends by a rebuild. Left out: by the clock.
    R20Rebuild,
}

/// Which rules hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules(u64);

impl Rules {
    pub(crate) fn all_but(left_out: &[Rule]) -> Self {
        Self(left_out.iter().fold(u64::MAX, |rules, rule| rules & !(1 << *rule as u64)))
    }

    pub(crate) fn has(self, rule: Rule) -> bool {
        self.0 >> rule as u64 & 1 == 1
    }
}
