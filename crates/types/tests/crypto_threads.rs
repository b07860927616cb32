//! Numbers of threads for signatures: how they are written, and what `auto` means.

use quorate_types::{CryptoThreads, MAX_AUTO_CRYPTO_THREADS, MAX_CRYPTO_THREADS, NotCryptoThreads};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

#[test]
fn every_number_parses_to_itself_and_others_are_refused() {
    for threads in (0..=MAX_CRYPTO_THREADS).map(CryptoThreads::Count).chain([CryptoThreads::Auto]) {
        assert_eq!(threads.to_string().parse(), Ok(threads));
    }
    for wrong in ["65", "-1", "two", "", "Auto", "1.5"] {
        assert_eq!(wrong.parse::<CryptoThreads>(), Err(NotCryptoThreads), "{wrong}");
    }
    let read = |number: i64| CryptoThreads::deserialize(IntoDeserializer::<Error>::into_deserializer(number));
    assert_eq!(read(3), Ok(CryptoThreads::Count(3)));
    assert_eq!(read(-1).expect_err("negative").to_string(), NotCryptoThreads.to_string());
    assert_eq!(read(65).expect_err("too many").to_string(), NotCryptoThreads.to_string());
}

#[test]
fn auto_takes_cores_that_the_replicas_leave_over() {
    let auto = |cores, replicas| CryptoThreads::Auto.of(cores, replicas);
    assert_eq!([auto(1, 1), auto(2, 1), auto(3, 1), auto(100, 1)], [0, 1, 2, MAX_AUTO_CRYPTO_THREADS]);
    assert_eq!([auto(2, 4), auto(4, 4), auto(7, 4), auto(8, 4), auto(12, 4)], [0, 0, 0, 1, 2]);
    assert_eq!(CryptoThreads::Count(7).of(1, 4), 7);
}
