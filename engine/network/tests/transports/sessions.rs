//! Selected cases of the fuzz targets `sessions_*`.

use crate::datagrams::PAIRS;
use proptest::prelude::*;
use quorate_testkit::strangers::check;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn two_sessions_behind_one_router_are_established_whatever_strangers_send(
        data in proptest::collection::vec(any::<u8>(), 2..1_500)
    ) {
        PAIRS.into_iter().for_each(|(transport, channel)| check(transport, channel, &data));
    }
}
