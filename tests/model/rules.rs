//! The rules, by their numbers in the design. An instance can leave them out. L is the longest transaction.
//!
//! Left to the simulation are the real length of R10's wait, the audit of copies (R21), the order of a copy's bits and
//! its position in memory (R22), modes, removals, shards, two primaries.

/// What a rule says is its documentation, and is told where it was left out.
macro_rules! rules {
    ($($rule:ident = $text:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Rule { $(#[doc = $text] $rule),* }

        impl Rule {
            pub(crate) fn says(self) -> &'static str {
                match self { $(Self::$rule => $text),* }
            }
        }
    };
}

rules! {
    R1Clock = "Numbers follow Redis's clock, so that none is given twice, whatever is lost.",
    R1EachId = "Every id of a call has a number of its own.",
    R2FloorInRecord = "The floor is a member of the record: one read gives entries and floor.",
    R3Stamp = "Inserts and polls put a live filter out of use whose stamp is not the last number.",
    R4Greatest = "Inserts raise the floor where the record's greatest number is not the last one.",
    R5Stamp = "Inserts raise the stamp of the building filter only from the number before, and a swap wants the last.",
    R5Pieces = "The building filter counts its uploaded pieces, and a swap wants them all.",
    R5MadeOnce = "Only a lease makes a building filter: a leader that finds none gives up.",
    R5LeaseWithNext = "A lease that expired is taken again only where its building filter is there.",
    R6Incarnation = "An acknowledgement counts only in the incarnation that is joined when it is read.",
    R7Deadline = "An acknowledgement counts only within a deadline, by which every wait is longer.",
    R8Disproved = "A new incarnation puts the live filter out of use.",
    R9Repeated = "Own inserts are repeated in a new incarnation.",
    R9Kept = "What is to be repeated is not forgotten by age.",
    R9Vouched = "Who has forgotten own inserts says until when they may become visible, and swaps want a later lease.",
    R10Wait = "Scans wait until who has joined has repeated its inserts.",
    R10BeforeScan = "It is the scan that waits, and not the swap.",
    R11Both = "From the lease on inserts go to the building filter, too.",
    R12Floor = "The record is not whole where a floor that counts is younger than the lease less L: scans wait.",
    R12Greatest = "Nor where its greatest number is not the last one.",
    R12Raised = "The floor that R4 raises counts.",
    R12AfterScan = "Who finds the record not whole after the scan gives up: it is too late to wait.",
    R13Nonce = "A filter is known by token and nonce: a token alone may be given twice.",
    R13Incarnation = "A swap wants the incarnation of its lease.",
    R14NotUpload = "The position of a leader's own filter is not the last number at the upload.",
    R14NotSwap = "Nor that at the swap.",
    R14OnlyWhole = "It is that at the read of the record only if the record was whole, else that of the lease.",
    R15Metadata = "Whatever may say \"absent\" reads the metadata.",
    R15Between = "It reads them after what is asked for.",
    R15Live = "It wants the header's token to be the live one by the metadata.",
    R15SecondHeader = "It reads the header once more behind the metadata.",
    R16Floor = "A fence proves nothing where the floor is above the copy's position.",
    R16Reaches = "Nor where what it read ends below the header's stamp.",
    R16Position = "A copy's position becomes the end of what was read, not the last number when the reply is handled.",
    R16PageFloor = "A page with the floor in it moves no position.",
    R17Position = "A fence's reply counts only for a copy whose position is not below the one asked from.",
    R17PagePosition = "So does a page's.",
    R17NotJoined = "A request does not join a fence that was sent.",
    R18FirstHeader = "A copy's position is the stamp of the first header of its load.",
    R19Recent = "No null is stored of an id in the record.",
    R19InTime = "Nor later than a handler may take.",
    R19Floor = "Nor where the floor rose lately.",
    R19Greatest = "Nor where the record's greatest number is not the last one.",
    R19Deleted = "An insert deletes nulls.",
    R20Repeated = "Who has inserts to repeat believes in no absence.",
    R20Lease = "Settling ends by a rebuild whose lease is later, and not its swap.",
    R20StrictlyLater = "It is strictly later.",
    R20Rebuild = "Settling does not end by the clock.",
}
