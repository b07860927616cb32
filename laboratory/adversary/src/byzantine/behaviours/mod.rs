//! The kinds of faults, one file each.

use crate::byzantine::kind::{Facts, Kind};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::Tactic;
use quorate_types::Signers;

/// Declares the list of kinds: `file: Type`.
macro_rules! behaviours {
    ($($file:ident: $kind:ident,)+) => {
        $(
            mod $file;
            pub use $file::$kind;

            impl From<$kind> for Chosen {
                fn from(kind: $kind) -> Chosen {
                    Chosen::$kind(kind)
                }
            }
        )+

        /// A kind with its parameter.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Chosen {
            $($kind($kind),)+
        }

        impl Chosen {
            /// All kinds, with default parameters.
            pub(crate) const ALL: &[Chosen] = &[$(Chosen::$kind($kind::DEFAULT)),+];

            pub(crate) fn facts(self) -> Facts {
                match self {
                    $(Chosen::$kind(_) => $kind::FACTS,)+
                }
            }

            /// Returns the same kind with another parameter.
            pub(crate) fn with(self, parameter: &str) -> Result<Chosen, String> {
                match self {
                    $(Chosen::$kind(_) => $kind::parse(parameter).map(Chosen::$kind),)+
                }
            }

            pub(crate) fn parameter(self) -> String {
                match self {
                    $(Chosen::$kind(kind) => kind.parameter(),)+
                }
            }

            pub(crate) fn named(self) -> Signers {
                match self {
                    $(Chosen::$kind(kind) => kind.named(),)+
                }
            }

            pub(crate) fn tactic<M: Malleable>(self) -> Box<dyn Tactic<M>> {
                match self {
                    $(Chosen::$kind(kind) => Box::new(kind.tactic()),)+
                }
            }
        }
    };
}

behaviours! {
    silent: Silent,
    slow: Slow,
    fork: Fork,
    equivocate: Equivocate,
    double_vote: DoubleVote,
    withhold_votes: WithholdVotes,
    withhold_certificates: WithholdCertificates,
    stale_certificate: StaleCertificate,
    forge_certificate: ForgeCertificate,
    corrupt_share: CorruptShare,
    inflate_view: InflateView,
    replay: Replay,
    delay: Delay,
    selective: Selective,
    forge_state: ForgeState,
    stall_state: StallState,
    repeat_offers: RepeatOffers,
    assemble_certificate: AssembleCertificate,
    forge_evidence: ForgeEvidence,
    pester: Pester,
    barren: Barren,
    invent_answers: InventAnswers,
    withhold_answers: WithholdAnswers,
    pass_over: PassOver,
    flood_relays: FloodRelays,
    overfill: Overfill,
    withhold_bundles: WithholdBundles,
    spread_to_one: SpreadToOne,
    withhold_acknowledgements: WithholdAcknowledgements,
    forge_acknowledgements: ForgeAcknowledgements,
    equivocate_batches: EquivocateBatches,
    hoard_certificates: HoardCertificates,
    show_late: ShowLate,
    busy: Busy,
    misdate: Misdate,
}
