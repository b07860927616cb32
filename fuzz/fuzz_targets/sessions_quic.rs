#![no_main]

quorate_fuzz::sessions!(QUIC, TLS);
