//! Replies to clients.

use quorate_consensus::Refusal;
use quorate_consensus::data::pool::EXPIRY_MARGIN_BLOCKS;
use quorate_hosting::{Answers, ReplyCache, bad_expiry, refusal};
use quorate_types::{Bundle, BundleBuilder, ClientId, Digest, Height, ReplicaId, ReplyMode, Results};

fn bundle(expires: Height) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(1), expires);
    builder.push(ClientId(1), 1, b"command");
    builder.finish()
}

#[test]
fn in_reply_mode_none_only_replica_0_acknowledges() {
    let form = |me, mode| Answers::of(ReplicaId(me), mode).form(Results::bare());
    assert!((0..4).all(|me| form(me, ReplyMode::Each).is_some()));
    assert_eq!([0, 1].map(|me| form(me, ReplyMode::None)), [Some(Results::bare()), None]);
}

#[test]
fn a_reply_is_made_once_and_cached_while_it_fits() {
    let digest = |number: u8| Digest([number; 32]);
    let mut cache = ReplyCache::new(1000, 7);
    assert_eq!(cache.get_or_keep(digest(1), true, || ("one", 300)), "one");
    assert_eq!(cache.get_or_keep(digest(1), false, || unreachable!("the reply is cached")), "one");
    assert_eq!(cache.get_or_keep(digest(2), false, || ("two", 300)), "two");
    assert_eq!(cache.get(&digest(1)), Some(&"one"));
    assert_eq!(cache.get_or_keep(digest(3), true, || ("three", 300)), "three");
    assert_eq!([1, 2, 3].map(|number| cache.get(&digest(number)).copied()), [None, Some("two"), Some("three")]);
    assert_eq!(cache.get_or_keep(digest(4), false, || ("large", 2000)), "large");
    assert_eq!(cache.get(&digest(4)), None, "a reply that does not fit was cached");
    assert_eq!(cache.get(&digest(2)), Some(&"two"));
}

#[test]
fn replies_are_found_whether_or_not_others_were_looked_up_before() {
    let digest = |number: u32| {
        let mut bytes = [7; 32];
        bytes[28..].copy_from_slice(&number.to_le_bytes());
        Digest(bytes)
    };
    let mut cache = ReplyCache::new(10 * 200, 7);
    for number in 0..100 {
        cache.get_or_keep(digest(number), number % 3 > 0, || (number, 104));
        if number % 7 == 0 {
            assert_eq!(cache.get(&digest(number)), Some(&number));
            assert_eq!(cache.get(&digest(number.saturating_sub(9))), Some(&number.saturating_sub(9)));
            assert_eq!(cache.get(&digest(number + 1)), None);
        }
        if number >= 10 && number % 11 == 0 {
            assert_eq!(cache.get(&digest(number - 10)), None, "ten replies fit");
        }
    }
}

#[test]
fn a_bundle_that_expires_too_early_or_too_late_is_refused() {
    let now = Height(1 << 20);
    let early = Height(now.0 + EXPIRY_MARGIN_BLOCKS);
    assert!(bad_expiry(&bundle(early), now).is_some_and(|why| why.contains("may come too late")));
    assert_eq!(bad_expiry(&bundle(early.next()), now), None);
    let late = now.latest_expiry().latest_expiry();
    assert_eq!(bad_expiry(&bundle(late), now), None, "a lagging replica accepts up to twice the lifetime");
    assert!(bad_expiry(&bundle(late.next()), now).is_some_and(|why| why.contains("would have no effect")));
}

#[test]
fn a_client_with_a_reply_on_its_way_gets_no_refusal() {
    assert_eq!(refusal(Refusal::Executed, true), None);
    assert!(refusal(Refusal::Executed, false).is_some_and(|why| why.contains("reply_cache_bytes")));
    for why in [Refusal::PoolFull, Refusal::Expired] {
        assert_eq!(refusal(why, true), refusal(why, false));
        assert!(refusal(why, true).is_some());
    }
}
