#![no_main]

quorate_fuzz::packets!(QUIC, TLS);
