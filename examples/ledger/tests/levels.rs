//! The ledger behaves as its first version until the replicas have agreed on feature level 1.

use ledger::{Entry, Ledger, Refusal};
use quorate::{BlockContext, FeatureLevel, Height, StateMachine};

#[test]
fn transfers_to_oneself_are_refused_from_level_1_on() {
    let mut ledger = Ledger::default();
    let at_level = |level| BlockContext::untimed(Height(1)).at_level(FeatureLevel(level));
    let to_herself = || Entry::Transfer { from: "ada".into(), to: "ada".into(), amount: 5, until_ms: None };
    let deposit = Entry::Deposit { to: "ada".into(), amount: 70 };
    ledger.apply(&at_level(0), deposit).expect("deposits are accepted");
    assert_eq!(ledger.apply(&at_level(0), to_herself()).map(|receipt| receipt.to), Ok(70));
    assert_eq!(ledger.apply(&at_level(1), to_herself()), Err(Refusal::SameAccount));
    assert_eq!(ledger.query("ada".into()), Some(70));
}
